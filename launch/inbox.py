"""What the executor, while it waits, looks into for messages of other ranks, and sends by, without Python's help."""
import ctypes

_INT, _POINTER, _NUMBER = ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
PROBE = ctypes.CFUNCTYPE(_INT, _INT, _INT, _POINTER, _NUMBER, _POINTER)
RECV = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, _POINTER, _INT, _INT, _POINTER, _POINTER)
ISEND = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, _POINTER, _INT, _INT, _POINTER, _POINTER)
TEST = ctypes.CFUNCTYPE(_INT, _POINTER, _NUMBER, _POINTER)
GET_COUNT = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _NUMBER)

_SOMEBODY = 0x5EED  # a rank that there is none of


class Inbox(ctypes.Structure):
    """MPI's functions: MPI_Iprobe, and its arguments; and what sends and receives (groups/post.h in graph_ops).

    Kept in step with the Inbox of graph_ops' bridge_queue.h.
    """

    _fields_ = [("probe", PROBE), ("comm", ctypes.c_void_p), ("status", ctypes.c_void_p), ("source", ctypes.c_int32),
                ("tag", ctypes.c_int32), ("recv", RECV), ("isend", ISEND), ("test", TEST), ("get_count", GET_COUNT),
                ("byte", ctypes.c_void_p), ("source_at", ctypes.c_int64)]


def of_mpi(MPI, comm, tag, status):
    """The Inbox of messages with a tag, from any rank.

    Args:
        MPI: The module mpi4py.MPI.
        comm: An mpi4py communicator.
        status: An MPI.Status, which must live as long as the Inbox, as must all others.
    """
    library = ctypes.CDLL(MPI.__file__)
    probe, recv, isend, test, get_count = [ctypes.cast(function, kind) for function, kind in (
        (library.MPI_Iprobe, PROBE), (library.MPI_Recv, RECV), (library.MPI_Isend, ISEND), (library.MPI_Test, TEST),
        (library.MPI_Get_count, GET_COUNT))]
    return Inbox(probe, MPI._handleof(comm), MPI._addressof(status), MPI.ANY_SOURCE, tag, recv, isend, test, get_count,
                 MPI._handleof(MPI.BYTE), _source_at(MPI))


def _source_at(MPI):
    """Where in the MPI library's status the sender is: each library has another order."""
    status = MPI.Status()
    status.Set_source(_SOMEBODY)
    memory = ctypes.string_at(MPI._addressof(status), MPI._sizeof(MPI.Status))
    return memory.index(_SOMEBODY.to_bytes(4, "little"))
