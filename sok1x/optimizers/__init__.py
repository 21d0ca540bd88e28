"""SOK's own optimizer, and what optimizers need to know about embedding variables, under SOK's dotted names.

What users call:
    adam                   SOK's own
    sgd                    `sok.SGD`
    distributed_optimizer  `sok.DistributedOptimizer`: any optimizer, with averaged gradients
    wrapper                `sok.OptimizerWrapper`, for tables alone
    clipping               norms over all ranks
    utils                  which variables are tables

What is behind them:
    gradients              averages of dense gradients
    keras_clips            what Keras' optimizers clip by themselves
    building               what an optimizer keeps, made before its first step
    own_state              an optimizer twice, each with slots of its own
    slots_of_tables        slots as many as a table has rows
    distinct_rows          steps on rows that are distinct already
    summed_before          gradients that come back changed, eagerly
    branched_steps         steps in branches, which all ranks take or none
    zero_gradients         steps left out where gradients are zeros, by all ranks or none
    unfit                  optimizers that cannot train tables, refused
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.optimizers.adam import Adam

__all__ = ["Adam"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {"Adam": "adam"})
