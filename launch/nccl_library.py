"""NCCL through ctypes: where its library is, and its calls, each with its result checked.

ctypes gives up the GIL during a call. The numbers are those of nccl.h, which are part of NCCL's binary interface.
"""
import ctypes
import os
import sys

from . import environment
from .errors import FAILED_PRECONDITION, INTERNAL, LaunchError

UNIQUE_ID_BYTES = 128
TYPES = {"uint8": 1, "int32": 2, "int64": 4, "float16": 6, "float32": 7, "float64": 8}
_SUM, _AVERAGE = 0, 4
_KNOWS_AVERAGES = 21000
_SUCCESS, _IN_PROGRESS = 0, 7


class _UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


_POINTER, _COMM, _STREAM = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
_COUNT, _TYPE, _OP, _RANK = ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int
_ARGUMENTS = {
    "ncclGetVersion": (ctypes.POINTER(ctypes.c_int),),
    "ncclGetUniqueId": (ctypes.POINTER(_UniqueId),),
    "ncclCommInitRank": (ctypes.POINTER(_COMM), ctypes.c_int, _UniqueId, _RANK),  # the id goes by value
    "ncclCommGetAsyncError": (_COMM, ctypes.POINTER(ctypes.c_int)),
    "ncclCommAbort": (_COMM,),
    "ncclCommDestroy": (_COMM,),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclSend": (_POINTER, _COUNT, _TYPE, _RANK, _COMM, _STREAM),
    "ncclRecv": (_POINTER, _COUNT, _TYPE, _RANK, _COMM, _STREAM),
    "ncclReduceScatter": (_POINTER, _POINTER, _COUNT, _TYPE, _OP, _COMM, _STREAM),
    "ncclReduce": (_POINTER, _POINTER, _COUNT, _TYPE, _OP, _RANK, _COMM, _STREAM),
    "ncclAllGather": (_POINTER, _POINTER, _COUNT, _TYPE, _COMM, _STREAM),
    "ncclBroadcast": (_POINTER, _POINTER, _COUNT, _TYPE, _RANK, _COMM, _STREAM),
    "ncclAllReduce": (_POINTER, _POINTER, _COUNT, _TYPE, _OP, _COMM, _STREAM),
}

_loaded = {}


def load():
    """Loads NCCL: the file that SOK1X_NCCL_LIBRARY names, else the system's library, else the wheel's.

    Returns:
        An NcclLibrary, the same one at every call.

    Raises:
        LaunchError: FAILED_PRECONDITION where there is none, or it does not load, or is older than 2.7.
    """
    chosen = environment.nccl_library()
    if chosen not in _loaded:
        _loaded[chosen] = _first([chosen] if chosen else ["libnccl.so.2"] + _in_wheels())
    return _loaded[chosen]


def _in_wheels():
    """The library of the wheel nvidia-nccl-cu*, which is not on the loader's path."""
    paths = [os.path.join(folder or ".", "nvidia", "nccl", "lib", "libnccl.so.2") for folder in sys.path]
    return [path for path in paths if os.path.exists(path)]


def _first(paths):
    reasons = []
    for path in paths:
        try:
            return NcclLibrary(path)
        except (OSError, LaunchError) as error:
            reasons.append(str(error))
    raise LaunchError(FAILED_PRECONDITION, (
        "NCCL does not load ({}); install it (pip install nvidia-nccl-cu12) or name its file in "
        "SOK1X_NCCL_LIBRARY").format("; ".join(reasons)))


