"""Gradients of tf.train's and Keras' optimizers averaged over the ranks, in whichever optimizer a script makes."""
import types
from typing import Any, Callable, List

import tensorflow.compat.v1 as tf

from sok1x.deeprec.patches import Patches
from sok1x.graph_ops.bridge.tensorflow_versions import KerasOptimizer, clip_ops, is_eager_outside
from sok1x.graph_ops.gradients import provenance, table_means
from sok1x.optimizers import clipping, gradients
from sok1x.optimizers.distinct_rows import KnowsDistinctRows


def watch(patches: Patches) -> None:
    """From now on gradients are means over the ranks: tables' as lookups make them, all others where an optimizer
    computes or applies them (Keras' only applies), or where tf.clip_by_global_norm clips them together with tables'.

    Args:
        patches: what undoes the latter.
    """
    compute = tf.train.Optimizer.compute_gradients

    def compute_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = compute(self, *args, **kwargs)
        return pairs if _averages_itself(self) else gradients.average(pairs, new=True)

    compute_gradients.__doc__ = compute.__doc__
    patches.put(tf.train.Optimizer, "compute_gradients", compute_gradients)
    _watch_applying(patches, tf.train.Optimizer, _averages_itself)
    # In graphs: in models that are fitted, and in a script's.
    _watch_applying(patches, KerasOptimizer, lambda optimizer: is_eager_outside() or _averages_itself(optimizer))
    _watch_clipping(patches)
    table_means.make_means(True)


def _watch_applying(patches: Patches, kind: Any, left_alone: Callable[[Any], bool]) -> None:
    """From now on optimizers of a kind average what they apply, but for those that are left alone."""
    apply = kind.apply_gradients

    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        return apply(self, pairs if left_alone(self) else gradients.average(pairs), *args, **kwargs)

    apply_gradients.__doc__ = apply.__doc__
    vars(apply_gradients).update(vars(apply))
    patches.put(kind, "apply_gradients", apply_gradients)


def _watch_clipping(patches: Patches) -> None:
    """From now on tf.clip_by_global_norm of gradients of which one is sparse is as of one process with all batches.

    On one rank too: of tf.IndexedSlices TensorFlow's own counts a row once for each lookup that has asked for it, and
    of a plain variable's, once averaged, once for each rank: what is clipped would depend on the number of ranks.
    """
    clip = clip_ops.clip_by_global_norm

    def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: Any = None) -> Any:
        if use_norm is None and isinstance(t_list, (list, tuple)) and not is_eager_outside():
            of_tables = [_is_of_table(each) for each in t_list]
            if any(of_tables) or any(map(_is_sparse, t_list)):
                t_list = _averaged(t_list, of_tables)
                return clipping.clip_by_global_norm(t_list, clip_norm, clipping.norm_of_sums(t_list), name)
        return clip(t_list, clip_norm, use_norm, name)

    clip_by_global_norm.__doc__ = clip.__doc__
    patches.put(clip_ops, "clip_by_global_norm", clip_by_global_norm)
    patches.put_api("clip_by_global_norm", clip_by_global_norm)


def _is_sparse(gradient: Any) -> bool:
    return isinstance(gradient, tf.IndexedSlices) and gradient.dense_shape is not None


def _is_of_table(gradient: Any) -> bool:
    if not isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return False
    found = provenance.standing(gradient)
    return bool(found.tables) and not found.exchanged


def _averaged(t_list: Any, of_tables: List[bool]) -> List[Any]:
    """What is beside tables' gradients are gradients too, and those of tf.gradients not averaged yet."""
    found = list(t_list)
    others = [i for i, (each, of_table) in enumerate(zip(found, of_tables)) if each is not None and not of_table]
    named = [(found[i], types.SimpleNamespace(name="t_list[{}]".format(i))) for i in others]
    for i, (gradient, _) in zip(others, gradients.average(named)):
        found[i] = gradient
    return found


def stop() -> None:
    """Tables' gradients are sums again."""
    table_means.make_means(False)


def _averages_itself(optimizer: Any) -> bool:
    """Whether it is one of `sok.DistributedOptimizer`."""
    return isinstance(optimizer, KnowsDistinctRows) and hasattr(optimizer, "_sok1x_average")
