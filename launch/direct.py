"""A communicator as C++ has it: the library's functions, which it calls without Python, and word of what it does.

Kept in step with the Direct of graph_ops/groups/exchanges.h.
"""
import ctypes

_FUNCTIONS = {
    "alltoallv": "MPI_Alltoallv", "allgatherv": "MPI_Allgatherv", "iallreduce": "MPI_Iallreduce", "wait": "MPI_Wait",
    "group_start": "ncclGroupStart", "group_end": "ncclGroupEnd", "send": "ncclSend", "recv": "ncclRecv",
    "all_gather": "ncclAllGather", "broadcast": "ncclBroadcast"}
_NUMBERS = ("rank", "ranks", "limit", "inside", "since", "gathers", "bytes_sent", "exchanges", "comm", "alltoallv",
            "allgatherv", "iallreduce", "wait", "byte", "uint8", "max", "status", "local", "inside_comm", "across_comm",
            "group_start", "group_end", "send", "recv", "all_gather", "broadcast", "stream")


class Direct(ctypes.Structure):
    """See exchanges.h there."""

    _fields_ = [(name, ctypes.c_int64) for name in _NUMBERS] + [("op", ctypes.c_char * 160)]

    def busy(self, before):
        """What `Communicator.busy` says of what C++ has under way; before: what this said last, which it says again."""
        since = self.since * 1e-9
        if not since:
            return None
        return before if before is not None and before[2] == since else (
            "all_gather" if self.gathers else "all_to_all", self.op.decode("utf-8", "replace"), since)


def of_mpi(MPI, comm, rank, size, limit, status):
    """The Direct of an mpi4py communicator `comm`. status: an MPI.Status, which must live as long."""
    made = Direct(rank, size, limit, byte=MPI._handleof(MPI.BYTE), uint8=MPI._handleof(MPI.UINT8_T),
                  max=MPI._handleof(MPI.MAX), comm=MPI._handleof(comm), status=MPI._addressof(status))
    return _with(made, ctypes.CDLL(MPI.__file__), ("alltoallv", "allgatherv", "iallreduce", "wait"))


def of_nccl(functions, comm, rank, size, stream):
    """The Direct of NCCL's communicator `comm`. functions: dict of its functions by name."""
    made = Direct(rank, size, comm=comm, stream=stream)
    for field in ("group_start", "group_end", "send", "recv", "all_gather", "broadcast"):
        setattr(made, field, ctypes.cast(functions[_FUNCTIONS[field]], ctypes.c_void_p).value)
    return made


def _with(made, library, fields):
    for field in fields:
        setattr(made, field, ctypes.cast(getattr(library, _FUNCTIONS[field]), ctypes.c_void_p).value)
    return made
