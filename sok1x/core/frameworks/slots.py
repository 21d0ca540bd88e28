"""Optimizer slots of shards: they belong to one rank just as the shard does.

TensorFlow's optimizers make a variable's slots with the variable itself in hand: tf.train's ask for its `op`, and
both tf.train's and tf.keras' colocate the slot with its `handle`. So `EmbeddingVariable` calls `watch` from these
two properties, which puts `_claim` on the creator stack of the graph (and thread) in which the slot is about to be
made, and `_claim` turns every slot of a shard into a `ShardVariable`. A slot of a table that grows gets another
initial value there (growing_slots.py).
"""
from typing import Any, Callable, Iterable, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.graph_keys import GraphKeys
from sok1x.core.tables import growing_slots
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable

_COLOCATED = b"loc:@"
OWNER = "_sok1x_slot_of"  # of an eager variable: the shard whose slot it is


def watch(graph: tf.Graph) -> None:
    """Makes sure that slots of shards created in `graph` by this thread become `ShardVariable`s.

    Args:
        graph: where an optimizer may be about to create slots.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.frameworks import slots
        >>> slots.watch(tf.Graph())
    """
    # TensorFlow's own `variable_creator_scope` ends with a block and this must not; the list is changed in place,
    # at the innermost place, so that scopes open around us still find the list they put there when they close.
    stack = graph._variable_creator_stack
    if not any(creator is _claim for _, creator in stack):
        stack.insert(0, (0, _claim))


def _claim(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    shards = [shard for shard in tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
              if isinstance(shard, ShardVariable)]  # not one that came with a MetaGraph
    variable = growing_slots.create(next_creator, shards, kwargs)
    if type(variable) is ResourceVariable and shard_of(variable, shards) is not None:
        variable.__class__ = ShardVariable  # the same state, with the other class's `assign`
    return variable


def has_rows_of(variable: Any, shard: Any) -> bool:
    """Whether a variable has a value for each row of a shard.

    Args:
        variable: a variable beside the shard's rows.
        shard: an `EmbeddingVariable`.

    Returns:
        A bool.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import slots
        >>> with tf.Graph().as_default():
        ...     shard = sok.EmbeddingVariable(rows=8, dim=4)
        ...     slots.has_rows_of(shard.stamps, shard)
        True
    """
    if shard.table.grows:
        return variable is shard.stamps or growing_slots.table_of(variable) == shard.table.name
    return bool(variable.shape[:1] == shard.shape[:1])


class Tables:
    """A graph's tables, by which the owners of slots are found.

    Args:
        shards: its `EmbeddingVariable`s.
    """

    def __init__(self, shards: Iterable[Any]) -> None:
        self.shards = list(shards)
        self._by_name = {str(shard.table.name): shard for shard in self.shards}

    def owner(self, variable: ResourceVariable) -> Optional[Any]:
        """The shard whose slot a variable is: see `shard_of`."""
        if not variable._in_graph_mode:  # nothing is colocated: who made it has noted whose it is
            owner = getattr(variable, OWNER, None)
            return next((shard for shard in self.shards if shard is owner), None)
        growing = growing_slots.table_of(variable)
        if growing is not None:
            return self._by_name.get(growing)
        beside = [self._by_name.get(group[len(_COLOCATED):].decode())
                  for group in variable.handle.op.colocation_groups() if group.startswith(_COLOCATED)]
        # Adam's beta powers are colocated with a shard too: but they are scalars, equal on all ranks.
        beside = [shard for shard in beside if shard is not None and has_rows_of(variable, shard)]
        if len(beside) == 1:
            return beside[0]
        # The longest name counts: a layer's table LAYER/EmbeddingVariable is not that called EmbeddingVariable.
        parts = str(variable.op.name).split("/")
        for length in range(len(parts), 0, -1):
            for first in range(len(parts) - length + 1):
                shard = self._by_name.get("/".join(parts[first:first + length]))
                if shard is not None and (shard in beside if beside else not shard.named_by_user):
                    return shard
        return beside[0] if beside else None


def shard_of(variable: ResourceVariable, shards: Iterable[Any]) -> Optional[Any]:
    """The shard whose slot a variable is: by place and shape, or by name (`EmbeddingVariable/Adam`, in any scope).

    Of a shard that the user has named the name says nothing: dense variables may be in a scope of the same name.

    Args:
        variable: a resource variable that is no shard itself.
        shards: the graph's `EmbeddingVariable`s.

    Returns:
        One of `shards`, or None.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.frameworks import slots
        >>> with tf.Graph().as_default():
        ...     variable = tf.get_variable("weights", [4], use_resource=True)
        ...     slots.shard_of(variable, []) is None
        True
    """
    return Tables(shards).owner(variable)
