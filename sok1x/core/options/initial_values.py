"""What a `sok.Variable` begins with: this rank's rows of a whole table, from whatever describes it."""
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.options import initializers
from sok1x.graph_ops.bridge.tensorflow_versions import Variable, initialized_value
from sok1x.graph_ops.stores import initial

DTYPES = ("float32", "float64", "int32", "int64")  # rows of whole 32-bit words that TensorFlow has variables of

# This rank's rows: (its place among the ranks that have rows, how many these are, rows) -> what fills them, a tensor
# [rows, D] when called, or None where the generator of initial rows does.
Fill = Optional[Callable[[], tf.Tensor]]


class Whole(NamedTuple):
    """A whole table.

    Attributes:
        rows: of all ranks.
        dim: D.
        dtype: a name.
        part: gives (fields of `graph_ops.stores.table.Initializer`, fill) for a rank's rows, given the rank's place
            among those that have rows (None: it has none), how many these are, and how many rows it has.
    """

    rows: int
    dim: int
    dtype: str
    part: Callable[[Optional[int], int, int], Any]


_BY_ROW: Dict[str, Any] = {"kind": "by_row"}


def whole(label: str, initial_value: Any, shape: Any, initializer: Any, dtype: Any) -> Whole:
    """The table that `sok.Variable`'s arguments describe.

    Args:
        label: of the variable, for messages.
        initial_value: an array, a nested list, a tensor, a variable, a callable that gives one of these, or None.
        shape: [rows, D] or [D], or None.
        initializer: as a layer's `embedding_initializer`.
        dtype: a dtype or None.

    Returns:
        A `Whole`.

    Raises:
        TypeError: of a dtype that rows cannot have.
        ValueError: neither a value nor a shape, or a shape that fits no table.

    Example:
        >>> from sok1x.core.options import initial_values
        >>> initial_values.whole("variable", [[1, 2], [3, 4], [5, 6]], None, None, None)[:3]
        (3, 2, 'int32')
    """
    if initial_value is None:
        if shape is None:
            raise ValueError("{}: got neither initial_value nor shape, expected a value, or shape and "
                             "initializer".format(label))
        rows, dim = _shape(label, "shape", tf.TensorShape(shape))
        return _initialized(label + ": initializer", rows, dim, initializer, _dtype(label, dtype or tf.float32))
    if initializer is not None:
        raise ValueError("{}: got both initial_value and initializer, expected one of them".format(label))
    if callable(initial_value) and not isinstance(initial_value, (tf.Tensor, Variable)):
        initial_value = initial_value()
    if isinstance(initial_value, Variable):
        initial_value = initialized_value(initial_value)
    given = _of_tensor if isinstance(initial_value, tf.Tensor) else _of_array
    made = given(label, initial_value, dtype)
    if shape is not None and (made.rows, made.dim) != _shape(label, "shape", tf.TensorShape(shape)):
        raise ValueError("{}: shape: got {}, but the initial value has {}".format(
            label, tf.TensorShape(shape), [made.rows, made.dim]))
    return made


def _initialized(what: str, rows: int, dim: int, initializer: Any, dtype: str) -> Whole:
    def part(place: Optional[int], parts: int, mine: int) -> Any:
        if dtype == "float32":
            spec, fill = initializers.resolve(initializer, max(mine, 1), dim, what=what)
            # What the rows begin with must be said alike on all ranks, also on those that have none.
            return spec, (lambda: tf.zeros([0, dim])) if fill is not None and not mine else fill
        if not mine:
            return _BY_ROW, lambda: tf.zeros([0, dim], dtype)
        return _BY_ROW, lambda: initializers.filled(initializer, mine, dim, dtype, what)

    part(0, 1, rows)  # says what is wrong with it
    return Whole(rows, dim, dtype, part)


def _of_tensor(label: str, value: tf.Tensor, dtype: Any) -> Whole:
    rows, dim = _shape(label, "initial_value", value.shape)
    name = _dtype(label, dtype or value.dtype)

    def part(place: Optional[int], parts: int, mine: int) -> Any:
        if place is None:
            return _BY_ROW, lambda: tf.zeros([0, dim], name)
        rows_of_rank = tf.cast(tf.reshape(value, [rows, dim])[place::parts], name)
        return _BY_ROW, lambda: rows_of_rank

    return Whole(rows, dim, name, part)


def _of_array(label: str, value: Any, dtype: Any) -> Whole:
    try:
        array = np.asarray(value)
    except ValueError:  # what NumPy since 1.24 says of rows of different lengths; before, they are objects
        array = np.empty([0], object)
    if array.dtype == object:
        raise ValueError("{}: initial_value: got rows of different lengths, or what are no numbers, expected "
                         "[rows, D], or [D] for one row".format(label))
    rows, dim = _shape(label, "initial_value", tf.TensorShape(array.shape))
    if not isinstance(value, np.ndarray):
        array = _as_tensorflow_reads(label, array, dtype)
    name = _dtype(label, dtype or array.dtype)

    def part(place: Optional[int], parts: int, mine: int) -> Any:
        # A copy of this rank's rows; it is no constant of the graph, of which the graph would keep more, and which
        # would travel with every MetaGraph.
        own = np.zeros([0, dim], name) if place is None else np.array(array.reshape(rows, dim)[place::parts], name)
        here = initial.given_here(label)  # or another process's function of the same number would be taken
        with tf.device("/cpu:0"), tf.control_dependencies([] if here is None else [here]):
            # A new copy each time: where an array is aligned TensorFlow's tensor is its memory, and several sessions'
            # variables would change each other's.
            given = tf.numpy_function(own.copy, [], tf.as_dtype(name), name="initial_rows")
        given.set_shape([mine, dim])
        return _BY_ROW, lambda: given

    return Whole(rows, dim, name, part)


def _as_tensorflow_reads(label: str, array: np.ndarray, dtype: Any) -> np.ndarray:
    """Numbers of a list: TensorFlow makes them 32 bits wide where no dtype is asked for, and cuts nothing off."""
    if dtype is not None:
        wanted = np.dtype(_dtype(label, dtype))
        if wanted.kind in "iu" and (array.dtype.kind not in "iu" or not (array == array.astype(wanted)).all()):
            raise TypeError("{}: initial_value: got {} for dtype {}, expected whole numbers that it has; or give an "
                            "array, which is converted".format(label, array.ravel()[:4].tolist(), wanted))
        return array
    if array.dtype == np.float64:
        return array.astype(np.float32)
    fits = array.dtype == np.int64 and -2 ** 31 <= array.min() and array.max() < 2 ** 31
    return array.astype(np.int32) if fits else array


def _shape(label: str, what: str, shape: tf.TensorShape) -> Sequence[int]:
    """(rows, D) of [rows, D], or of [D], which is one row."""
    if shape.rank not in (1, 2) or not shape.is_fully_defined() or not shape.num_elements():
        raise ValueError("{}: {}: got shape {}, expected [rows, D], or [D] for one row, each number known when the "
                         "graph is built and at least 1".format(label, what, shape))
    numbers = shape.as_list()
    return (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _dtype(label: str, dtype: Any) -> str:
    try:
        name = str(tf.as_dtype(dtype).base_dtype.name)
    except TypeError:
        name = str(dtype)
    if name not in DTYPES:
        raise TypeError("{}: got dtype {}, expected one of {}; lookups and training take float32".format(
            label, name, ", ".join(DTYPES)))
    return name
