"""Columns whose tables are looked up together."""
import contextlib
from typing import Any, Iterator, List, Optional

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2

from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge import op_types

__all__ = ["group_embedding_column_scope"]

_open = ThreadScope()  # its value is the Group


class Group:
    """Columns that were made in one scope.

    Args:
        name: of the scope, for the graph's ops.
    """

    def __init__(self, name: str) -> None:
        self.name = name


@contextlib.contextmanager
def group_embedding_column_scope(name: Optional[str] = None, params_num_per_group: Any = None) -> Iterator[Group]:
    """Embedding columns that are made inside have tables of ours, and are looked up together.

    Whatever resolves some of them at once, `tf.feature_column.input_layer`, `tf.keras.layers.DenseFeatures`, linear
    models, canned Estimators, makes one lookup of these: none starts before the ids of all are there, and then they
    run, and travel between the ranks, as one. Columns of the group that a call does not ask for are not looked up.

    Args:
        name: of the group, for the names of ops; 'group_embedding_column_scope' by default.
        params_num_per_group: nothing depends on it: a group has all columns that were made in its scope.

    Yields:
        The group.

    Raises:
        TypeError: a name that is no string.
        ValueError: a scope within a scope.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> columns = sok.feature_column
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     with columns.group_embedding_column_scope("ads"):
        ...         made = [columns.embedding_column(columns.categorical_column_with_embedding(name, tf.int64), 4)
        ...                 for name in ("ad", "shop")]
        ...     features = {"ad": tf.constant([[7], [8]], tf.int64), "shop": tf.constant([[1], [1]], tf.int64)}
        ...     layer = tf.feature_column.input_layer(features, made)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(layer).shape
        (2, 8)
    """
    if name is not None and not isinstance(name, str):
        raise TypeError("group_embedding_column_scope: name: got {!r} of type {}, expected a string".format(
            name, type(name).__name__))
    if current() is not None:
        raise ValueError("group_embedding_column_scope: got a scope '{}' inside the scope '{}': a column is of one "
                         "group".format(name, _open.value.name))
    group = Group(name or "group_embedding_column_scope")
    with _open.entered(group):
        yield group


def current() -> Optional[Group]:
    """The group of the scope that is open.

    Returns:
        The `Group`, or None.

    Example:
        >>> from sok1x.feature_column import groups
        >>> with groups.group_embedding_column_scope("ads") as group:
        ...     groups.current() is group
        True
    """
    return _open.value


@contextlib.contextmanager
def together(group: Optional[Group], resolver: Any, ids: List[Any]) -> Iterator[None]:
    """Where a column's lookup is made: it waits for the ids of all columns of its group that are resolved with it.

    Which these are shows as they come, one after the other: each adds its ids to what all wait for. They are made of
    features that were there before, so none waits for another's result.

    Args:
        group: the column's, or None.
        resolver: what has the features of one call: TensorFlow's cache of transformations, or builder.
        ids: tensors, int64 or float32 of any shape, that the lookup takes.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import groups
        >>> with groups.group_embedding_column_scope("ads") as group, tf.Graph().as_default():
        ...     resolver = groups.Group("any object")
        ...     with groups.together(group, resolver, [tf.constant(1)]):
        ...         first = tf.constant(2)
        ...     with groups.together(group, resolver, [tf.constant(3)]):
        ...         second = tf.constant(4)
        ...     first.op.control_inputs == second.op.control_inputs, len(first.op.control_inputs[0].control_inputs)
        (True, 2)
    """
    graph = tf.get_default_graph()
    # Each branch has ops of its own, and eagerly each op runs by itself.
    if group is None or tf.executing_eagerly() or graph._get_control_flow_context() is not None:
        yield
        return
    barriers = vars(resolver).setdefault("_sok1x_barriers", {})
    key = group, graph
    if key not in barriers:
        with tf.name_scope(None), tf.control_dependencies(None):
            barriers[key] = tf.no_op(name=group.name + "_ids")
            barriers[key]._set_attr(op_types.BARRIER, attr_value_pb2.AttrValue(b=True))
    barriers[key]._add_control_inputs([tensor.op for tensor in ids])
    with tf.control_dependencies([barriers[key]]):
        yield
