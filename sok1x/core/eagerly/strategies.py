"""`tf.distribute`: tables in the scope of a strategy that has one replica in this process, as each rank has.

`OneDeviceStrategy` needs to be told that a variable is its own, no more. `MirroredStrategy`, and
`MultiWorkerMirroredStrategy`, which is one, make variables of copies, one for each replica, and take no others to
update, nor to make slots beside. A shard has no copies: with one replica it is updated as that copy would be.
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import mirrored_strategy

_ONE = ("OneDeviceStrategy", "OneDeviceStrategyV1")


def current() -> Any:
    """The strategy in whose scope a table is about to be made.

    Returns:
        A `tf.distribute.Strategy`; None without one.

    Raises:
        ValueError: it has several replicas in this process, or is of a kind that has variables elsewhere; in a graph
            it is another than OneDeviceStrategy.

    Example:
        >>> from sok1x.core.eagerly import strategies
        >>> strategies.current() is None
        True
    """
    if not tf.distribute.has_strategy():
        if eager.is_on():
            _watch()  # it may be trained in a scope later
        return None
    found = tf.distribute.get_strategy()
    if type(found).__name__ in _ONE:
        return found
    if not eager.is_on():
        raise _refusal(found, "in a graph")
    if not isinstance(found.extended, mirrored_strategy.MirroredExtended):
        raise _refusal(found, "of this kind")
    _expect_one_replica(found)
    _watch()
    return found


def _expect_one_replica(strategy: Any) -> None:
    count = strategy.num_replicas_in_sync
    if count != 1:
        raise _refusal(strategy, "with {} replicas".format(count))


def _refusal(strategy: Any, what: str) -> ValueError:
    return ValueError((
        "sok1x: got a table under a tf.distribute.{} {}, expected no strategy, OneDeviceStrategy, or, in TensorFlow "
        "2's eager execution, MirroredStrategy or MultiWorkerMirroredStrategy with one replica: a table is spread over "
        "ranks, one process for each device. Start the ranks with mpiexec or horovodrun (mpiexec -np N python "
        "train.py), without TF_CONFIG or an Estimator's train_distribute; show each one its own GPU "
        "(tf.config.set_visible_devices, visible_device_list), and take sok1x.DistributedOptimizer for the dense "
        "variables"
    ).format(type(strategy).__name__, what))


def _watch() -> None:
    """From now on the mirrored strategies take shards for what they have made."""
    extended = mirrored_strategy.MirroredExtended
    for name, replaced in (("_validate_colocate_with_variable", _colocated), ("_create_variable", _created),
                           ("_update", _updated)):
        wrapping.wrap(extended, name, replaced)


def _is_shard(variable: Any) -> bool:
    return bool(getattr(type(variable), "is_shard", False))


def _colocated(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what asks whether a variable may be made beside another."""
    def validate(self: Any, variable: Any) -> None:
        if _is_shard(variable):
            _expect_one_replica(self._container_strategy())
        else:
            stock(self, variable)
    return validate


def _created(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what makes a variable: a shard's slot is one variable, as the shard is."""
    def create(self: Any, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        if _is_shard(kwargs.get("colocate_with")):
            del kwargs["colocate_with"]
            return next_creator(**kwargs)
        return stock(self, next_creator, **kwargs)
    return create


def _updated(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what runs a function on each copy of a variable: on the shard itself."""
    def update(self: Any, variable: Any, function: Callable[..., Any], args: Any, kwargs: Any, group: bool) -> Any:
        if not _is_shard(variable):
            return stock(self, variable, function, args, kwargs, group)
        _expect_one_replica(self._container_strategy())
        with tf.device(variable.device):
            made = function(variable, *args, **kwargs)
        return mirrored_strategy.distribute_utils.update_regroup(self, [made], group)
    return update
