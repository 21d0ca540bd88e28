"""Gradients that an optimizer has summed over the ranks, and is given back changed: eagerly nothing says what they are.

In a graph the ops tell. Eagerly a tensor is marked that has been summed, also where it comes out of a tf.function; what
is made of it, or comes into a function or out of a branch, is another tensor, and looks like one of a tape, which is
still to be summed. A mean of means is what it was; a sum of sums is N times as much. So after an optimizer that sums
has given gradients away, it takes these back as they are, or none.
"""
from typing import Any

from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside
from sok1x.graph_ops.gradients import provenance

_GAVE = "_sok1x_gave"  # of an optimizer: whether gradients that it has summed are with the user


def given(optimizer: Any, pairs: Any) -> Any:
    """The pairs (gradient, variable), which a user gets."""
    if is_eager_outside() and not optimizer._sok1x_average:
        vars(optimizer)[_GAVE] = True
    return pairs


def refuse(optimizer: Any, pairs: Any) -> None:
    """Looks at what is to be applied.

    Args:
        optimizer: made by `DistributedOptimizer`. pairs: as for its `apply_gradients`.

    Raises:
        ValueError: it cannot be told whether a gradient has been summed.
    """
    if not vars(optimizer).get(_GAVE) or not is_eager_outside() or provenance.ranks() == 1:
        return
    for gradient, variable in pairs:
        if gradient is None or isinstance(variable, ShardVariable) or provenance.standing(gradient).exchanged:
            continue
        raise ValueError((
            "DistributedOptimizer(average=False): got for variable '{}' a gradient of which it cannot be told whether "
            "it has been summed over the ranks: this optimizer's compute_gradients has given summed ones, and this is "
            "none of them as it was given, but changed, or come into a tf.function or through a branch; summed once "
            "more it would be {} times too large. Change what a tf.GradientTape gives, which apply_gradients sums, and "
            "call no compute_gradients; or apply what that gives in the function that has called it").format(
                variable.name, provenance.ranks()))
    vars(optimizer)[_GAVE] = False
