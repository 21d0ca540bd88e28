"""A shard that knows when each of its rows last changed."""
import contextlib
import functools
from typing import Any, Callable, Iterator, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager, eager_slots
from sok1x.core.frameworks import numbered_rows, run_gradients, stamped_steps
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.no_copies import NoCopies
from sok1x.core.options import cached_wholes
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside, resource_variable_ops, tf_ops
from sok1x.graph_ops.gradients import shard_gradients
from sok1x.graph_ops.stores import clock, initial, stamps
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import TableVariables

# Of a read's op, in the forward pass: whose gradient function it has in place of TensorFlow's own.
_GRADIENTS = {"ReadVariableOp": "Sok1xRead", "ResourceGather": "Sok1xGather"}


class StampedVariable(NoCopies, ShardVariable):
    """Rows [V, D] of a shard, and beside them the step at which each one last changed.

    Lookups stamp the rows that they insert and those of their gradients (see graph_ops/stores/clock.py). Here come the
    variable's own methods, and gradients that are taken through its value, as of a regularizer: what assigns or
    scatters into it, and what makes such a gradient, depends on an op that marks the rows; in eager execution, and of
    gradients of other kinds, an optimizer's step does (stamped_steps.py). What reaches around all of these is not seen:
    tf.raw_ops on the handle.

    Args:
        table: the description of the shard.
        fill: makes the initial value where a Keras initializer does; else None.
        name: its name; the stamps are `NAME/stamps` and `NAME/steps`.
        **options: as for `tf.Variable`.

    Attributes:
        table: the description.
        table_variables: the handles, which ops of ours take.
        stamps: int64 [V], the step at which each row last changed; 0 where it never has.
        steps: int64 [], the last step at which any has.
        loaded: (int64 [], to be fed; an op that marks all rows as changed, at that step or later), for whoever loads
            rows: made where all handles are known.

    Raises:
        ValueError: as for `tf.Variable`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     shard = sok.EmbeddingVariable(rows=8, dim=4)
        >>> shard.stamps.name, shard.steps.name
        ('EmbeddingVariable/stamps:0', 'EmbeddingVariable/steps:0')
    """

    loaded: Tuple[tf.Tensor, tf.Operation]

    def __init__(self, table: Table, fill: Optional[Callable[[], tf.Tensor]], name: str, **options: Any) -> None:
        self.table = table
        if table.grows:
            options.update(eager.shape(None, table.dim))
        first_rows = functools.partial(initial.initial_rows, table, fill)
        super().__init__(initial_value=first_rows, name=name, dtype=tf.as_dtype(table.dtype), **options)
        if not self._in_graph_mode and not table.grows and table.keys is None:
            self._first_rows = first_rows  # rows may begin anew; in a graph by the initializer
        with tf_ops.name_scope(name + "/"), tf.device(self.device):
            self.stamps = ShardVariable(
                initial_value=lambda: initial.initial_stamps(table), trainable=False, name="stamps",
                **(eager.shape(None) if table.grows else {}))
            self.steps = ShardVariable(
                initial_value=lambda: initial.initial_count(table), trainable=False, name="steps")
            self.table_variables = TableVariables(table, self._handle, self.stamps.handle, self.steps.handle)

    def load(self, value: Any, session: Any = None) -> None:
        """Loads a new value into the variable at once.

        Args:
            value: the new value, a NumPy array float32 [V, D].
            session: the session; by default the default one.

        Raises:
            ValueError: there is no session.

        Example:
            >>> import numpy as np
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     shard = sok.EmbeddingVariable(rows=2, dim=2)
            ...     _ = session.run(sok.Init(global_batch_size=1))
            ...     _ = session.run(tf.global_variables_initializer())
            ...     shard.load(np.ones([2, 2], np.float32), session)
            ...     session.run(shard).tolist()
            [[1.0, 1.0], [1.0, 1.0]]
        """
        cached_wholes.refuse_replacing(self, "load")
        session = session or tf.get_default_session()
        if session is None:
            raise ValueError("sok1x: load: '{}': got no session, and there is no default one; pass session=".format(
                self.table.name))
        # TensorFlow's own runs `initializer`, by which all that lies beside the rows would begin anew.
        session.run(self._initializer_op, {self._initializer_op.inputs[1]: value})
        at_least, marked = self.loaded
        session.run(marked, {at_least: clock.step_outside(self.graph, session)})

    def assign(self, value: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        """Assigns `value`, as a `ShardVariable`; eagerly a table that grows may get another V, and its slots with it.

        Args:
            value: the new value, float32 [V, D].
            use_locking: ignored.
            name: of the assignment op.
            read_value: whether to return the variable after the assignment rather than the op.

        Returns:
            As `ShardVariable.assign`.

        Raises:
            ValueError: value has another D, or, of a table that does not grow, another V; or, eagerly, it is refused as
                rows_alone.py says.
            tf.errors.InvalidArgumentError: (when run in a graph) likewise.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     shard = sok.EmbeddingVariable(rows=2, dim=2)
            ...     _ = session.run(sok.Init(global_batch_size=1))
            ...     _ = session.run(tf.global_variables_initializer())
            ...     session.run(shard.assign([[1.0, 2.0], [3.0, 4.0]])).tolist()
            [[1.0, 2.0], [3.0, 4.0]]
        """
        made = super().assign(value, use_locking=use_locking, name=name, read_value=read_value)
        if tf.executing_eagerly():
            eager_slots.fit(self)
        return made

    def _no_copy(self, caller: str) -> TypeError:
        """Of TensorFlow's variables there are copies; a table's would be a plain variable, whose rows no key finds."""
        return TypeError((
            "table '{}': got {} of it, or of a layer or an object that has it, expected another table: its rows mean "
            "nothing without their keys, which are not the variable's. Make a second table or layer with the same "
            "arguments (of a layer by from_config), and give it the rows by get_weights and set_weights, or by "
            "sok.export and sok.assign").format(self.table.name, caller))

    def sparse_read(self, indices: Any, name: Any = None) -> tf.Tensor:
        """Reads rows by their numbers.

        Args:
            indices: row numbers, a tensor of int32 or int64 of any shape [...].
            name: of the op.

        Returns:
            float32 [..., D].

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     sok.EmbeddingVariable(rows=8, dim=4).sparse_read([0, 7]).shape.as_list()
            [2, 4]
        """
        with self._stamping_reads():
            return super().sparse_read(indices, name=name)

    def _read_variable_op(self, *args: Any, **kwargs: Any) -> tf.Tensor:
        with self._stamping_reads():
            return super()._read_variable_op(*args, **kwargs)

    @contextlib.contextmanager
    def _stamping_reads(self) -> Iterator[None]:
        """Reads made inside have gradients that mark rows."""
        if tf.executing_eagerly():
            yield
            return
        with tf.get_default_graph().gradient_override_map(_GRADIENTS):
            yield

    @contextlib.contextmanager
    def _assign_dependencies(self) -> Iterator[None]:
        """Around whatever writes the whole variable."""
        with super()._assign_dependencies(), tf.control_dependencies([stamps.mark(self.table_variables)]):
            yield

    def _lazy_read(self, op: tf.Operation) -> Any:
        """Gets every op that scatters into the variable, also those of tf.scatter_update and its like."""
        if isinstance(op, tf.Operation) and op.type.startswith("ResourceScatter"):
            rows = op.inputs[1][..., 0] if "Nd" in op.type else op.inputs[1]
            if not is_eager_outside():  # there a row stays as long as its number is there
                rows, _ = run_gradients.of_this_run(rows, self)
            op._add_control_input(stamps.mark(self.table_variables, rows))
        elif tf.executing_eagerly():
            written = numbered_rows.rows_written()
            if written is not None and not stamped_steps.are_stamped(written, self):
                stamps.mark(self.table_variables, written)
        return super()._lazy_read(op)


@tf.RegisterGradient("Sok1xRead")
def _read_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    """Of the whole value: every row changes."""
    if op is None:  # what a SavedModel keeps of it, which is of no op
        return tf.identity(gradient)
    with tf.control_dependencies(_marks(op)):
        values = _noted(op, tf.identity(gradient))
    for variable in _captured(op):
        shard_gradients.add(variable.table.name, values)
    return values


@tf.RegisterGradient("Sok1xGather")
def _gather_gradient(op: tf.Operation, gradient: tf.Tensor) -> Any:
    """Of some rows, as TensorFlow makes it."""
    slices, _ = resource_variable_ops._GatherGrad(op, gradient)
    with tf.control_dependencies(_marks(op, slices.indices)):
        values = _noted(op, tf.identity(slices.values), slices.indices)
        return tf.IndexedSlices(values, slices.indices, slices.dense_shape), None


def _marks(op: tf.Operation, rows: Optional[tf.Tensor] = None) -> List[tf.Operation]:
    """What marks rows of the variable that `op` reads; nothing where a function hides which one that is."""
    return [stamps.mark(variables, rows) for variables in _tables(op)]


def _noted(op: tf.Operation, values: tf.Tensor, rows: Optional[tf.Tensor] = None) -> tf.Tensor:
    """`values`, known as the gradient of the table that `op` reads."""
    for variables in _tables(op):
        shard_gradients.add(variables.table.name, values, rows)
    return values


def _tables(op: tf.Operation) -> List[TableVariables]:
    """The table that `op` reads; nothing where a function hides which one that is."""
    handle = op.inputs[0]
    while handle.op.type in ("Enter", "Switch"):  # into a loop or a branch
        handle = handle.op.inputs[0]
    return [variable.table_variables for variable in tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
            if variable._handle is handle]


def _captured(op: tf.Operation) -> List[Any]:
    """The eager table that `op` of a function reads, whose step stamps its rows."""
    handle = op.inputs[0]
    while hasattr(handle, "graph"):
        handle = shard_gradients.captured(handle)
    known = eager.collected(eager.graph(), GraphKeys.GLOBAL_EMBEDDING_VARIABLES) if handle is not None else []
    return [variable for variable in known if variable._handle is handle]
