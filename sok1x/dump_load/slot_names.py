"""What optimizers and their slots are called in SOK 2.x's files.

Slots have tf.keras' names there, whichever optimizer wrote them, so that a table of a tf.train optimizer can be loaded
for the tf.keras one that keeps the same:

    name in files   optimizers of tf.train     their slots             of tf.keras   slots, as in files
    SGD             GradientDescent            none                    SGD           none; or momentum
    Momentum        Momentum                   momentum                none
    Adagrad         Adagrad                    accumulator             Adagrad       accumulator
    Adadelta        Adadelta                   accum, accum_update     Adadelta      accum_grad, accum_var
    Adam            Adam, LazyAdam             m, v                    Adam          m, v; with amsgrad vhat too
    Adamax          contrib's AdaMax           m, v                    Adamax        m, v
    Ftrl            Ftrl                       accum, linear           Ftrl          accumulator, linear
    RMSprop         RMSProp                    rms, momentum; or mg    RMSprop       rms; or momentum, mg
    Nadam           none                                               Nadam         m, v

SOK itself knows neither Momentum, RMSprop nor Nadam. tf.train's Momentum has a name of its own because tf.keras' SGD
keeps another momentum, with the learning rate in it. Any other optimizer is called as its class, and its slots as it
calls them. Ours are called as TensorFlow's.
"""
from typing import Any, Dict, List, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import newer_optimizers
from sok1x.dump_load import layout
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS
from sok1x.optimizers import own_state

_KERAS = ("SGD", "Adagrad", "Adadelta", "Adamax", "Ftrl", "RMSprop", "Nadam", "Adam")
_TRAIN: Any = (
    (tf.train.GradientDescentOptimizer, "SGD", {}), (tf.train.MomentumOptimizer, "Momentum", {}),
    (tf.train.AdagradOptimizer, "Adagrad", {}), (tf.train.AdamOptimizer, "Adam", {}),
    (tf.train.AdadeltaOptimizer, "Adadelta", {"accum": "accum_grad", "accum_update": "accum_var"}),
    (tf.train.FtrlOptimizer, "Ftrl", {"accum": "accumulator"}), (tf.train.RMSPropOptimizer, "RMSprop", {}))

# What Keras' newer optimizers call them.
_NEWER: Any = {
    "SGD": {"m": "momentum"}, "Adamax": {"u": "v"},
    "Adadelta": {"accumulated_grad": "accum_grad", "accumulated_delta_var": "accum_var"},
    "RMSprop": {"velocity": "rms", "average_gradient": "mg"}}


class Slots(NamedTuple):
    """A variable's slots.

    Attributes:
        optimizer: the optimizer's name in files. known: other names under which SOK wrote it.
        variables: {slot's name in files: resource variable}.
    """

    optimizer: str = layout.NO_OPTIMIZER
    known: Any = ()
    variables: Dict[str, Any] = {}


def of(optimizer: Any, variable: Any) -> Slots:
    """The slots that an optimizer has of a variable, or an optimizer inside it, as Horovod's has one.

    Args:
        optimizer: with `get_slot_names` and `get_slot`, of tf.train or tf.keras.
        variable: an embedding variable.
    """
    for place, inside in vars(optimizer).items():
        if place != own_state.GIVEN and isinstance(inside, (tf.train.Optimizer, *KERAS_OPTIMIZERS)):
            slots = of(inside, variable)
            # contrib's MovingAverageOptimizer leaves all to the one inside, and is none itself.
            if slots.variables or (isinstance(optimizer, tf.train.Optimizer) and not hasattr(optimizer, "_slots")):
                return slots
    name, renamed = _named(optimizer)
    if newer_optimizers.is_one(optimizer):
        made_for = newer_optimizers.slots_of(optimizer, variable)
        renamed = _NEWER.get(name, {})
        return Slots(name, ("Adam",) if name == "Adamax" else (), {
            renamed.get(slot, slot): made_for[slot] for slot in sorted(made_for)})
    found = {}
    for slot in _slot_names(optimizer):
        try:
            made = optimizer.get_slot(variable, slot)
        except KeyError:  # Keras', of a variable without slots
            made = None
        if made is not None:
            found[renamed.get(slot, slot)] = made
    return Slots(name, ("Adam",) if name == "Adamax" else (), found)


def _slot_names(optimizer: Any) -> List[str]:
    # Keras' Ftrl and the like make slots in an order of their own: files are in this one.
    return sorted(optimizer.get_slot_names())


def _named(optimizer: Any) -> Any:
    for name in _KERAS:
        if isinstance(optimizer, getattr(tf.keras.optimizers, name)) or (
                newer_optimizers.is_one(optimizer) and type(optimizer).__name__ == name):
            return name, {}
    if any(kind.__name__ == "AdaMaxOptimizer" for kind in type(optimizer).__mro__):  # contrib's: Adam's subclass
        return "Adamax", {}
    for kind, name, renamed in _TRAIN:
        if isinstance(optimizer, kind):
            own = {getattr(optimizer, "_accum_name", None): "accumulator",
                   getattr(optimizer, "_linear_name", None): "linear"} if name == "Ftrl" else {}
            return name, dict(renamed, **{slot: to for slot, to in own.items() if slot})
    return type(optimizer).__name__, {}
