"""Requests taken, locked, given outputs and finished many at a time: one call into the bridge where one each would be.

The structures are NumPy's here, [n] or [n, width] of them, so that Python does not look at every field of every tensor.
"""
import ctypes
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from sok1x.graph_ops.bridge.bridge import GROUP_HOLDS, MAX_RANK, Request, RequestInfo, TensorInfo
from sok1x.graph_ops.bridge.errors import INTERNAL, CallError

_FORMATS = {ctypes.c_int32: np.int32, ctypes.c_int64: np.int64, ctypes.c_uint64: np.uint64}


def _structured(structure: Any) -> np.dtype:
    """The dtype of a ctypes structure, field for field; a pointer is an int64."""
    formats: List[Any] = []
    for _, kind in structure._fields_:
        if hasattr(kind, "_length_"):
            formats.append((_FORMATS[kind._type_], (kind._length_,)))
        else:
            formats.append(_FORMATS.get(kind, np.int64))
    names = [name for name, _ in structure._fields_]
    return np.dtype({"names": names, "formats": formats, "offsets": [getattr(structure, name).offset for name in names],
                     "itemsize": ctypes.sizeof(structure)})


TENSOR = _structured(TensorInfo)
REQUEST = _structured(RequestInfo)


def _at(array: np.ndarray) -> int:
    """Where an array lies. (`__array_interface__` says it too, and describes all fields of a structured one first.)"""
    return array.ctypes.data


class Intake:
    """What comes out of the queue, several requests at a time, into memory that is used again.

    Args:
      library: the bridge's `Library`. capacity: the most requests to take at once.

    Attributes:
      infos: ctypes array of `RequestInfo`, [capacity]. table: the same memory as a NumPy array of dtype `REQUEST`.
    """

    def __init__(self, library: Any, capacity: int) -> None:
        self._library = library
        self._capacity = capacity
        self._count = ctypes.c_int32()
        self._at_count = ctypes.byref(self._count)
        self.infos = (RequestInfo * capacity)()
        self.table = np.frombuffer(self.infos, REQUEST)

    def rows(self, count: int) -> List[Tuple[int, ...]]:
        """The fields of the first `count` of `infos`, in order; pointers as ints."""
        return self.table[:count].tolist()

    def take(self, lane_us: Optional[int], spin_us: int, wait_us: int, inbox: Optional[int] = None,
             pause_us: int = 0) -> Tuple[int, int]:
        """Takes what is next in the queue: all requests that are there, up to the capacity.

        Where the `session.run` before this one had more requests that run together, it waits a little for the next of
        them (groups/lane.h).

        Args:
          lane_us: requests that C++ has learned to run are run there and then, and not seen here; and how long it looks
            for what comes next all the time, in microseconds. None: all are given out.
          spin_us: microseconds to look all the time. wait_us: to sleep then, until something comes; below 0: no limit.
          inbox: the address of launch's `Inbox`: it returns too as soon as there is something in it. pause_us: how long
            to sleep then between two looks into it.

        Returns:
          (kind, count): REQUEST, CANCELLATION, SESSION_END, or 0, and how many of `infos` are filled: 1 for a
          cancellation (`id`) and for the end of a session (`session`), 0 where nothing came, or nothing that is left.
        """
        lane_us = -1 if lane_us is None else lane_us
        return self._library.take(spin_us, wait_us, inbox, pause_us, lane_us, self.infos, self._capacity,
                                  self._at_count), self._count.value


def all_initialized(requests: Sequence[Request]) -> bool:
    """Whether all variables of all requests have been initialized; no where one's group holds locks."""
    handles = (ctypes.c_void_p * len(requests))(*[request.handle for request in requests])
    return bool(requests[0].library.all_initialized(handles, len(requests)))


