"""An optimizer twice: the same hyperparameters, but slots and counters of its own."""
from typing import Any, Dict, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import keras3
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, NewKerasOptimizer, Variable
from sok1x.optimizers import unfit
from sok1x.optimizers.distinct_rows import KnowsDistinctRows
from sok1x.optimizers.slots_of_tables import SlotsOfTables

_TRAIN: Any = {"_slots": dict, "_non_slot_dict": dict, "_deferred_slot_restorations": dict}
_KERAS: Any = {"_slots": dict, "_slot_names": list, "_weights": list, "_iterations": lambda: None,
               "_deferred_slot_restorations": dict, "_m_cache": lambda: None, "_promised": lambda: None}
_NEW_KERAS: Any = {"_variables": list, "_built": bool, "_index_dict": dict, "_iterations": lambda: None}
# How tf.train.Checkpoint knows what belongs to an object: by attributes that begin so.
_TRACKING = ("_unconditional_", "_update_uid", "_name_based_", "_self_")
_RATE = "_current_learning_rate"  # a newer Keras optimizer's: what its schedule says of its own step, assigned at each
_SHARED = "_hypers_created"  # Keras: whether the numbers in `_hyper`, which both have, have become variables
GIVEN = "_sok1x_given"  # the attribute of the new one that has the given one


def with_own_state(optimizer: Any) -> Any:
    """An optimizer that steps as the given one, and counts steps and keeps slots by itself.

    Whatever else there is, the two have in common, and see when it changes: a learning rate that is a variable, a
    tensor, a callable or a schedule is the same object, and `optimizer.learning_rate = 0.1` on a tf.keras optimizer
    counts for both. What the new one sets itself, as the tensors of one step, the given one does not see. Optimizers
    inside it, as Horovod's has one, are taken likewise.

    Args:
        optimizer: of tf.train, tf.contrib.opt or tf.keras.optimizers, or derived from one.

    Returns:
        An optimizer of a subclass of its class.

    Raises:
        TypeError: it is none, one that cannot train a table, or one that scales losses: that has a state of its own,
            one for all variables.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import own_state
        >>> given = tf.train.AdamOptimizer(0.5)
        >>> twin = own_state.with_own_state(given)
        >>> twin._lr, twin._slots is given._slots
        (0.5, False)
    """
    base = type(optimizer)
    unfit.refuse(optimizer)
    if isinstance(optimizer, tf.train.Optimizer):
        states = _TRAIN
    elif isinstance(optimizer, KERAS_OPTIMIZERS):
        states = _NEW_KERAS if NewKerasOptimizer is not None and isinstance(optimizer, NewKerasOptimizer) else _KERAS
        base = next(one for one in base.__mro__ if one.__module__.split(".")[0] != "horovod")
    else:
        raise TypeError("OptimizerWrapper: got {!r} of type {}, expected an optimizer of tf.train or "
                        "tf.keras.optimizers{}".format(optimizer, base.__name__, keras3.hint(optimizer)))
    if hasattr(optimizer, "_loss_scale"):
        raise TypeError("OptimizerWrapper: got a {}, which scales losses; wrap the optimizer that it was given, and "
                        "give it gradients that are scaled back; or, as all ranks skip a step then, train tables "
                        "without a wrapper: LossScaleOptimizer(sok1x.DistributedOptimizer(optimizer, average=False), "
                        "...)".format(base.__name__))
    own: Dict[str, Any] = {GIVEN: optimizer}
    own.update((name, make()) for name, make in states.items() if name in vars(optimizer))
    own.update((name, with_own_state(value)) for name, value in vars(optimizer).items()
               if isinstance(value, (tf.train.Optimizer, *KERAS_OPTIMIZERS)))
    twin: Any = object.__new__(_class(base))
    object.__setattr__(twin, "__dict__", own)
    if states is _NEW_KERAS:
        for name, make in states.items():
            setattr(twin, name, make())  # lists as a tf.train.Checkpoint knows them
        twin._create_iteration_variable()
        if _RATE in vars(optimizer):
            vars(twin)[_RATE] = _rate_of(optimizer._learning_rate)  # which no tf.train.Checkpoint needs
    return twin


def _rate_of(schedule: Any) -> Any:
    """A variable of what a schedule says of the first step: Keras asks it by `iterations`, initialized or not yet."""
    with tf.init_scope():
        rate = tf.convert_to_tensor(schedule(tf.zeros([], tf.int64)))
        return Variable(rate, name=_RATE[1:], dtype=rate.dtype, trainable=False)


_classes: Dict[type, type] = {}


def _class(base: type) -> type:
    """The class of the twins. It keeps the optimizer's name, which Keras writes into configurations."""
    made = _classes.get(base)
    if made is None:
        mixins: Tuple[type, ...] = (OwnState,) if issubclass(base, KnowsDistinctRows) else (
            OwnState, KnowsDistinctRows)
        made = _classes[base] = type(base.__name__, mixins + (base,), {
            "__module__": base.__module__, "__doc__": base.__doc__})
    return made


class OwnState(SlotsOfTables):
    """Reads what it has not set itself from the optimizer that it was made of."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)
        own = object.__getattribute__(self, "__dict__")
        if name not in own and name != _RATE and not name.startswith(_TRACKING):
            given = vars(own[GIVEN])
            if name in given:
                return given[name]
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == _SHARED:
            vars(vars(self)[GIVEN])[name] = value
        else:
            super().__setattr__(name, value)
