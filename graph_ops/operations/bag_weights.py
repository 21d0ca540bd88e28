"""What the rows of bags are multiplied with: the gradient to weights, and gradients of gradients.

A lookup with weights gives the sums of s(k) x(k) over the keys k of a bag, x(k) being a key's row and s(k), its scale,
its weight w(k), or of a mean w(k) / W with the sum W of the bag's weights; of 'sqrtn' W is the root of the sum of
their squares. Where W is zero TensorFlow 1.15 divides by it, and 2.x has zeros; so do these, each on its TensorFlow:
kernels by what `layouts.divided_by` tells them, TensorFlow's ops by `weighted_mean`. The gradient to weights is made
of the rows that the lookup has read, which it keeps where somebody asks for that gradient: so it goes with these,
whatever has become of the table meanwhile.

Few ask for more than a first gradient. Where that is not of one of our operations already, it is TensorFlow's, of the
same made of TensorFlow's ops.
"""
from typing import Any, Callable, List, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import group_weights
from sok1x.cuda_kernels import groups as group_records
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.bridge.tensorflow_versions import searchsorted, tensor_util, weighted_mean
from sok1x.graph_ops.exchanges.layouts import divided_by
from sok1x.graph_ops.gradients import marks
from sok1x.graph_ops.groups import bag_weights as groups
from sok1x.graph_ops.operations import segments
from sok1x.graph_ops.stores.table import Table

GIVEN = 2  # of a lookup's inputs, the weights
_READ = "_sok1x_read"  # the mark of an eager lookup's `kept` whose gradient has been made


class WeightsConfig(NamedTuple):
    """Attributes:
      table, combiner: as of the forward op."""

    table: Table
    combiner: str


