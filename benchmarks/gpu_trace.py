"""What the GPU ran, and when, by NVIDIA's profiling library CUPTI: exact times, of TensorFlow's kernels and NCCL's too.

Where CUPTI or a C++ compiler is missing there is no trace, and the benchmarks time by CUDA events alone.
"""
import collections
import contextlib
import ctypes
import glob
import os
import re
import subprocess
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_trace.cc")
_FOLDERS = ("/usr/local/cuda*/lib64", "/usr/local/cuda*/lib", "/usr/local/cuda*/extras/CUPTI/lib64",
            "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu", "/opt/*/CUPTI/lib64", "/opt/*/*/CUPTI/lib64",
            "/opt/*/lib/python3*/site-packages/nvidia/*/lib", "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib")
_KINDS = {1: "copy", 2: "clear", 10: "kernel"}
_DEVICE_TO_DEVICE = 8

# kind: 'kernel', 'copy' (within the device), 'clear', or 'copy host' (to or from it). start, end: ms.
Activity = collections.namedtuple("Activity", "kind name stream start end nbytes")


class TraceMissing(RuntimeError):
    """Nothing can be traced here; says why."""


class _Record(ctypes.Structure):
    _fields_ = [("start", ctypes.c_int64), ("end", ctypes.c_int64), ("bytes", ctypes.c_int64),
                ("kind", ctypes.c_int32), ("copy_kind", ctypes.c_int32), ("stream", ctypes.c_int32),
                ("name", ctypes.c_int32)]


class Trace:
    """Makes `gpu_trace.cc`'s library and opens CUPTI. One per process.

    Raises:
        TraceMissing: no CUPTI, or no compiler.
    """

    def __init__(self):
        self._library = _build()
        problems = []
        for path in _candidates():
            problem = self._library.trace_open(path.encode())
            if not problem:
                self.cupti = path
                return
            problems.append("{}: {}".format(path, problem.decode()))
        raise TraceMissing("CUPTI (libcupti.so) {}".format("; ".join(problems) or "was not found"))

    @contextlib.contextmanager
    def recorded(self, synchronize):
        """Gives a list that, when the block is left, has the `Activity`s of all streams, by their start.

        Args:
            synchronize: function that waits for the GPU.
        """
        synchronize()
        found = []
        _check(self._library.trace_start())
        try:
            yield found
            synchronize()
        finally:
            problem = self._library.trace_stop()
        _check(problem)
        records = (_Record * max(1, self._library.trace_read(None, 0)))()
        count = self._library.trace_read(records, len(records))
        found.extend(sorted((self._activity(record) for record in records[:count]), key=lambda each: each.start))

    def _activity(self, record):
        kind = _KINDS[record.kind]
        name = self._library.trace_name(record.name).decode() if kind == "kernel" else kind
        if kind == "copy" and record.copy_kind != _DEVICE_TO_DEVICE:
            kind = name = "copy host"
        return Activity(kind, name, record.stream, record.start / 1e6, record.end / 1e6, record.bytes)


def _check(problem):
    if problem:
        raise TraceMissing(problem.decode())


def _build():
    with tempfile.TemporaryDirectory(prefix="sok1x_trace_") as folder:
        path = os.path.join(folder, "gpu_trace.so")
        try:
            made = subprocess.run([os.environ.get("CXX", "g++"), "-std=c++11", "-O1", "-shared", "-fPIC", SOURCE, "-o",
                                   path, "-ldl"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  universal_newlines=True)
        except OSError as error:
            raise TraceMissing("no C++ compiler: {}".format(error)) from error
        if made.returncode:
            raise TraceMissing("gpu_trace.cc does not compile: " + made.stdout[-500:])
        library = ctypes.CDLL(path)
    for name in ("open", "start", "stop", "name"):
        getattr(library, "trace_" + name).restype = ctypes.c_char_p
    library.trace_open.argtypes = [ctypes.c_char_p]
    library.trace_name.argtypes = [ctypes.c_int32]
    library.trace_read.restype = ctypes.c_int64
    library.trace_read.argtypes = [ctypes.POINTER(_Record), ctypes.c_int64]
    return library


def _candidates():
    """Files of CUPTI, the newest version first, each once."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder] + list(_FOLDERS)
    found = {}
    for folder in folders:
        for path in glob.glob(os.path.join(folder, "libcupti.so*")):
            found.setdefault(os.path.realpath(path), path)
    return sorted(found.values(), key=_version, reverse=True)


def _version(path):
    """The version in the file's real name: [13, 0, 85] of libcupti.so.2025.3.1 or .so.13."""
    return [int(number) for number in re.findall(r"\d+", os.path.basename(os.path.realpath(path)))]
