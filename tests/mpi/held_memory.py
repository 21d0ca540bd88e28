"""What this process holds of memory."""
import ctypes
import gc
import os
import sys

LIBC = ctypes.CDLL(None)


class MallocInfo(ctypes.Structure):
    """What the C library's mallinfo2 gives (mallinfo where it is older): of all threads' arenas together."""
    NAMES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t if hasattr(LIBC, "mallinfo2") else ctypes.c_int) for name in NAMES]


def held():
    """(Python's blocks, bytes of malloc, resident bytes), of which the first two do not depend on the allocators."""
    gc.collect()
    mallinfo = LIBC.mallinfo2 if hasattr(LIBC, "mallinfo2") else LIBC.mallinfo
    mallinfo.restype = MallocInfo
    info = mallinfo()
    with open("/proc/self/statm") as pages:
        resident = int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return sys.getallocatedblocks(), info.uordblks + info.hblkhd, resident
