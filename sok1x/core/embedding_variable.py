"""A table's shard on this rank, as TensorFlow variables."""
import dataclasses
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager, eager_slots, horovod_eager, trace_types
from sok1x.core.frameworks import estimator_clusters, slots, warm_start, watching
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.options import arguments, cache_options, capacities, forgetting_options, initializers
from sok1x.core.options.given_numbers import integer
from sok1x.core.tables import growing_shape, table_parts, table_root
from sok1x.core.tables.stamped_variable import StampedVariable
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.gradients import gradient_checks
from sok1x.graph_ops.operations import evictions
from sok1x.graph_ops.stores import beside, cache, clock, stamps, step_at
from sok1x.graph_ops.stores.forgetting import FREE
from sok1x.graph_ops.stores.table import DIRECT, HASHED, MOST_ROWS, Initializer, Table
from sok1x.optimizers import unfit


class EmbeddingVariable(StampedVariable):
    """The rows of one table's shard, float32 [V, D]; layers make it, users and optimizers read and update it.

    Whatever name scope, variable scope or control dependencies are open, it is created at the root of the graph as
    `EmbeddingVariable`, `EmbeddingVariable_1`, …, that of a layer which has been given a name as
    `LAYER/EmbeddingVariable`, in `GLOBAL_VARIABLES`, `TRAINABLE_VARIABLES` and sok1x's own
    `GraphKeys.GLOBAL_EMBEDDING_VARIABLES`. Beside it lie variables that are not trainable. The hash index tells which
    key has which row: `NAME/index`, int64 [C, 2], a key and its row in each slot, and `NAME/count`, int64 [], rows in
    use. The stamps tell `sok.incremental_dump` which rows have changed: `NAME/stamps`, int64 [V], and `NAME/steps`,
    int64 [].
    So `tf.train.Saver`, initializers and reports of uninitialized variables see all of a table's state.

    Horovod's broadcasts leave it, these variables and its optimizer slots alone: see `ShardVariable`.

    Args:
        rows: V, rows of this rank's shard; None: it begins with `init_capacity`, and grows.
        dim: D, floats a row.
        use_hashtable: whether an index maps keys to rows; without one, key k is row k // N of rank k % N.
        key_dtype: int64, uint32 or int32, or its name; None: int64.
        initializer: as a layer's `embedding_initializer`.
        trainable: whether optimizers train it by default.
        init_capacity: where `rows` is None, V at the start; None: 8192, or `max_capacity` if that is less.
        max_capacity: where `rows` is None, the most rows that this rank's shard gets; None: as many as there is memory
            for.
        layer: the name of its layer, which its own begins with; None: it has none.
        **options: what `forgetting_options.ForgettingOptions` has: which rows leave when keys need more, and which
            keys get rows; and what `cache_options.CacheOptions` has: whether all rows are in host memory.

    Attributes:
        m_var_name: its name as SOK 1.x has it, `EmbeddingVariable`, `EmbeddingVariable_1`, … in the order of tables,
            after which `sok.Saver` calls its files. Its name in the graph is `op.name`.
        index: the index's variables, empty without a hash table.
        forgetting: variables of a table that forgets or has a cache, else empty: see
            `graph_ops.stores.forgetful_store` and `cached_store`.
        stamps: int64 [V], the step at which each row last changed; 0 where it never has.
        steps: int64 [], the last step at which any has.
        start: of a table that grows whose rows begin as given ones, these, float32 [n, D]: each rank's own. Else None.
        table: the table's description.
        table_variables: the handles of all these variables, which ops of ours take.
        named_by_user: whether its name is the user's choice.
        leaves_before_save: what runs before the table is saved and has rows leave; None: nothing does.
        leave: given the table, makes another such where it is called; None likewise.
        is_looked_up: whether a lookup of all ranks' rows has been made.
        is_in_functions: whether an op that assigns, saves or restores rows is in the body of a function, in eager
            execution.
        made_in: a weak reference to the thread that has made it under a variable scope; else None, as in an
            `EagerVariableStore`.
        changed: (since, keys, values) of `sok.incremental_dump` in a finalized graph: a scalar placeholder and two
            tensors.
        step_at: (time, step) of `sok.incremental_model_dump`: a scalar placeholder and a scalar tensor.
        evicted: (since, keys, whether they are all) of `sok.evicted_keys`, likewise; None where no row ever leaves.

    Raises:
        TypeError: an argument of another type, or an unknown option.
        ValueError: eager execution of TensorFlow 1.15 is on, a number out of range, the initializer's name is unknown
            or, for a table that grows, is of a matrix, or capacities that do not fit one another.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.name_scope("anywhere"):
        ...     shard = sok.EmbeddingVariable(rows=8, dim=4, initializer="ones")
        ...     init = sok.Init(global_batch_size=2)
        ...     with tf.Session() as session:
        ...         _ = session.run(init)
        ...         _ = session.run(tf.global_variables_initializer())
        ...         value = session.run(shard)
        >>> shard.m_var_name, value.shape
        ('EmbeddingVariable', (8, 4))
    """

    named_by_user = False
    leaves_before_save: Optional[tf.Tensor] = None
    leave: Optional[Callable[[Any], tf.Tensor]] = None
    is_looked_up = False
    is_in_functions = False
    made_in: Any = None
    start: Optional[table_parts.StartVariable] = None

    def __init__(self, rows: Optional[int], dim: int, use_hashtable: bool = True, key_dtype: Any = "int64",
                 initializer: Any = None, trainable: bool = True, init_capacity: Optional[int] = None,
                 max_capacity: Optional[int] = None, layer: Optional[str] = None, **options: Any) -> None:
        what = "sok1x.EmbeddingVariable"
        rows = None if rows is None else integer(
            what + ": rows", rows, 1, MOST_ROWS, capacities.ROWS_EXPECTED)
        dim = integer(what + ": dim", dim, 1, MOST_ROWS)
        use_hashtable = arguments.boolean(what, "use_hashtable", use_hashtable)
        key_dtype = arguments.key_dtype(what, key_dtype).name
        with table_root.room():
            # Taken in any case: SOK counts all tables.
            name = kit_name = table_root.unique_name("EmbeddingVariable", taken=layer is not None)
            if layer is not None:
                name = table_root.unique_name(layer + "/EmbeddingVariable")
            label = "table '{}'".format(name)
            given = cache_options.taken_out_of(options)
            resolved = cache_options.resolve(label, dim, forgetting_options.resolve(
                label, capacities.resolve(label, rows, use_hashtable, init_capacity, max_capacity), use_hashtable,
                options), given)
            capacity = resolved.capacity
            row_initializer = initializers.resolve(initializer, capacity.rows, dim, capacity.growth is not None,
                                                   "{}: {}".format(label, initializers.ARGUMENT))
            self._make(Table(name, capacity.rows, dim, HASHED if use_hashtable else DIRECT, key_dtype,
                             Initializer(**row_initializer.spec), growth=capacity.growth,
                             forgetting=resolved.forgetting, cache=resolved.cache,
                             counted_name="" if name == kit_name else kit_name),
                       row_initializer.fill, trainable)

    def _make(self, table: Table, fill: Optional[Callable[[], tf.Tensor]], trainable: bool,
              start: Optional[tf.Tensor] = None, **options: Any) -> None:
        """Makes the variables, inside `table_root.room`.

        Args:
            table: the description; its name is the variable's.
            fill: as for `StampedVariable`.
            trainable: as for `tf.Variable`.
            start: the value of the variable `start`; None: there is none.
            **options: as for `tf.Variable`; collections besides the two that all tables are in.
        """
        from sok1x.dump_load import transfers  # which needs this module
        estimator_clusters.refuse(table.name)
        watching.watch(table)
        table = table_root.known_as(table)
        table_root.refuse_taken(table)
        self.m_var_name = table.kit_name
        collections = list(options.pop("collections", None) or [tf.GraphKeys.GLOBAL_VARIABLES])
        StampedVariable.__init__(self, table, fill, trainable=trainable, name=table.name,
                                 collections=collections + [GraphKeys.GLOBAL_EMBEDDING_VARIABLES], **options)
        with tf_ops.name_scope(table.name + "/"), tf.device(self.device):
            self.index = table_parts.index_of(table)
            handles = {name: variable.handle for name, variable in zip(("index", "count"), self.index)}
            self.forgetting = table_parts.forgetting_of(table)
            handles["forgetting"] = {name: variable.handle for name, variable in self.forgetting.items()}
            self.table_variables = dataclasses.replace(self.table_variables, **handles)
            if start is not None:
                self.start = table_parts.StartVariable(initial_value=start, trainable=False, name=beside.START)
        if self._in_graph_mode:
            besides = [self.stamps, self.steps, *self.index, *self.forgetting.values(),
                       *([] if self.start is None else [self.start])]
            with tf_ops.name_scope(table.name + "/Initializer/"), tf.device(self.device), \
                    tf.control_dependencies([one.initializer for one in besides]):
                self._whole_initializer = tf.raw_ops.AssignVariableOp(
                    resource=self._handle, value=self._initializer_op.inputs[1], name="all")
        else:
            eager.add(self, GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
            eager.named(self, table.name)  # also where Keras' load_model calls it as the one that was saved
            if table.grows:
                eager_slots.note_variables(self)
        eager_slots.track_variables(self)
        with eager.room(self), tf_ops.name_scope(table.name + "/"), tf.device(self.device):
            # Where nobody feeds it, nothing has changed: tf.add_check_numerics_ops runs all that gives floats.
            since = eager.placeholder(tf.int64, [], name="since", default=tf.int64.max)
            self.changed = (since, *stamps.changed(self.table_variables, since))
            time = eager.placeholder(tf.int64, [], name="time")
            self.step_at = (time, step_at.step_at(self.table_variables, time))
            at_least = eager.placeholder(tf.int64, [], name="at_least", default=0)
            self.loaded = (at_least, stamps.mark_loaded(self.table_variables, at_least))
            if not eager.is_on():
                clock.make_teller(self.step_at if self.forgetting else None)
            self.evicted = (since, *evictions.since(self.table_variables, since)) if self.forgetting else None
        transfers.of(self)

    @property
    def initializer(self) -> tf.Operation:
        """What initializes the table: its rows, and all that lies beside them.

        Optimizers' slots have initializers of their own, as those of any variable. Where a table that has been trained
        begins anew, run those too: else keys get rows with the slots of others.

        Returns:
            A tf.Operation.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     shard = sok.EmbeddingVariable(rows=8, dim=4)
            ...     _ = session.run(sok.Init(global_batch_size=1))
            ...     session.run(shard.initializer)
            ...     int(session.run(shard.rows_in_use()))
            0
        """
        return self._whole_initializer if self._in_graph_mode else super().initializer

    @property
    def _initializer_op(self) -> Any:
        return self.__dict__["_initializer_op"]

    @_initializer_op.setter
    def _initializer_op(self, op: Any) -> None:
        """TensorFlow's constructor sets it, and later those that replace a variable's initial value."""
        if self.__dict__.get("_initializer_op") is not None:
            if warm_start.has_no_rows(op):
                return  # so its rows begin as ever
            raise warm_start.refusal(self.table.name)
        self.__dict__["_initializer_op"] = op

    def rows_in_use(self) -> tf.Tensor:
        """How many of this rank's rows belong to keys.

        Returns:
            int64 [].

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     shard = sok.EmbeddingVariable(rows=8, dim=4, use_hashtable=False)
            ...     int(session.run(shard.rows_in_use()))
            8
        """
        if self.table.cache is not None:
            numbers = self.forgetting["tiers"].value()
            return numbers[cache.GIVEN] - numbers[cache.FREE]
        if not self.index:
            return tf.constant(self.table.rows, tf.int64)
        used = self.index[-1].value()
        return used - self.forgetting["counters"].value()[FREE] if self.forgetting else used

    @property
    def shape(self) -> tf.TensorShape:
        """The static shape of this rank's rows.

        Returns:
            [V, D]; [None, D] of a table that grows.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     sok.EmbeddingVariable(rows=None, dim=4).shape.as_list()
            [None, 4]
        """
        if self.table.grows:
            rows = 1 if growing_shape.are_shapes_known() else growing_shape.GrowingRows(self.table.name)
            return tf.TensorShape([rows, self.table.dim])
        return self._shape

    @property
    def op(self) -> tf.Operation:
        """The op that makes the handle.

        Returns:
            A tf.Operation, of type VarHandleOp.

        Raises:
            ValueError: on several ranks, a gradient of the table went through Horovod, or was clipped by a norm of this
                rank's rows.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     sok.EmbeddingVariable(rows=8, dim=4).op.type
            'VarHandleOp'
        """
        self._in_hand()
        return super().op

    @property
    def handle(self) -> tf.Tensor:
        """The handle by which ops refer to the rows.

        Returns:
            A scalar tf.Tensor of dtype resource.

        Raises:
            ValueError: as for `op`.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     sok.EmbeddingVariable(rows=8, dim=4).handle.dtype
            tf.resource
        """
        self._in_hand()
        return super().handle

    def __tf_tracing_type__(self, signature_context: Any) -> Any:
        """TensorFlow 2 asks for it where a tf.function is given the table as an argument."""
        return trace_types.of(self, signature_context)

    def _in_hand(self) -> None:
        """Somebody, perhaps an optimizer, has asked for what ops on the variable need."""
        if not self._in_graph_mode:
            horovod_eager.watch()  # it may have been imported meanwhile
            return
        slots.watch(tf.get_default_graph())
        unfit.watch()  # likewise
        gradient_checks.check(self._handle.graph, self.table.name)
