"""Compiles the kernels for a GPU: one .cu of this folder with nvcc, at first use, into a cubin that is kept.

kernel_cache.py keeps it, under a hash of the source, of the headers that it includes from here, of the flags, of
nvcc's version and of the architecture; where the folder lies has no part in it. Of the processes that want the same
cubin one compiles, and the others wait for it; several cubins wanted are shared out among the processes.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Dict, Iterable, List, Optional, Sequence, Union

from . import nvcc
from .kernel_cache import KernelCache, Lock

FOLDER = os.path.dirname(os.path.abspath(__file__))

# As on the host no contraction into fused multiply-adds and no fast-math: where the order of a sum is the same, its
# bits are. Lines are named for the profiler and compute-sanitizer; that costs no time.
FLAGS = ["-O3", "-std=c++14", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "-lineinfo",
         "-Wno-deprecated-gpu-targets"]

# nvcc reads these by itself: what a user changes there must not find the old binary.
NVCC_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")

MOST_PROCESSES = 8
POLL_SECONDS = 0.01
# A process that waits for another's compilation says so, and at last compiles for itself: the other may be stopped,
# or on a node that is gone, with its lock left on a shared file system.
SAY_SECONDS = 10.0
WAIT_SECONDS = 300.0

_INCLUDE = re.compile(br'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def names() -> List[str]:
    """The kernel families, sorted: every NAME.cu but host_*.cu, which are the host's alone."""
    files = sorted(os.listdir(FOLDER))
    return [file[:-3] for file in files if file.endswith(".cu") and not file.startswith("host_")]


def cubin(name: str, architecture: str) -> bytes:
    """The binary of NAME.cu for an architecture: from the cache, or compiled now.

    Args:
        name: a kernel family, one of `names()`.
        architecture: 'sm_90' and the like.

    Returns:
        The cubin's bytes.

    Raises:
        nvcc.Missing: there is no nvcc. It is asked for its version where the binary is in the cache, too.
        RuntimeError: nvcc fails, or does not know the architecture; the message has its output.
        ValueError: an unknown name, or what is no architecture.
    """
    return cubins([name], architecture)[name]


def cubins(families: Iterable[str], architecture: str) -> Dict[str, bytes]:
    """Binaries of several families; those not in the cache are compiled with as many nvcc at once as there are cores.

    Args:
        families: some of `names()`.
        architecture: 'sm_90' and the like.

    Returns:
        A dict: name to the cubin's bytes.

    Raises:
        As `cubin`. What was compiled before the failure is kept.
    """
    families = list(families)
    _check(families, architecture)
    build = _Build(families, architecture, nvcc.find(), KernelCache())
    try:
        while not build.step():
            time.sleep(POLL_SECONDS)
    finally:
        build.close()
    return {name: build.found[name] for name in families}


class _Build:
    """Several cubins on their way: those found, those that nvcc is at work on, and those waiting for either."""

    def __init__(self, families: Sequence[str], architecture: str, compiler: str, cache: KernelCache) -> None:
        self._architecture, self._compiler, self._cache = architecture, compiler, cache
        self._processes = min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
        self.found: Dict[str, bytes] = {}
        self._running: List[_Compilation] = []
        self._waiting = {name: _entry(name, architecture, compiler) for name in families}
        self._idle_since: Optional[float] = None
        self._said, self._locks_are_lost = False, False

    def step(self) -> bool:
        """Does what can be done without waiting; returns whether everything is found."""
        for name, entry in list(self._waiting.items()):
            self._take_up(name, entry)
        for one in [one for one in self._running if one.ended()]:
            self._collect(one)
        if self._running or not self._waiting:
            self._idle_since = None
        else:
            self._wait_for_others()
        return not self._running and not self._waiting

    def close(self) -> None:
        """Ends what runs."""
        for one in self._running:
            one.close()

    def _take_up(self, name: str, entry: str) -> None:
        """Loads an entry or starts to compile it; what another process compiles is left for later."""
        binary, lock = self._cache.load(entry), None
        if binary is None and len(self._running) < self._processes:
            lock = Lock() if self._locks_are_lost else self._cache.try_lock(entry)
            # Whoever had the lock before may just have written the entry.
            binary = self._cache.load(entry) if lock else None
        if binary is not None:
            self.found[name] = binary
            if lock:
                lock.release()
        elif lock:
            self._running.append(_Compilation(self._compiler, name, self._architecture, entry, lock))
        else:
            return
        del self._waiting[name]
        self._idle_since = None

    def _collect(self, one: "_Compilation") -> None:
        binary, entry = one.binary(), _entry(one.name, self._architecture, self._compiler)
        if entry == one.entry:
            self._cache.store(entry, binary)
            self.found[one.name] = binary
        else:  # A source was edited meanwhile, and nobody knows which text nvcc has read.
            self._waiting[one.name] = entry
        self._running.remove(one)
        one.close()

    def _wait_for_others(self) -> None:
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since > SAY_SECONDS and not self._said:
            self._said = True
            sys.stderr.write("sok1x: waiting for another process to compile {} for {}; its lock is in {}.\n".format(
                ", ".join(name + ".cu" for name in self._waiting), self._architecture, self._cache.folder))
        if now - self._idle_since > WAIT_SECONDS:
            self._locks_are_lost = True