class NcclLibrary:
    """NCCL's functions. Communicators are its handles (int), pointers and streams are ints, counts are elements.

    Every method raises LaunchError INTERNAL with the function's name, NCCL's word for the error, and NCCL's last
    error text, where NCCL reports an error.

    Args:
        path: The library's file or name, as the loader takes it. Raises OSError where it does not load.

    Attributes:
        path: As given.
        version: '2.20.5'. averages: Whether it has averages: since 2.10.
        functions: dict of NCCL's functions by name.
    """

    def __init__(self, path):
        self.path = path
        library = ctypes.CDLL(path)
        self.functions = {}
        for name, arguments in _ARGUMENTS.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise LaunchError(FAILED_PRECONDITION, "{} is not NCCL 2.7 or newer: it has no {}".format(path, name))
            function.argtypes, function.restype = arguments, ctypes.c_int
            self.functions[name] = function
        self._error_string = library.ncclGetErrorString
        self._error_string.argtypes, self._error_string.restype = (ctypes.c_int,), ctypes.c_char_p
        try:
            self._last_error = library.ncclGetLastError
            self._last_error.argtypes, self._last_error.restype = (_COMM,), ctypes.c_char_p
        except AttributeError:
            self._last_error = None  # NCCL before 2.13
        self._group = _Together(self)
        number = ctypes.c_int(0)
        self._call("ncclGetVersion", ctypes.byref(number))
        self.version, self.averages = version_text(number.value), number.value >= _KNOWS_AVERAGES

    def _call(self, name, *arguments):
        code = self.functions[name](*arguments)
        if code != _SUCCESS:
            self._raise(name, code)

    def _raise(self, name, code):
        raise LaunchError(INTERNAL, "{} failed: {}".format(name, self._describe(code)))

    def _describe(self, code):
        text = (self._error_string(code) or b"unknown error").decode("utf-8", "replace")
        last = self._last_error(None) if self._last_error is not None else None
        last = last.decode("utf-8", "replace").strip() if last else ""
        return "{} ({})".format(text, last) if last else text

    def unique_id(self):
        """A new communicator's id (bytes), for rank 0 to give to all ranks."""
        made = _UniqueId()
        self._call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made)

    def init_rank(self, size, unique_id, rank):
        """Joins a communicator; blocks until all ranks have. The device is the one current on this thread."""
        handle = _COMM()
        self._call("ncclCommInitRank", ctypes.byref(handle), size, _UniqueId.from_buffer_copy(unique_id), rank)
        return handle.value

    def async_error(self, comm):
        """What went wrong with enqueued work, as a text, or None. Any thread."""
        code = ctypes.c_int(0)
        self._call("ncclCommGetAsyncError", comm, ctypes.byref(code))
        return None if code.value in (_SUCCESS, _IN_PROGRESS) else self._describe(code.value)

    def abort(self, comm):
        """Ends the communicator, and enqueued work that waits for other ranks."""
        self._call("ncclCommAbort", comm)

    def destroy(self, comm):
        """Ends the communicator; waits for enqueued work, and maybe for other ranks to do the same."""
        self._call("ncclCommDestroy", comm)

    def group(self):
        """Calls made inside go together: none waits for another."""
        return self._group

    def exchange(self, send, gives, recv, takes, comm, stream):
        """Enqueues giving gives[r] bytes at `send` to each rank r, and taking takes[r] from it to `recv`."""
        if not (any(gives) or any(takes)):
            return  # NCCL (2.28) keeps 176 bytes of each group with nothing in it
        functions, kind = self.functions, TYPES["uint8"]
        give, take = functions["ncclSend"], functions["ncclRecv"]
        with self._group:
            for rank, nbytes in enumerate(gives):
                if nbytes:
                    code = give(send, nbytes, kind, rank, comm, stream)
                    if code:
                        self._raise("ncclSend", code)
                    send += nbytes
                nbytes = takes[rank]
                if nbytes:
                    code = take(recv, nbytes, kind, rank, comm, stream)
                    if code:
                        self._raise("ncclRecv", code)
                    recv += nbytes

    def reduce_scatter(self, send, recv, n_each, dtype, comm, stream):
        """Enqueues summing `size` blocks of n_each elements; each rank receives its block."""
        self._call("ncclReduceScatter", send, recv, n_each, TYPES[dtype], _SUM, comm, stream)

    def reduce(self, send, recv, n, dtype, root, comm, stream):
        """Enqueues summing n elements to rank `root`'s `recv`."""
        self._call("ncclReduce", send, recv, n, TYPES[dtype], _SUM, root, comm, stream)

    def all_gather(self, send, recv, nbytes_each, comm, stream):
        """Enqueues giving all ranks the bytes of all."""
        self._call("ncclAllGather", send, recv, nbytes_each, TYPES["uint8"], comm, stream)

    def broadcast(self, send, recv, nbytes, root, comm, stream):
        """Enqueues copying rank `root`'s bytes at `send` to `recv` on all ranks."""
        self._call("ncclBroadcast", send, recv, nbytes, TYPES["uint8"], root, comm, stream)

    def all_reduce(self, send, recv, n, dtype, comm, stream, average=False):
        """Enqueues summing n elements over ranks, or averaging them."""
        self._call("ncclAllReduce", send, recv, n, TYPES[dtype], _AVERAGE if average else _SUM, comm, stream)


class _Together:
    """See `NcclLibrary.group`. A class, for a generator in its place costs 4 us each time."""

    def __init__(self, library):
        self._library = library

    def __enter__(self):
        self._library._call("ncclGroupStart")

    def __exit__(self, kind, *_):
        if kind is None:
            self._library._call("ncclGroupEnd")
        else:  # the group must be closed; the first error is the one to tell
            self._library.functions["ncclGroupEnd"]()


def version_text(number):
    """NCCL's version number as people write it: 22005 -> '2.20.5', 2708 -> '2.7.8' (how it was coded before 2.9)."""
    major, rest = divmod(number, 1000 if number < 10000 else 10000)
    return "{}.{}.{}".format(major, *divmod(rest, 100))
