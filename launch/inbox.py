"""What the executor, while it waits, looks into for messages of other ranks, without Python's help."""
import ctypes

PROBE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int),
                         ctypes.c_void_p)


class Inbox(ctypes.Structure):
    """A call of MPI_Iprobe: `probe`, and its arguments. Kept in step with the Inbox of graph_ops' bridge_queue.h."""

    _fields_ = [("probe", PROBE), ("comm", ctypes.c_void_p), ("status", ctypes.c_void_p), ("source", ctypes.c_int32),
                ("tag", ctypes.c_int32)]


def of_mpi(MPI, comm, tag, status):
    """The Inbox of messages with a tag, from any rank.

    Args:
        MPI: The module mpi4py.MPI.
        comm: An mpi4py communicator.
        status: An MPI.Status, which must live as long as the Inbox, as must all others.
    """
    probe = ctypes.cast(ctypes.CDLL(MPI.__file__).MPI_Iprobe, PROBE)
    return Inbox(probe, MPI._handleof(comm), MPI._addressof(status), MPI.ANY_SOURCE, tag)
