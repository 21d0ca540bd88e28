"""Large arrays that stay on the GPU, and numbers whose order is known without sorting them."""
import functools

import kernel_devices
import numpy as np
from kernel_devices import NONSENSE, SMALL, call, on

from sok1x.cuda_kernels import arrays, row_init

ODD = 0x9E3779B97F4A7C15 - 2 ** 64  # products with an odd number are distinct modulo 2**64, and modulo 2**32
PRIME = 1000003


def free_bytes():
    """Free memory of the GPU."""
    memory = kernel_devices.memory()
    with memory.gpu.active():
        return memory.driver.mem_get_info()[0]


class Resident:
    """An array on the GPU; `call` takes it where a wrapper takes an `Array`. Its bytes are nonsense first.

    Args:
        shape: an int or a tuple.
        dtype: of NumPy.
        values: what it has first, a NumPy array of the same bytes.
    """

    def __init__(self, shape, dtype=np.float32, values=None):
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = np.dtype(dtype)
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        self.nbytes = self.row_bytes * self.shape[0]
        memory = kernel_devices.memory()
        self.gpu = memory.gpu
        with self.gpu.active():
            self._allocation = memory.driver.mem_alloc(max(1, self.nbytes))
            self.pointer = int(self._allocation)
            if values is None:
                self.gpu.clear(self.pointer, self.nbytes, NONSENSE)
            else:
                assert values.nbytes == self.nbytes and values.flags.c_contiguous
                self.gpu.to_device(self.pointer, values.ctypes.data, self.nbytes)

    @property
    def array(self):
        """As wrappers take it."""
        return arrays.array(self.pointer, self.dtype.name, self.shape, self.gpu)

    def read(self, first=0, count=None):
        """Rows `first` to `first + count`, as a NumPy array."""
        out = np.empty((self.shape[0] - first if count is None else count,) + self.shape[1:], self.dtype)
        with self.gpu.active():
            self.gpu.to_host(out.ctypes.data, self.pointer + first * self.row_bytes, out.nbytes)
        return out

    def rows(self, indices):
        """The rows of these indices."""
        if self.nbytes <= 1 << 28:
            return self.read()[indices]
        return np.concatenate([self.read(int(index), 1) for index in indices])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with self.gpu.active():
            self.gpu.synchronize()
            self._allocation.free()


@functools.lru_cache(maxsize=None)
def reciprocal(n):
    """The q with PRIME * q % n == 1."""
    low, high, a, b = 0, 1, n, PRIME % n
    while b:
        low, high, a, b = high, low - a // b * high, b, a % b
    assert a == 1
    return low % n


def permuted(n, first=0, count=None):
    """i * PRIME % n for i of [first, first + count): for all of [0, n) each number once. int64."""
    return np.arange(first, first + (n if count is None else count), dtype=np.int64) * PRIME % n


def place_in_permuted(number, n):
    """The i with i * PRIME % n == number."""
    return number * reciprocal(n) % n


def sample_rows(n, dim, seed):
    """Some rows of a table [n, dim]: the ends, both sides of each power of two of floats and bytes, any."""
    if n * dim < 1 << 25:
        return np.arange(n)
    random = np.random.RandomState(seed)
    borders = [2 ** power // dim + step for power in range(28, 36) for step in (-1, 0, 1)]
    rows = np.concatenate([[0, 1, n - 2, n - 1], borders, random.randint(0, n, 400)])
    return np.unique(rows[rows < n])


def initial(keys, dim, table):
    """Rows of keys, as the host has them: uniform in [-1, 1)."""
    keys = np.ascontiguousarray(keys, np.int64)
    out = np.empty((len(keys), dim), np.float32)
    with on("host"):
        call(row_init.initial_rows, 1, table, keys, "uniform", -1, 1, None, out)
    return out


def filled(n, dim, table):
    """A table on the GPU, row i of which is `initial` of key i."""
    made = Resident((n, dim))
    call(row_init.initial_rows_of_shard, 1, table, 0, 1, "uniform", -1, 1, made)
    return made


def equal(got, expected, what=""):
    """As assert_array_equal, at the speed of memory."""
    if not np.array_equal(got, expected):
        assert np.shape(got) == np.shape(expected), what
        wrong = np.flatnonzero(np.asarray(got).ravel() != np.asarray(expected).ravel())
        raise AssertionError("{}: {} of {} differ, first at {}: {} instead of {}".format(
            what, len(wrong), np.size(expected), wrong[0], np.ravel(got)[wrong[0]], np.ravel(expected)[wrong[0]]))


def shrunk(n):
    """n, or with SOK1X_TEST_SMALL=1 a few thousand that are a multiple of what n is."""
    return n if not SMALL else 4000
