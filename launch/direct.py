"""A communicator as C++ has it: the library's functions, which it calls without Python, and word of what it does.

Kept in step with the Direct of graph_ops/groups/exchanges.h.
"""
import ctypes

_FUNCTIONS = {
    "alltoallv": "MPI_Alltoallv", "allgatherv": "MPI_Allgatherv", "iallreduce": "MPI_Iallreduce", "wait": "MPI_Wait",
    "allreduce": "MPI_Allreduce",
    "group_start": "ncclGroupStart", "group_end": "ncclGroupEnd", "send": "ncclSend", "recv": "ncclRecv",
    "all_gather": "ncclAllGather", "broadcast": "ncclBroadcast", "all_reduce": "ncclAllReduce"}
_NUMBERS = ("rank", "ranks", "limit", "inside", "since", "doing", "bytes_sent", "exchanges", "comm", "alltoallv",
            "allgatherv", "iallreduce", "wait", "allreduce", "byte", "uint8", "max", "float32", "float64", "sum",
            "in_place", "status", "local", "inside_comm", "across_comm", "group_start", "group_end", "send", "recv",
            "all_gather", "broadcast", "all_reduce", "averages", "stream")
_DOING = ("all_to_all", "all_gather", "all_reduce")  # by what `doing` says


class Direct(ctypes.Structure):
    """See exchanges.h there."""

    _fields_ = [(name, ctypes.c_int64) for name in _NUMBERS] + [("op", ctypes.c_char * 160)]

    def busy(self, before):
        """What `Communicator.busy` says of what C++ has under way; before: what this said last, which it says again."""
        since = self.since * 1e-9
        if not since:
            return None
        return before if before is not None and before[2] == since else (
            _DOING[self.doing], self.op.decode("utf-8", "replace"), since)


def of_mpi(MPI, comm, rank, size, limit, status):
    """The Direct of an mpi4py communicator `comm`. status: an MPI.Status, which must live as long."""
    made = Direct(rank, size, limit, byte=MPI._handleof(MPI.BYTE), uint8=MPI._handleof(MPI.UINT8_T),
                  max=MPI._handleof(MPI.MAX), comm=MPI._handleof(comm), status=MPI._addressof(status),
                float32=MPI._handleof(MPI.FLOAT), float64=MPI._handleof(MPI.DOUBLE), sum=MPI._handleof(MPI.SUM),
                in_place=int(MPI.IN_PLACE))
    return _with(made, ctypes.CDLL(MPI.__file__), ("alltoallv", "allgatherv", "iallreduce", "wait", "allreduce"))


def of_nccl(functions, comm, rank, size, stream, averages):
    """The Direct of NCCL's communicator `comm`.

    Args:
        functions: dict of NCCL's functions by name. averages: whether it may divide sums by `size`.
    """
    made = Direct(rank, size, comm=comm, stream=stream, averages=averages)
    for field in ("group_start", "group_end", "send", "recv", "all_gather", "broadcast", "all_reduce"):
        setattr(made, field, ctypes.cast(functions[_FUNCTIONS[field]], ctypes.c_void_p).value)
    return made


def _with(made, library, fields):
    for field in fields:
        setattr(made, field, ctypes.cast(getattr(library, _FUNCTIONS[field]), ctypes.c_void_p).value)
    return made
