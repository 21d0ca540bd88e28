"""TensorFlow's functions that take rows by their numbers, which keys are not."""
import functools
import itertools
from typing import Any, Callable, Dict, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.gradients import row_numbers

# End of a module's name -> its functions -> whether a call of these local variables is such a one.
Functions = Dict[str, Dict[str, Callable[[Dict[str, Any]], bool]]]


def _always(_: Dict[str, Any]) -> bool:
    return True


def _not_along_rows(given: Dict[str, Any]) -> bool:
    """Of tf.gather: along a row it takes a part of every one, which has nothing to do with numbers."""
    return bool(given.get("batch_dims")) or not any(given.get("axis") is axis for axis in (1, -1))


_CONTRIB: Functions = {  # of TensorFlow 1.15
    "contrib.layers.python.layers.embedding_ops": {"safe_embedding_lookup_sparse": _always}}
_READING: Functions = {
    "python.ops.array_ops": {"slice": _always, "strided_slice": _always, "batch_gather": _always,
                             "boolean_mask": _always, "gather_nd": _always, "gather": _not_along_rows},
    "python.ops.math_ops": {name + version: _always for version in ("", "_v2") for name in (
        "sparse_segment_sum", "sparse_segment_mean", "sparse_segment_sqrt_n")},
    "python.ops.gen_array_ops": {"tensor_scatter_" + name: _always for name in ("update", "add", "sub", "min", "max")},
}
_WRITING: Functions = {"python.ops.state_ops": {name: _always for name in (
    "scatter_update", "scatter_add", "scatter_sub", "scatter_mul", "scatter_div", "scatter_min", "scatter_max",
    "scatter_nd_update", "scatter_nd_add", "scatter_nd_sub", "batch_scatter_update")}}
# A variable's methods. Optimizers call them with the rows of their gradients, made of these in whatever way.
_METHODS = tuple("scatter_" + name for name in (
    "add", "sub", "update", "mul", "div", "min", "max", "nd_add", "nd_sub", "nd_update", "nd_min", "nd_max"))
_OF_VARIABLES: Functions = {"python.ops.resource_variable_ops": {name: _always for name in _METHODS}, **_WRITING}
_STEPS = frozenset(("apply_gradients", "_resource_apply_sparse", "_resource_apply_sparse_duplicate_indices",
                    "update_step"))
_FRAMES = 13  # between a conversion to a tensor and who has asked for it, TensorFlow's own between them


def refuse_reading(table_name: str) -> None:
    """Called where all rows of a table of keys are to become a tensor.

    Raises:
        TypeError: for a function that then takes some of them by their numbers.
    """
    if _asking(_CONTRIB)[0]:
        raise TypeError("table '{}': tf.contrib.layers.safe_embedding_lookup_sparse reads numbered rows, which keys "
                        "are not; call tf.nn.safe_embedding_lookup_sparse, which takes the same".format(table_name))
    name, _ = _asking(_READING)
    if name:
        raise TypeError("table '{}': tf.{} takes rows by their numbers, which keys are not, for rows lie in the order "
                        "in which keys have come: read keys' rows by tf.nn.embedding_lookup, or take a part of "
                        "variable.value()".format(table_name, name))


def refuse_writing(table_name: str) -> None:
    """Called where rows of a table of keys are to be written by their numbers.

    Raises:
        TypeError: by a function of TensorFlow's that users call, not an optimizer.
    """
    name, _ = _asking(_WRITING)
    if name:
        raise _written_by(table_name, "tf." + name)


def refuse_handle(table_name: str) -> None:
    """Called where the handle of a table of keys is asked for, perhaps to write rows by their numbers.

    Eagerly `refuse_writing` comes too late, for the function then knows no op, and has written.

    Raises:
        TypeError: by a function of TensorFlow's that users call, for other rows than those of a gradient.
    """
    name, given = _asking(_WRITING)
    if name and not _of_gradient(given.get("indices"), table_name):
        raise _written_by(table_name, "tf." + name)


def refuse_methods(kind: Any) -> Any:
    """A class decorator, for tables of keys: their methods that write numbered rows take those of a gradient alone.

    Eagerly such a method has written when `refuse_writing` could be called.
    """
    for name in _METHODS:
        if hasattr(kind, name):  # TensorFlow 1.15 has not all of them
            setattr(kind, name, _of_gradients(name, getattr(kind, name)))
    return kind


def rows_written() -> Optional[tf.Tensor]:
    """Called by a variable of which something has been written, eagerly: no op tells which rows.

    Returns:
        Their numbers, if a method or a function that writes numbered rows has written them; else None.
    """
    name, given = _asking(_OF_VARIABLES)
    if not name:
        return None
    rows = tf.convert_to_tensor(given["sparse_delta"].indices if "sparse_delta" in given else given["indices"])
    return rows[..., 0] if "_nd_" in name else rows


def _of_gradients(name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def scatter(self: Any, *args: Any, **options: Any) -> Any:
        given = args[0] if args else options.get("sparse_delta", options.get("indices"))
        rows = given.indices if isinstance(given, tf.IndexedSlices) else given
        if not _of_gradient(rows, self.table.name) and not _in_a_step():
            raise _written_by(self.table.name, "its method " + name)
        return stock(self, *args, **options)

    return scatter


def _of_gradient(rows: Any, table_name: str) -> bool:
    return isinstance(rows, tf.Tensor) and row_numbers.are_of(rows, table_name)


def _written_by(table_name: str, name: str) -> TypeError:
    return TypeError("table '{}': {} writes rows by their numbers, which keys are not, for rows lie in the order in "
                     "which keys have come: write keys' rows by sok.assign".format(table_name, name))


def _in_a_step() -> bool:
    """Whether an optimizer's step calls, through others, what calls this."""
    return any(frame.f_code.co_name in _STEPS for frame in itertools.islice(callers.frames(), _FRAMES))


def _asking(functions: Functions) -> Tuple[str, Dict[str, Any]]:
    """The function that has called, through others, what calls this: its name, '' if it is another, and variables."""
    for frame in itertools.islice(callers.frames(), _FRAMES):
        name, module = frame.f_code.co_name, frame.f_globals.get("__name__", "")
        for end, known in functions.items():
            if name in known and module.endswith(end) and known[name](frame.f_locals):
                return str(name), frame.f_locals
    return "", {}
