"""Variables whose value belongs to one rank alone."""
from typing import Any, ContextManager, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.eagerly import eager, strategies
from sok1x.core.options import cached_wholes
from sok1x.core.tables import growing_slots
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable

_left_out = ThreadScope()


def left_out() -> ContextManager[None]:
    """Inside, in this thread, a tf.train.Checkpoint passes over shards: somebody else saves them."""
    return _left_out.entered()


def are_left_out() -> bool:
    """Whether this is inside `left_out`."""
    return bool(_left_out.value)


class _NameOfEager:
    """What an eager variable has of an op.

    Attributes:
        name: the variable's, without ':0'; of a slot, which may have that of another, what `eager.named` has made of
        it. type, graph: as of a graph's.
    """

    type = "VarHandleOp"

    def __init__(self, name: str) -> None:
        self.name = name.rpartition(":")[0] or name
        self.graph = eager.graph()


class ShardVariable(ResourceVariable):
    """A resource variable that no broadcast may overwrite: a shard's rows, its index, or an optimizer's slot of it.

    Horovod's broadcasts call `variable.assign(broadcast(variable))` for every global variable. Here that assignment
    is nothing; no op then asks for the broadcast's result, so TensorFlow prunes it, on all ranks alike. All other
    assignments are TensorFlow's own, and `tf.train.Saver` restores through the handle as ever.

    Keras' session, tf.keras.backend.get_session(), initializes it once `sok1x.Init` has run, and leaves it until then.

    Raises:
        ValueError: as for `tf.Variable`, for instance without an initial value.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables.shard_variable import ShardVariable
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     variable = ShardVariable(initial_value=[1.0, 2.0], name="mine")
        ...     session.run(variable.initializer)
        ...     session.run(variable.assign([3.0, 4.0])).tolist()
        [3.0, 4.0]
    """

    is_shard = True
    _waits_for_init = False  # optimizers' slots, which become ShardVariables later, need no ranks to be initialized
    _initialized_by_keras = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        strategy = strategies.current()
        super().__init__(*args, **kwargs, **({} if strategy is None else {"distribute_strategy": strategy}))
        self._waits_for_init = True
        if not self._in_graph_mode:
            eager.add(self)

    @property
    def graph(self) -> Any:
        """The graph of its ops; of an eager one that of those which are made once."""
        return self._handle.graph if self._in_graph_mode else eager.graph()

    @property
    def op(self) -> Any:
        """The op that makes the handle; of an eager one no more than its name."""
        return super().op if self._in_graph_mode else _NameOfEager(eager.name_of(self) or self._handle_name)

    @classmethod
    def _variable_call(cls, *args: Any, **kwargs: Any) -> None:
        """Asked by TensorFlow 2 before a variable is made, for one of another class: there is none."""

    def assign(self, value: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        """Assigns `value`, except one that Horovod broadcasts.

        Args:
            value: the new value, of this variable's shape and dtype.
            use_locking: ignored, as for every resource variable.
            name: of the assignment op.
            read_value: whether to return the variable after the assignment rather than the op.

        Returns:
            As `tf.Variable.assign`; for a value from Horovod's broadcast an op that does nothing.

        Raises:
            ValueError: value has another shape, or the table has a cache.

        Example:
            >>> import tensorflow as tf
            >>> from sok1x.core.tables.shard_variable import ShardVariable
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     variable = ShardVariable(initial_value=[1, 2], name="mine")
            ...     _ = session.run(variable.initializer)
            ...     _ = session.run(variable.assign([3, 4], read_value=False))
            ...     session.run(variable).tolist()
            [3, 4]
        """
        if isinstance(value, tf.Tensor) and hasattr(value, "graph") and value.op.type.startswith("HorovodBroadcast"):
            return tf.no_op(name=name or "kept_by_its_rank")
        cached_wholes.refuse_replacing(self, "assign")
        with tf.control_dependencies(self._checks_of_whole(value)), self._assign_dependencies():
            done, assigned = growing_slots.assigned(self, value, name)
            if done:
                return self._lazy_read(assigned) if read_value else assigned
            return super().assign(value, use_locking=use_locking, name=name, read_value=read_value)

    def _checks_of_whole(self, value: Any) -> List[tf.Operation]:
        """Ops that fail where the whole value may not become this one; eagerly they have."""
        return []

    def load(self, value: Any, session: Any = None) -> None:
        """As `tf.Variable.load`; refused where `assign` is.

        Args:
            value: the new value, an array of this variable's shape.
            session: the session; by default the default one.

        Raises:
            ValueError: there is no session, or the table has a cache.

        Example:
            >>> import tensorflow as tf
            >>> from sok1x.core.tables.shard_variable import ShardVariable
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     variable = ShardVariable(initial_value=[1, 2], name="mine")
            ...     variable.load([3, 4], session)
            ...     session.run(variable).tolist()
            [3, 4]
        """
        cached_wholes.refuse_replacing(self, "load")
        cached_wholes.refuse(self, growing_slots.table_with(self), "load")
        super().load(value, session)

    def assign_add(self, delta: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        """As of any variable; refused, as `assign_sub`, for what of a table with a cache has the cache's rows alone.

        Args:
            delta: what to add, of this variable's shape and dtype.
            use_locking: ignored, as for every resource variable.
            name: of the op.
            read_value: whether to return the variable after the assignment rather than the op.

        Returns:
            As `tf.Variable.assign_add`.

        Raises:
            ValueError: delta has another shape, or the table has a cache.

        Example:
            >>> import tensorflow as tf
            >>> from sok1x.core.tables.shard_variable import ShardVariable
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     variable = ShardVariable(initial_value=[1, 2], name="mine")
            ...     _ = session.run(variable.initializer)
            ...     session.run([variable.assign_add([3, 4])])
            [array([4, 6], dtype=int32)]
        """
        cached_wholes.refuse(self, growing_slots.table_with(self), "assign_add")
        return super().assign_add(delta, use_locking=use_locking, name=name, read_value=read_value)

    def assign_sub(self, delta: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        """As `assign_add`, with what to take away.

        Args:
            delta: of this variable's shape and dtype.
            use_locking: ignored.
            name: of the op.
            read_value: as of `assign_add`.

        Returns:
            As `tf.Variable.assign_sub`.

        Raises:
            ValueError: as of `assign_add`.

        Example:
            >>> import tensorflow as tf
            >>> from sok1x.core.tables.shard_variable import ShardVariable
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     variable = ShardVariable(initial_value=[4, 6], name="mine")
            ...     _ = session.run(variable.initializer)
            ...     session.run([variable.assign_sub([3, 4])])
            [array([1, 2], dtype=int32)]
        """
        cached_wholes.refuse(self, growing_slots.table_with(self), "assign_sub")
        return super().assign_sub(delta, use_locking=use_locking, name=name, read_value=read_value)

    @property
    def _keras_initialized(self) -> bool:
        """Read by Keras whenever it is asked for its session: True where there is nothing for it to initialize.

        Before `sok1x.Init` the initializer would fail, and nobody could get Keras' session to run Init in.
        """
        if self._initialized_by_keras or (self._waits_for_init and launch.current() is None):
            return True
        raise AttributeError("_keras_initialized")  # on any other variable Keras sets it; and asks whether there is one

    @_keras_initialized.setter
    def _keras_initialized(self, done: bool) -> None:
        self._initialized_by_keras = done

    def _gather_saveables_for_checkpoint(self) -> Any:
        """Asked by `tf.train.Checkpoint`, for which each rank's shard is a whole variable."""
        self._refuse_on_several_ranks()
        self._refuse_cached()
        return super()._gather_saveables_for_checkpoint()

    def _serialize_to_tensors(self) -> Any:
        """The same, asked by TensorFlow 2's; eager shards have a place for each rank (eager_places.py)."""
        if are_left_out():
            return {}
        if self._in_graph_mode:
            self._refuse_on_several_ranks()
        self._refuse_cached()
        return super()._serialize_to_tensors()

    def _refuse_cached(self) -> None:
        table = getattr(self, "table", None)
        if table is not None and table.cache is not None:
            raise RuntimeError((
                "tf.train.Checkpoint cannot save or restore '{}': the table has a cache, and most of its rows are in "
                "host memory. Use {}, which saves tables itself.").format(
                    self.op.name, "sok.CheckpointManager, or a tf.train.Saver" if self._in_graph_mode else
                    "sok.CheckpointManager(folder, checkpoint=tf.train.Checkpoint(...))"))

    def _refuse_on_several_ranks(self) -> None:
        world = launch.current()
        if world is not None and world.size > 1:
            raise RuntimeError((
                "tf.train.Checkpoint cannot save or restore '{}' on {} ranks: it is one rank's shard of a table, and "
                "all ranks would write it to one place. Use tf.train.Saver, or sok.CheckpointManager, on all "
                "ranks; give tf.keras.estimator.model_to_estimator checkpoint_format='saver'.").format(
                    self.op.name, world.size))
