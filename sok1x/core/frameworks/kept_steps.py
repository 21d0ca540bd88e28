"""Steps by dense gradients of tables that forget, or grow: taken as a whole, and by all ranks, or not at all."""
from typing import Any, List, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.frameworks import dense_gradients
from sok1x.core.tables import growing_shape
from sok1x.graph_ops.bridge.tensorflow_versions import gen_resource_variable_ops
from sok1x.graph_ops.gradients import provenance, shard_gradients
from sok1x.graph_ops.operations import kept_gradients
from sok1x.graph_ops.operations.kept_gradients import KeptConfig


def check(pairs: List[Any], together: bool) -> Tuple[List[Any], List[Any]]:
    """Dense gradients of tables as a step may have them.

    Args:
        pairs: (gradient, variable): of tables [V, D], as for `dense_gradients.note`; and whatever else the step is
            given.
        together: whether all ranks take the step together whatever tables it is of, as they exchange for it.

    Returns:
        The pairs, and what everything in the step must wait for: in a function's body ops that are errors where rows
        have left, or a table has grown, since its gradient was made.

    Raises:
        ValueError: that is so.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import kept_steps
        >>> with tf.Graph().as_default():
        ...     variable, gradient = sok.EmbeddingVariable(rows=8, dim=4), tf.zeros([8, 4])
        ...     found, first = kept_steps.check([(gradient, variable)], False)
        ...     found[0][0] is gradient, first
        (True, [])
    """
    asked, here = [], []  # type: List[Any], List[Any]
    for place, (gradient, variable) in enumerate([pair[:2] for pair in pairs]):
        if gradient is None or isinstance(gradient, tf.IndexedSlices) or not hasattr(variable, "table"):
            continue
        noted = shard_gradients.left_of(gradient)
        if noted is not None or variable.table.grows:
            # What rows leave, or ranks exchange anyway for the step, is decided by the program, alike on all of them.
            exchanged = noted is not None or together and (
                shard_gradients.table_of_gradient(gradient) == variable.table.name)
            (asked if exchanged and provenance.ranks() > 1 else here).append((place, gradient, variable, noted))
    waits = [each for each in (_ask(asked, True), _ask(here, False)) if each is not None]
    made = list(pairs)
    for place, gradient, _, _ in asked + here if waits else []:
        if gradient.graph is not tf.get_default_graph():  # in a branch: Keras wants all of a step in one graph
            continue
        with tf.control_dependencies(waits):
            checked = tf.identity(gradient)
        shard_gradients.keep_marks(gradient, checked)
        shard_gradients.note_left(checked, None)  # an optimizer inside of this one need not ask again
        made[place] = (checked, *pairs[place][1:])
    return made, waits


def of_growing(pairs: List[Any]) -> List[tf.Tensor]:
    """What a whole step waits for in a plain graph: dense gradients of tables that grow, which are errors where some of
    the rows that they are made of were read before the table grew.

    Args:
        pairs: (gradient, variable), and whatever else the step is given.

    Returns:
        Tensors of the default graph, one for each of these gradients.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import kept_steps
        >>> with tf.Graph().as_default():
        ...     pairs = [(tf.zeros([8, 4]), sok.EmbeddingVariable(rows=rows, dim=4)) for rows in (None, 8)]
        ...     kept_steps.of_growing(pairs) == [pairs[0][0]]
        True
    """
    dense = [gradient for gradient, variable in [pair[:2] for pair in pairs]
             if isinstance(gradient, tf.Tensor) and growing_shape.grows(variable)]
    # Of the graph around a branch nothing but what the branch computes with is waited for inside.
    here = tf.get_default_graph()
    return [gradient if getattr(gradient, "graph", None) is here else tf.identity(gradient) for gradient in dense]


def _ask(gradients: List[Any], all_ranks: bool) -> Any:
    """Raises where one of (its place, gradient, variable, what is noted) may not be applied; in a body gives what
    does so."""
    if not gradients:
        return None
    eagerly = tf.executing_eagerly()
    names = tuple(variable.table.name for _, _, variable, _ in gradients)
    config = KeptConfig(" ".join(names), names, tuple(
        "whose rows leave at max_capacity" if variable.table.forgetting and variable.table.forgetting.strategy
        else "whose rows leave when it is saved" for _, _, variable, _ in gradients), not eagerly)
    numbers = [number for _, *each in gradients for number in _numbers(*each)]
    if eagerly:
        found = np.array(numbers, np.int64)
        if all_ranks:
            found = kept_gradients.check(config, tf.constant(found), True).numpy()
        world = launch.current()
        text = kept_gradients.refusal(config, found, 0 if all_ranks or world is None else world.rank)
        if text is not None:
            raise ValueError(text)
        return None
    return kept_gradients.check(config, tf.stack(numbers), all_ranks)


def _numbers(gradient: Any, variable: Any, noted: Any) -> List[Any]:
    """Of one, as `kept_gradients.check` takes them."""
    left = 0  # type: Any
    if noted is not None:
        differ = tf.reduce_any(tf.not_equal(dense_gradients.rows_left(variable), noted.rows))
        left = int(differ) if tf.executing_eagerly() else tf.cast(differ, tf.int64)
    if not variable.table.grows:
        return [left, 0, 0]
    rows = gen_resource_variable_ops.variable_shape(variable.handle)[0]
    if tf.executing_eagerly():
        return [left, np.shape(gradient)[0], int(rows)]
    return [left, tf.cast(tf.shape(gradient)[0], tf.int64), tf.cast(rows, tf.int64)]