@register
class _Gradient(Operation):
    """inputs: gradient of the embeddings, float32 or float16 [B, D]; the lookup's `offsets` and `kept`; its weights,
    and its `order`. Output: float32 [K]."""

    name = "operations.bag_weights.gradient"
    kind = "Gradient"
    Config = WeightsConfig
    group = groups.Gradient()

    def run(self, request: Any, config: WeightsConfig, world: Any, headers: Any) -> None:
        gradient, offsets, rows, weights, order = request.inputs
        dim = config.table.dim
        if gradient.size != (offsets.size - 1) * dim or rows.size != weights.size * dim:
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got a gradient of shape {} for embeddings of {} samples with rows of "
                "{} numbers, and {} rows for {} weights").format(
                    config.table.name, world.name, list(gradient.shape), offsets.size - 1, dim, rows.shape[0],
                    weights.size))
        out = request.output(0, "float32", weights.shape)
        members = group_records.members(group_weights.WEIGHTS, 1)
        for field, value in (("gradient", gradient.pointer), ("gradient_half", gradient.dtype == "float16"),
                             ("rows", rows.pointer), ("rows_half", rows.dtype == "float16"), ("dim", dim),
                             ("offsets", offsets.pointer), ("n_bags", offsets.size - 1), ("n", weights.size),
                             ("mean", divided_by(config.combiner, True)), ("order", order.size and order.pointer),
                             ("weights", weights.pointer), ("out", out.pointer)):
            members[field] = value
        group_weights.weights(members)

    def gradient(self, op: tf.Operation, config: WeightsConfig, grads: Sequence[Any]) -> List[Any]:
        """See `Operation.gradient`."""
        given, offsets, rows, weights, order = op.inputs

        def same(given: tf.Tensor, rows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
            bags, places = bags_of(offsets, weights), _places(order, weights)
            weights = tf.gather(weights, places)
            products = tf.reduce_sum(tf.gather(tf.cast(given, tf.float32), bags) * tf.cast(rows, tf.float32), axis=1)
            if config.combiner != "sum":
                divisors = _divisors(weights, bags, offsets, config.combiner)
                less = weighted_mean(_sums(weights * products, bags, offsets), divisors)
                if config.combiner == "sqrtn":
                    less *= weighted_mean(weights, divisors)
                products = weighted_mean(products - less, divisors)
            return tf.gather(products, tf.math.invert_permutation(places))

        of_given, of_rows, of_weights = differentiate(same, [given, rows, weights], grads[0])
        return [of_given, None, of_rows, of_weights, None]


def of_saved(saved: Any, grads: Sequence[Any]) -> List[Any]:
    """The gradients to the `kept` rows and the `scales` of a lookup; None for nothing. Gradients alone read these.

    Args:
      saved: the lookup's. grads: of all its outputs.
    """
    given = [grads[1 + saved._fields.index(name)] for name in ("kept", "scales")]
    if not hasattr(saved.kept, "numpy"):
        return [None if _is_nothing(one) else one for one in given]
    # Eagerly TensorFlow gives zeros for nothing. Values may be zeros on some ranks alone, which would then exchange
    # nothing; but on all ranks nobody has read these before the first gradient is made.
    read = marks.noted(saved.kept, _READ, False)
    marks.note(saved.kept, _READ, True)
    return given if read else [None, None]


def of_lookup(op: tf.Operation, config: Any, saved: Any, grads: Sequence[Any], of_scales: Any) -> tf.Tensor:
    """The gradient [K] to the weights of a lookup.

    Args:
      config, saved: the lookup's. grads: of all its outputs. of_scales: as `of_saved` gave it.
    """
    weights = op.inputs[op.get_attr("Nr") + GIVEN]
    made = library.call("operations.bag_weights.gradient", WeightsConfig(config.table, config.combiner),
                        [grads[0], saved.offsets, saved.kept, weights, saved.order], [tf.float32], [weights.shape],
                        name="weights_gradient")[0]
    if of_scales is None:
        return made

    def scales(weights: tf.Tensor) -> tf.Tensor:
        bags, weights = bags_of(saved.offsets, weights), tf.gather(weights, _places(saved.order, weights))
        if config.combiner == "sum":
            return weights
        return weighted_mean(weights, _divisors(weights, bags, saved.offsets, config.combiner))

    return made + differentiate(scales, [weights], of_scales)[0]


def differentiate(function: Callable[..., tf.Tensor], tensors: Sequence[tf.Tensor], gradient: tf.Tensor) -> List[Any]:
    """The gradients to tensors of function(*tensors), which is given this one; of TensorFlow's making."""
    inside = [tf.identity(tensor) for tensor in tensors]
    if not tf.executing_eagerly():
        return tf.gradients(function(*inside), inside, [gradient])
    with tf.GradientTape() as tape:
        tape.watch(inside)
        made = function(*inside)
    return tape.gradient(made, inside, gradient)


def _is_nothing(gradient: Any) -> bool:
    """Whether a gradient is one of the zeros that TensorFlow gives for outputs that nobody has used."""
    if gradient is None or gradient.op.type == "ZerosLike":
        return True
    if gradient.op.type == "Fill":
        gradient = gradient.op.inputs[1]
    value = tensor_util.constant_value(gradient)
    return value is not None and not np.any(value)


def bags_of(offsets: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """int32 [K], the bag of each of as many keys as `keys` has elements."""
    return searchsorted(offsets, tf.range(tf.size(keys, out_type=tf.int64)), "right") - 1


def _places(order: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """int32 [K], which of the weights each key has: `order`, or where that is empty all in turn."""
    return tf.concat([order, tf.range(tf.size(order), tf.size(weights))], 0)


def _sums(values: tf.Tensor, bags: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """[K], of each key the sum of its bag's values."""
    return tf.gather(segments.unsorted_segment_sum(values, bags, tf.size(offsets) - 1), bags)


def _divisors(weights: tf.Tensor, bags: tf.Tensor, offsets: tf.Tensor, combiner: str) -> tf.Tensor:
    """[K], what each key's bag is divided by."""
    return _sums(weights, bags, offsets) if combiner == "mean" else tf.sqrt(_sums(weights ** 2, bags, offsets))
