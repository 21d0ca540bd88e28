"""What wrappers of kernels take: memory of one device with its dtype and shape, and checks that these fit each other.

An `Array` says where numbers lie. Whoever has the memory keeps it, a request its tensors, a `Gpu` what its `allocate`
gave; of a NumPy array's it keeps that. Below the wrappers, in a call of `backend.kernels`, there are pointers alone.
"""
import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, Tuple

if TYPE_CHECKING:  # it is not needed for any call, and takes a tenth of a second
    import numpy as np

ITEM_BYTES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "int32": 4, "uint32": 4,
              "float32": 4, "int64": 8, "uint64": 8, "float64": 8}

# All memory from an address on, of which NumPy looks at what its shape needs. One of each size would be a type of its
# own: made in 20 microseconds, and left to the collector of garbage.
_Memory = ctypes.c_char * (1 << 62)


class Array(NamedTuple):
    """Numbers in memory, row after row.

    A named tuple, for that cannot change, and is made in half a microsecond.

    Example:
        >>> import numpy as np
        >>> from sok1x.cuda_kernels import arrays, gather
        >>> table, out = np.arange(6, dtype=np.float32).reshape(3, 2), np.empty((2, 2), np.float32)
        >>> index = np.array([2, -1], np.int32)
        >>> gather.gather(*map(arrays.of_numpy, (table, index, out)))
        >>> out
        array([[4., 5.],
               [0., 0.]], dtype=float32)

    Attributes:
        pointer: where they begin, an int; of no numbers it may be 0.
        dtype: NumPy's name of their dtype.
        shape: as NumPy has it.
        size: how many numbers.
        gpu: the `gpu.Gpu` in whose memory they lie; None for the host's.
        stride: bytes from a row to the next where other things lie between, else 0. Kernels take 0 alone, but
            `cache_rows.move`.
        owner: what has the memory and must live as long as this, or None.
    """

    pointer: int
    dtype: str
    shape: Tuple[int, ...]
    size: int
    gpu: Any = None
    stride: int = 0
    owner: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return self.size * ITEM_BYTES[self.dtype]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's numbers, a row being what the first dimension counts."""
        nbytes = ITEM_BYTES[self.dtype]
        for length in self.shape[1:]:
            nbytes *= length
        return nbytes

    def some(self, first: int, n: int) -> "Array":
        """Rows first to first + n - 1, in place.

        Raises:
            ValueError: there are fewer.
        """
        rows, inner = self.shape[0], self.shape[1:]
        if first < 0 or n < 0 or first + n > rows:
            raise ValueError("got rows {} to {} of {}, expected no more than there are".format(
                first, first + n - 1, described(self)))
        at = self.pointer + first * (self.stride or self.row_bytes) if first else self.pointer
        return Array(at, self.dtype, (n,) + inner, self.size // rows * n if n else 0, self.gpu, self.stride, self.owner)

    def front(self, n: int) -> "Array":
        """The first n rows, in place.

        Raises:
            ValueError: there are fewer.
        """
        return self if n == self.shape[0] else self.some(0, n)

    def at(self, place: int) -> "Array":
        """One number of one dimension, in place, of shape []."""
        return Array(self.pointer + place * ITEM_BYTES[self.dtype], self.dtype, (), 1, self.gpu, 0, self.owner)

    def as_rows(self, rows: int, dim: int) -> "Array":
        """The same numbers as [rows, dim].

        Raises:
            ValueError: there are not as many.
        """
        if self.size != rows * dim:
            raise ValueError("got {}, expected as many numbers as [{}, {}] has".format(described(self), rows, dim))
        return Array(self.pointer, self.dtype, (rows, dim), self.size, self.gpu, self.stride, self.owner)

    def words(self) -> "Array":
        """The same rows as float32 [n, words]: for what copies rows by four bytes, whatever these mean.

        Raises:
            ValueError: rows are no multiple of four bytes.
        """
        words, rest = divmod(self.row_bytes, 4)
        if rest:
            raise ValueError("got {}, expected rows of a multiple of four bytes".format(described(self)))
        rows = self.shape[0] if self.shape else 1
        return Array(self.pointer, "float32", (rows, words), rows * words, self.gpu, self.stride, self.owner)

    def numpy(self) -> "np.ndarray":
        """The memory itself as a NumPy array. For counts and other small things in host memory."""
        import numpy as np
        assert self.gpu is None, "the array is in a GPU's memory"
        if not self.size:
            return np.empty(self.shape, self.dtype)
        memory = _Memory.from_address(self.pointer)
        if self.stride:
            row = np.empty(self.shape[1:], self.dtype)
            return np.ndarray(self.shape, self.dtype, memory, strides=(self.stride,) + row.strides)
        return np.ndarray(self.shape, self.dtype, memory)

    def read(self) -> "np.ndarray":
        """A copy as a NumPy array. From a GPU's memory it waits for the stream: for small things, and for errors."""
        if self.gpu is None:
            return self.numpy().copy()
        import numpy as np
        values = np.empty(self.shape, self.dtype)
        self.gpu.to_host(values.ctypes.data, self.pointer, values.nbytes)
        return values

    def write(self, values: Any) -> None:
        """Overwrites the memory with a NumPy array of its dtype and size. For small things too."""
        import numpy as np
        values = np.ascontiguousarray(values, self.dtype)
        assert values.size == self.size, (values.size, self.size)
        if self.gpu is None:
            self.numpy()[...] = values.reshape(self.shape)
        elif values.size:
            self.gpu.to_device(self.pointer, values.ctypes.data, values.nbytes)


def array(pointer: int, dtype: str, shape: Tuple[int, ...], gpu: Any = None) -> Array:
    """An `Array` of adjacent rows."""
    size = 1
    for length in shape:
        size *= length
    return Array(pointer, dtype, shape, size, gpu)


def of_numpy(values: "np.ndarray") -> Array:
    """A NumPy array's memory. It lives as long as the `Array`, or one made of it.

    Raises:
        ValueError: it is not contiguous.
    """
    if not values.flags.c_contiguous:
        raise ValueError("got a NumPy array of strides {} and shape {}, expected a contiguous one".format(
            values.strides, values.shape))
    return Array(values.ctypes.data, values.dtype.name, values.shape, values.size, None, 0, values)


def allocated(gpu: Any, dtype: str, *shape: int) -> Array:
    """New memory of a `gpu.Gpu`, valid until the current request ends, with anything in it."""
    made = array(0, dtype, shape, gpu)
    return made._replace(pointer=gpu.allocate(made.nbytes))


def pointer(given: Any) -> int:
    """Where an `Array` begins, 0 for None: what a kernel takes that can do without."""
    return 0 if given is None else int(given.pointer)


def width(rows: Array) -> int:
    """Numbers of a row: the last dimension, 1 where there is one number for each row."""
    shape = rows.shape
    return shape[-1] if len(shape) > 1 else 1


def described(given: Array) -> str:
    """An array as errors name it."""
    return "{} {}{}".format(given.dtype, list(given.shape),
                            " with {} bytes from row to row".format(given.stride) if given.stride else "")


# Each of these costs a third of a microsecond: every call of a wrapper makes a few.

def need(what: str, given: Array, dtype: str, size: int) -> None:
    """Raises unless `given` has this dtype, and so many numbers in any shape.

    Raises:
        TypeError: another dtype. ValueError: another size, or rows that are not adjacent.
    """
    if given.dtype != dtype or given.size != size or given.stride:
        _refuse(what, given, dtype, "{} of them".format(size))


def need_room(what: str, given: Array, dtype: str, least: int) -> None:
    """As `need`, of at least so many numbers."""
    if given.dtype != dtype or given.size < least or given.stride:
        _refuse(what, given, dtype, "at least {} of them".format(least))


def need_rows(what: str, given: Array, dtype: str, rows: int, dim: int) -> None:
    """As `need`, of so many rows of `dim` numbers; there may be several dimensions before the last."""
    shape = given.shape
    if given.dtype != dtype or given.size != rows * dim or given.stride or (
            len(shape) > 1 and shape[-1] != dim):
        _refuse(what, given, dtype, "[{}, {}]".format(rows, dim))


def _refuse(what: str, given: Array, dtype: str, expected: str) -> None:
    kind = ValueError if given.dtype == dtype else TypeError
    raise kind("{}: got {}, expected {}, {}".format(what, described(given), dtype, expected))
