"""Large pages for the tables in host memory (host_memory.cu).

Rows of a table are read in random order: with 4 KB pages almost every row costs a miss in the TLB besides the miss in
the cache. With 2 MB pages a gather of 53 k rows of 128 bytes from 128 MB takes about half the time.
"""
from .arrays import Array
from .backend import INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("advise_large_pages", None, POINTER, INT64)


def advise_large_pages(array: Array) -> None:
    """Asks the system to back an array with large pages. To be called before the array is first written.

    It is advice: where the system cannot or will not, nothing changes.
    """
    if current() is None:
        kernels.advise_large_pages(array.pointer, array.nbytes)
