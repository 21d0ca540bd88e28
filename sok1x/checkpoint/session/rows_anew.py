"""Rows that begin anew: of tables whose rows, once their keys have gone, are what the next keys begin with."""
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable
from sok1x.graph_ops.stores.table import Table


def are_kept(table: Table) -> bool:
    """Whether rows without a key stay what they are until a key gets them; else that key's begin anew."""
    return not table.hashed or (table.by_row and not table.grows)


def used(variable: Any) -> Any:
    """How many rows from the first one on are in use; without an index those up to the last that has changed.

    Args:
        variable: a table.

    Returns:
        An int64 [], below 1 for none; None where all rows have keys that every checkpoint has.
    """
    if variable.index:
        return variable.index[-1]
    if variable.table.keys is not None:
        return None
    with tf.name_scope("rows_used"):
        changed = variable.stamps.value() > 0
        with tf.device("/cpu:0"):
            return tf.reduce_max(tf.where(changed)) + 1


def begin(session: Any, variable: Any) -> None:
    """All rows of a table become what they have begun with; its index is left alone."""
    if variable._in_graph_mode:
        session.run(variable._initializer_op)
    else:
        ResourceVariable.assign(variable, variable._first_rows())


def first_rows(session: Any, variable: Any) -> np.ndarray:
    """What all rows of a table begin with, float32 [V, D]."""
    if variable._in_graph_mode:
        return session.run(variable.initial_value)
    return variable._first_rows().numpy()