class _Compilation:
    """An nvcc process at work on one family, the lock on its entry, and a temporary folder of its own."""

    def __init__(self, compiler: str, name: str, architecture: str, entry: str, lock: Lock) -> None:
        self.name, self.entry = name, entry
        self._compiler, self._architecture, self._lock = compiler, architecture, lock
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._folder = tempfile.mkdtemp(prefix="sok1x_nvcc_")
        self._output, self._log = os.path.join(self._folder, name + ".cubin"), os.path.join(self._folder, "log")
        self._command = ([compiler, "-cubin", "-arch=" + architecture] + FLAGS
                         + ["-o", self._output, os.path.join(FOLDER, name + ".cu")])
        try:
            with open(self._log, "wb") as log:
                # nvcc's own temporary files, too, go where they are removed if it is killed.
                self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=subprocess.STDOUT, env=dict(os.environ, TMPDIR=self._folder))
        except BaseException:
            self.close()
            raise

    def ended(self) -> bool:
        return self._exit_code() is not None

    def binary(self) -> bytes:
        """What nvcc has written (bytes), when it has ended. Raises RuntimeError where it failed."""
        with open(self._log, "rb") as log:
            output = log.read().decode("utf-8", "replace")
        code = self._exit_code()
        if code == 0 and os.path.exists(self._output):
            with open(self._output, "rb") as file:
                return file.read()
        known = nvcc.architectures(self._compiler)
        if known and self._architecture not in known:
            release = re.search(r"release ([\d.]+)", nvcc.version(self._compiler))
            raise RuntimeError(
                "{} (CUDA {}) cannot compile for {}, this GPU's architecture: it knows {}. Install a CUDA toolkit that "
                "knows it and say in SOK1X_NVCC where its nvcc is.".format(
                    self._compiler, release.group(1) if release else "?", self._architecture, ", ".join(known)))
        raise RuntimeError("sok1x could not compile {}.cu:\n{}\nfailed with exit code {}:\n{}".format(
            self.name, " ".join(self._command), code, output))

    def _exit_code(self) -> Optional[int]:
        """nvcc's, or None while it runs."""
        return self._process.poll() if self._process else None

    def close(self) -> None:
        """Ends nvcc if it runs, removes its files, gives the lock back."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.release()


def _check(families: Sequence[str], architecture: str) -> None:
    if not nvcc.ARCHITECTURE.fullmatch(architecture):
        raise ValueError("A GPU architecture is 'sm_' and a number, as 'sm_90'; got {!r}.".format(architecture))
    known = names()
    for name in families:
        if name not in known:
            raise ValueError("There is no kernel family {!r} for GPUs; there are {}.".format(name, ", ".join(known)))


def _entry(name: str, architecture: str, compiler: str) -> str:
    """The cache's name for a binary: family, architecture, and the hash of all that it is made from."""
    parts: List[Union[str, bytes]] = [architecture, nvcc.version(compiler), *FLAGS]
    parts += [os.environ.get(name, "") for name in NVCC_VARIABLES]
    for file, content in sorted(_sources(name).items()):
        parts += [file, content]
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode("utf-8", "surrogateescape")
        digest.update(b"%d:" % len(content) + content)
    return "{}-{}-{}".format(name, architecture, digest.hexdigest())


def _sources(name: str) -> Dict[str, bytes]:
    """{path within this folder: content} of NAME.cu and, at any depth, of what it includes from this folder."""
    found, waiting = {}, [name + ".cu"]
    while waiting:
        file = waiting.pop()
        path = os.path.join(FOLDER, file)
        # What is not here is the toolkit's, and nvcc's version stands for it.
        if file not in found and os.path.isfile(path):
            with open(path, "rb") as opened:
                found[file] = opened.read()
            waiting += [os.path.normpath(os.path.join(os.path.dirname(file), os.fsdecode(included)))
                        for included in _INCLUDE.findall(found[file])]
    return found
