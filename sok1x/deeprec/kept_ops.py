"""Ops of a table that are kept, and go on by what they were told of where its rows are."""
import json
from typing import Any, Optional

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.dump_load import transfers
from sok1x.graph_ops.bridge import op_types

# Operations that ask which rank has which rows, by the beginnings of their names; of lookups the table knows itself.
_BY_PLACE = ("operations.assign_rows.", "transfer.")


def first(variable: EmbeddingVariable) -> Optional[str]:
    """The first op in a graph that assigns, saves or restores rows of a table.

    Args:
        variable: the table, of a graph.

    Returns:
        The op's name; None: there is none. The table's own, which are made anew with its description, are none.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.deeprec import kept_ops
        >>> with tf.Graph().as_default():
        ...     items = sok.DynamicVariable(dimension=2)
        ...     before = kept_ops.first(items)
        ...     _ = sok.assign(items, [7], [[1.0, 2.0]])
        ...     before, kept_ops.first(items)
        (None, 'assign/assign_rows')
    """
    own = tuple("{}/{}".format(variable.table.name, name) for name in (transfers.SAVE, transfers.LOAD))
    return next((str(op.name) for op in variable.graph.get_operations()
                 if op_types.is_ours(op) and not op.name.startswith(own) and _goes_by_place(op, variable)), None)


def _goes_by_place(op: Any, variable: EmbeddingVariable) -> bool:
    if not op.get_attr("function").decode().startswith(_BY_PLACE):
        return False
    told = json.loads(op.get_attr("config").decode())["config"].get("table") or {}
    return bool(told.get("name") == variable.table.name)
