"""`tf.train.ExponentialMovingAverage` of tables: right where all rows are there from the start, else refused.

An average begins with the value that its variable begins with. Where keys get rows as they come, there is none yet.
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping


def watch() -> None:
    """From now on averages of tables whose rows come later are refused.

    Example:
        >>> from sok1x.core.frameworks import moving_averages
        >>> moving_averages.watch()
    """
    wrapping.wrap(tf.train.ExponentialMovingAverage, "apply", _checked)


def _checked(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: Any, var_list: Any = None) -> Any:
        # Python's loop over a generator would leave nothing to TensorFlow's.
        averaged = tf.trainable_variables() if var_list is None else list(var_list)
        for variable in averaged:
            table = getattr(variable, "table", None)
            if table is not None and table.hashed:
                raise ValueError((
                    "embedding table '{}': got it for tf.train.ExponentialMovingAverage, whose averages begin with the "
                    "values that a variable begins with: those of rows whose keys come later would begin with zeros. "
                    "Expected variables that are whole from the start: give apply, and variables_to_restore, "
                    "sok.split_embedding_variable_from_others(tf.trainable_variables())[1]; in place of "
                    "tf.contrib.opt.MovingAverageOptimizer, which averages all that it trains, call apply after the "
                    "optimizer's step").format(table.name))
        return stock(self, averaged)
    return apply