class RequestGroup:
    """Requests of one operation on one device that run as one.

    A member can still be used by itself, as the way out for one that needs something of its own. Before it takes its
    variables (`Request.variables`, `Request.check_initialized`) the group must have unlocked, and the group must not
    lock while a member holds its own: two that wait for a lock with one in hand could wait for each other for ever.
    Both are refused. A member that finishes by itself leaves the group.

    Attributes:
      requests: the members, [n]; None in the place of one that the group has finished.
      variables: `TENSOR` [n, v] after `lock`: the members' variables, v as many as that of them has that has most.
    """

    def __init__(self, library: Any, requests: Sequence[Request]) -> None:
        self._library = library
        self.requests: List[Optional[Request]] = list(requests)
        self.variables: Optional[np.ndarray] = None
        self._most_inputs = max([request.input_count for request in requests], default=0)
        self._most_resources = max([request.resource_count for request in requests], default=0)
        handles = (ctypes.c_void_p * len(requests))(*[request.handle for request in requests])
        self._handle = library.group_open(handles, len(requests))

    @property
    def handle(self) -> int:
        """The bridge's group."""
        return int(self._handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):  # None where it was never made
            self._library.group_close(self._handle)

    def begin(self) -> None:
        """As `Request.begin`, for all in one order of the streams. They run on the same device."""
        gpu = self.requests[0].gpu if self.requests[0] is not None else None
        if gpu is None:
            return
        for request in self.requests:
            if request is not None:
                request.begun()
        self._library.group_begin(self._handle, gpu.stream, gpu.event)

    def inputs(self) -> np.ndarray:
        """`TENSOR` [n, i]: the members' inputs, those in host memory last; zeros behind the last of a member."""
        infos = np.zeros((len(self.requests), self._most_inputs), TENSOR)
        self._library.group_inputs(self._handle, _at(infos), self._most_inputs)
        return infos

    def lock(self, exclusive: bool) -> np.ndarray:
        """Locks all variables of all members: shared for reading, `exclusive` for writing in place.

        In one order, that of TensorFlow's ops that lock several, and none twice: members may share a table.

        Returns:
          int32 [n]: 0; -1-i where variable i of the member has not been initialized; or a status code. Of a member
          with another code than 0 nothing is locked that no other needs, and `variables` has zeros for it.

        Raises:
          CallError: INTERNAL where the group, or a member by itself, holds locks already.
        """
        self.variables = np.zeros((len(self.requests), self._most_resources), TENSOR)
        codes = np.zeros(len(self.requests), np.int32)
        if self._library.group_lock(self._handle, int(exclusive), _at(self.variables), self._most_resources,
                                    _at(codes)) == GROUP_HOLDS:
            raise CallError(INTERNAL, "a group of requests, or one of them, holds locks already")
        if codes.any():
            self.variables[codes != 0] = np.zeros((), TENSOR)
        return codes

    def unlock(self) -> None:
        """Ends `lock`; without one it does nothing."""
        self._library.group_unlock(self._handle)

    def outputs(self, members: Sequence[int], indices: Sequence[int], shapes: Any,
                ranks: Optional[Sequence[int]] = None) -> Tuple[np.ndarray, np.ndarray]:
        """Allocates outputs of members, in any order, m in all; none twice.

        Args:
          members: [m], numbers of members. indices: [m], which of that member's outputs; those in host memory come
            after its `device_output_count` others.
          shapes: int64 [m, r], or a sequence of m tuples of any lengths; of up to 8 dimensions.
          ranks: [m], how many numbers of each shape count, up to r; default: all.

        Returns:
          (pointers, codes): int64 [m] and int32 [m]; code 0, or why an output could not be allocated, and then pointer
          0. Pointers to outputs without elements say nothing.
        """
        count = len(members)
        dims = np.empty((count, MAX_RANK), np.int64)
        if isinstance(shapes, np.ndarray):
            dims[:, :shapes.shape[1]] = shapes
            lengths: Any = shapes.shape[1] if ranks is None else ranks
        else:
            dims[...] = [tuple(shape) + (0,) * (MAX_RANK - len(shape)) for shape in shapes]
            lengths = [len(shape) for shape in shapes] if ranks is None else ranks
        given = np.empty((3, count), np.int32)
        given[0], given[1], given[2] = members, indices, lengths
        pointers, codes = np.empty(count, np.int64), np.empty(count, np.int32)
        at = _at(given)
        self._library.group_outputs(self._handle, count, at, at + 4 * count, at + 8 * count, _at(dims), _at(pointers),
                                    _at(codes))
        return pointers, codes

    def temporary(self, nbytes: int) -> int:
        """A pointer to scratch memory from TensorFlow's allocator, for others again when all members have finished.

        Raises:
          CallError: it could not be allocated.
        """
        data = ctypes.c_void_p()
        code = self._library.group_temporary(self._handle, nbytes, ctypes.byref(data))
        if code:
            raise CallError(code, "TensorFlow's allocator could not give {} bytes; use a smaller batch, or leave it "
                                  "more memory".format(nbytes))
        return data.value or 0

    def finish(self) -> None:
        """Ends all members that have not finished, successfully; locks that are held end before."""
        for request in self.requests:
            if request is not None and not request.finished:
                request.ended()
        self.requests = [None] * len(self.requests)
        self._library.group_finish(self._handle)

    def finish_one(self, member: int, code: int = 0, message: str = "") -> None:
        """Ends one member: successfully, or with a status `code` and `message`."""
        request = self.requests[member]
        assert request is not None, "request finished twice"
        self.requests[member] = None
        request.finish(code, message)
