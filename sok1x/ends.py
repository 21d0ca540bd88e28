"""What a rank says when its process ends, so that other ranks of its host see it: launch/siblings.py looks.

Where Horovod or mpi4py has started MPI, it finalises it as the process ends, by an exception too, and waits there for
all ranks: nobody else hears that this one ends. So it takes another name, which others can read. And as nothing of
Python runs by then, the signal by which they end it for good (SIGHUP, 1) becomes a call of _exit(1).
"""
import atexit
import ctypes
import os
import signal

NAME = "sok1x-ends"
SIGNAL = 1  # SIGHUP, where there is one; its number is the code with which the process ends
_SIZE = "OMPI_COMM_WORLD_SIZE"
_RANK = "_SOK1X_RANK"  # the first process of a rank that has imported sok1x
_PR_SET_NAME = 15


def say(process: int) -> None:
    """Names this process, where it is the one of this number: a forked child that ends is no rank."""
    if os.getpid() != process:
        return
    try:
        library = ctypes.CDLL(None)
        if signal.getsignal(SIGNAL) == signal.SIG_DFL:  # not under nohup, nor where the program has a handler
            library.signal.argtypes, library.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
            library.signal(SIGNAL, ctypes.cast(library._exit, ctypes.c_void_p))
        library.prctl(_PR_SET_NAME, NAME.encode(), 0, 0, 0)
    except (AttributeError, OSError):  # not Linux
        return


def watch() -> None:
    """Has this process say so, if it is one of several ranks, and not what one has started: that ends as it likes."""
    if (os.environ.get(_SIZE) or "1") != "1" and os.environ.setdefault(_RANK, str(os.getpid())) == str(os.getpid()):
        atexit.register(say, os.getpid())
