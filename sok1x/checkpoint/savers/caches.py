"""Tables with a cache: their rows are in host memory, and what TensorFlow would save of their variables is the cache.

So they are saved as whole checkpoints, of one rank too, and what cannot be one is refused.
"""
from typing import Any, Container, Iterable, List

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import CheckpointError
from sok1x.graph_ops.stores import cache


def among(variables: Iterable[Any]) -> List[str]:
    """Names of the tables with a cache among variables."""
    return [variable.op.name for variable in variables
            if getattr(getattr(variable, "table", None), "cache", None) is not None]


def of_imported(graph: tf.Graph) -> List[str]:
    """Names of such tables of a graph that came with a MetaGraph."""
    names = {variable.op.name for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    return sorted(name for name in names if saved_in(name, names))


def saved_in(name: str, names: Container[str]) -> bool:
    """Whether what TensorFlow alone has saved, variables of these names, has no more of a table than its cache.

    It has all that such a table has: one alone may be another table, or a variable, that is called so.
    """
    return all("{}/{}".format(name, beside) in names for beside in cache.VARIABLES)


def refuse(tables: List[str], what: str, instead: str) -> None:
    """Raises CheckpointError if there are such tables.

    Args:
        tables: their names.
        what: what is not done, and where: "A SavedModel cannot be written to PATH".
        instead: what to do.
    """
    if tables:
        raise CheckpointError((
            "{}: all rows of table '{}' are in host memory, and its variables have only those that are in its cache. "
            "{}.").format(what, "', '".join(tables), instead))
