"""What is known of gradients goes with them out of a `tf.function`, and into one; and of steps to who calls one.

A function's body has tensors of its own: what has been noted of those that it returns is noted, at each call, of those
that the caller gets, also where a tape has called it backwards. Of what a function is given its body, which is traced
once for many calls, knows nothing: what it would refuse to do with a table's gradient is refused at the call.
"""
import contextlib
import threading
from typing import Any, Callable, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.frameworks import counted_calls, dense_gradients, wrapping
from sok1x.core.thread_scope import ThreadScope, followed
from sok1x.graph_ops.bridge.tensorflow_versions import concrete_function, nest
from sok1x.graph_ops.gradients import shard_gradients

_MOST_STEPS = 100  # of a tensor's way back through ops that change nothing


class _Output(NamedTuple):
    """Attributes:
      place: of a function's results, laid side by side. inside: what the body has there.
      left: what is known there of rows that have left (frameworks/dense_gradients.py)."""

    place: int
    inside: Any
    left: Any


class _Outputs(NamedTuple):
    """Attributes:
      marked: those of which something is known.
      lock: held from a call until what it has left of rows is read, for there is one place for all calls; where the
        body leaves nothing so, of no effect."""

    marked: List[_Output]
    lock: Any


class _Refused(NamedTuple):
    """Attributes:
      place: of a function's inputs. error: the table's name -> what to raise."""

    place: int
    error: Callable[[str], Exception]


# Attributes of a function's body, whose tensors they have: they go with it.
_OUTPUTS = "_sok1x_marked_outputs"  # an _Outputs
_REFUSED = "_sok1x_refused_inputs"  # [_Refused]
_STEP = "_sok1x_step"  # the name of a variable that an optimizer's step in it moves

_noting = threading.Lock()
branches = ThreadScope()  # its value: a list, of such names in the branches that are being built as functions
# Inside, the next branch is chosen by what is equal on all ranks, or by a rank for itself alone: none need ask others.
needs_no_others = followed()


def watch() -> None:
    """From now on calls of functions hand over what is known of gradients.

    Example:
        >>> from sok1x.core.eagerly import function_marks
        >>> function_marks.watch()  # nothing, in TensorFlow 1.15
    """
    if concrete_function is not None:
        wrapping.wrap(concrete_function.ConcreteFunction, "_call_flat", _handing_over)


def refuse(gradient: Any, error: Callable[[str], Exception]) -> None:
    """Has something be an error that is done with a gradient, if it is a table's.

    Args:
        gradient: a tensor or tf.IndexedSlices; of a function's body, if it is one that the function is given, that is
            found out at each call.
        error: given the table's name, gives what to raise.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.eagerly import function_marks
        >>> function_marks.refuse(tf.constant(1.0), ValueError)  # of no table
    """
    table = shard_gradients.table_of_gradient(gradient)
    if table is None and isinstance(gradient, tf.Tensor):  # of IndexedSlices a function is given three
        table = shard_gradients.table_of_shape(gradient)
    if table is not None:
        raise error(table)
    given = _unchanged(gradient.dense_shape if isinstance(gradient, tf.IndexedSlices) else gradient)
    graph = getattr(given, "graph", None)
    for place, each in enumerate(getattr(graph, "inputs", ())):
        if each is given:
            setattr(graph, _REFUSED, getattr(graph, _REFUSED, ()) + (_Refused(place, error),))


def note_step(variable: str) -> None:
    """Notes that a step lies in what is being built: branches, and functions, which may be called in others.

    Args:
        variable: the name of one that it moves.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.eagerly import function_marks
        >>> with tf.Graph().as_default(), function_marks.branches.entered([]):
        ...     function_marks.note_step("kernel")
        ...     function_marks.branches.value
        ['kernel']
    """
    graph = tf.get_default_graph()
    while hasattr(graph, "outer_graph"):
        setattr(graph, _STEP, variable)
        graph = graph.outer_graph
    if branches.value is not None:
        branches.value.append(variable)


def _handing_over(stock: Callable[..., Any]) -> Callable[..., Any]:
    def _call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not eager.is_on():
            return stock(self, tensor_inputs, captured_inputs, *args, **kwargs)
        for place, error in getattr(self.graph, _REFUSED, ()):
            if place < len(tensor_inputs):
                refuse(tensor_inputs[place], error)
        if hasattr(self.graph, _STEP) and not tf.executing_eagerly():
            note_step(getattr(self.graph, _STEP))
        outputs = getattr(self.graph, _OUTPUTS, None)
        if outputs is None:
            outputs = _noted_outputs(self.graph)
        with outputs.lock:
            made = stock(self, tensor_inputs, captured_inputs, *args, **kwargs)
            counted_calls.after_call(self.graph, made)
            if outputs.marked:
                results = nest.flatten(made, expand_composites=True)
                for place, inside, left in outputs.marked:
                    if place < len(results) and results[place] is not None:
                        shard_gradients.copy_marks(inside, results[place])
                        dense_gradients.note_again(left, results[place])
        return made

    return _call_flat


def _noted_outputs(graph: Any) -> _Outputs:
    """A body's, the same for all threads."""
    made = _outputs(graph)
    with _noting:
        if not hasattr(graph, _OUTPUTS):
            setattr(graph, _OUTPUTS, made)
        noted: _Outputs = getattr(graph, _OUTPUTS)
    return noted


def _outputs(graph: Any) -> _Outputs:
    found = []
    for place, each in enumerate(nest.flatten(getattr(graph, "structured_outputs", None), expand_composites=True)):
        inside = _marked(each)
        if inside is not None:
            found.append(_Output(place, inside, shard_gradients.left_of(inside)))
    return _Outputs(found, threading.RLock() if any(
        each.left is not None for each in found) else contextlib.nullcontext())


def _marked(tensor: Any) -> Optional[Any]:
    """What something is noted of, and a tensor is, through ops that change nothing; None if there is none."""
    for _ in range(_MOST_STEPS):
        if not isinstance(tensor, tf.Tensor) or shard_gradients.has_marks(tensor):
            break
        before = _before(tensor)
        tensor = before if before is not None else shard_gradients.captured(tensor)
    return tensor if isinstance(tensor, tf.Tensor) and shard_gradients.has_marks(tensor) else None


def _unchanged(tensor: Any) -> Any:
    """Where a tensor of a body comes from, through ops that change nothing."""
    for _ in range(_MOST_STEPS):
        before = _before(tensor)
        if before is None:
            break
        tensor = before
    return tensor


def _before(tensor: Any) -> Optional[Any]:
    if not hasattr(tensor, "graph") or tensor.op.type != "Identity":
        return None
    return tensor.op.inputs[0]
