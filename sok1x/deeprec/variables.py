"""EmbeddingVariables: `tf.get_embedding_variable` of DeepRec."""
import contextlib
import dataclasses
from typing import Any, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.options import initializers
from sok1x.core.options.given_numbers import integer
from sok1x.core.tables import scoped_tables
from sok1x.deeprec import kept_ops, leaving, meaning, stepping
from sok1x.dump_load import transfers
from sok1x.dynamic_variable import DynamicVariable
from sok1x.graph_ops.bridge.tensorflow_versions import Variable
from sok1x.graph_ops.gradients import row_numbers
from sok1x.graph_ops.stores.placement import BY_KEY, Placement
from sok1x.graph_ops.stores.table import HASHED, MOST_ROWS, Initializer, Table
from sok1x.lookup import all2all_dense_embedding

__all__ = ["EmbeddingVariable", "get_embedding_variable"]

_MATRIX = 4096  # rows of the matrix that DeepRec asks initializers for, where nobody says how many


class EmbeddingVariable(DynamicVariable):
    """What `get_embedding_variable` makes: a `sok.DynamicVariable` that says by `target_gpu` where its rows are.

    Args:
        dimension: as for `sok.DynamicVariable`, and so are the others.
        initializer: see there.
        var_type: see there.
        name: see there.
        constraint: see there.
        trainable: see there.
        key_type: see there.
        dtype: see there.
        mode: see there.
        **kwargs: see there.

    Raises:
        ValueError: as for `sok.DynamicVariable`.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import deeprec
        >>> with tf.Graph().as_default():
        ...     items = deeprec.get_embedding_variable("items", 4)
        ...     isinstance(items, deeprec.EmbeddingVariable), items.target_gpu
        (True, -1)
    """

    @property
    def target_gpu(self) -> int:
        """Which rank has all rows; -1: row k is on rank k % N.

        It may be set before the first lookup, and before anything that assigns, saves or restores rows is made: best
        where the table is.

        Returns:
            -1, or a rank.

        Raises:
            TypeError: (when set) it is no integer.
            ValueError: (when set) there is no such rank, or the table is looked up already; or there is a `sok.assign`,
                a Saver or a manager of it in the graph, or in a function's body; or, eagerly, it has rows.

        Example:
            >>> import tensorflow as tf
            >>> from sok1x import deeprec
            >>> with tf.Graph().as_default():
            ...     items = deeprec.get_embedding_variable("items", 4)
            ...     items.target_gpu = 0
            ...     items.mode
            'localized:0'
        """
        rank = self.table.placement.rank
        return -1 if rank is None else rank

    @target_gpu.setter
    def target_gpu(self, rank: int) -> None:
        label = "EmbeddingVariable '{}'".format(self.table.name)
        integer(label + ": target_gpu", rank, -1)
        placement = BY_KEY if rank == -1 else Placement(int(rank))
        world = launch.current()
        if world is not None and rank >= world.size:
            raise ValueError("{}: target_gpu: got {}, but there are {} ranks; expected -1, for all of them, or a rank "
                             "from 0 to {}".format(label, rank, world.size, world.size - 1))
        if placement == self.table.placement:
            return
        if self.is_looked_up:
            raise ValueError("{}: target_gpu: got {} for a table that is looked up already, expected it before the "
                             "first lookup".format(label, rank))
        if self._in_graph_mode:
            op = kept_ops.first(self)
            kept = op and "op '{}'".format(op)
        else:
            kept = "an op in a tf.function" if self.is_in_functions else None
        if kept:  # it would go on by the old one
            raise ValueError("{}: target_gpu: got {} for a table whose rows {} assigns, saves or restores, expected it "
                             "before any such op (of sok.assign, a Saver, a manager): set it where the table is made"
                             .format(label, rank, kept))
        if not self._in_graph_mode:
            with tf.init_scope():
                there = int(self.rows_in_use())
            if there:  # restored or assigned: they would be on ranks that do not look for them
                raise ValueError("{}: target_gpu: got {} on rank {} for a table that has {} rows there already, "
                                 "expected it before any are assigned or restored: set it where the table is made"
                                 .format(label, rank, 0 if world is None else world.rank, there))
        self._move(placement)

    def _move(self, placement: Placement) -> None:
        """Before any op knows where rows are that asks other ranks."""
        self.table = self.table._replace(placement=placement)
        self.table_variables = dataclasses.replace(self.table_variables, table=self.table)
        transfers.make_anew(self)

    def sparse_read(self, indices: Any, name: Any = None) -> tf.Tensor:
        """The rows of keys, whichever rank has them: what `tf.nn.embedding_lookup` calls.

        Args:
            indices: keys, int32 or int64, of any shape [...].
            name: unused.

        Returns:
            float32 [..., D].

        Raises:
            TypeError: the keys are no integers.

        Example:
            >>> import tensorflow as tf
            >>> from sok1x import deeprec
            >>> with tf.Graph().as_default():
            ...     items = deeprec.get_embedding_variable("items", 4)
            ...     tf.nn.embedding_lookup(items, [[7, 8]]).shape.as_list()
            [1, 2, 4]
        """
        keys = self._dense_keys(indices)
        if row_numbers.are_of(keys, self.table.name):  # an optimizer's: see `DynamicVariable.sparse_read`
            return super().sparse_read(keys, name=name)
        return all2all_dense_embedding(self, keys)

    def total_count(self) -> tf.Tensor:
        """How many keys have rows on this rank, and D.

        Returns:
            int64 [2], as of `size`.

        Example:
            >>> import tensorflow as tf
            >>> from sok1x import deeprec
            >>> with tf.Graph().as_default():
            ...     deeprec.get_embedding_variable("items", 4).total_count().shape.as_list()
            [2]
        """
        return self.size


def get_embedding_variable(name: str, embedding_dim: int, key_dtype: Any = tf.int64, value_dtype: Any = None,
                           initializer: Any = None, regularizer: Any = None, reuse: Any = None,
                           trainable: bool = True, collections: Any = None, caching_device: Any = None,
                           partitioner: Any = None, validate_shape: bool = True, custom_getter: Any = None,
                           constraint: Any = None, steps_to_live: Optional[int] = None, init_data_source: Any = None,
                           ev_option: Any = None) -> EmbeddingVariable:
    """A table to which keys come as they are looked up: DeepRec's EmbeddingVariable.

    It obeys `tf.variable_scope` as `tf.get_variable` does: names, reuse, the scope's initializer, constraint and
    custom_getter; its partitioner, as the argument, adds nothing to the ranks; a regularizer, a caching_device and
    another dtype of the scope are errors. Any integer is a key; the table grows. Optimizers of tf.train train it as
    any variable.

    Args:
        name: below the variable scope.
        embedding_dim: D.
        key_dtype: tf.int64, tf.int32 or tf.uint32.
        value_dtype: tf.float32; None: the scope's dtype, which must be float32.
        initializer: how rows begin: a name or a TensorFlow initializer that stands for a distribution, of which a key
            has its own row; a number, or [D]. None: the scope's, or tf.glorot_uniform_initializer, as of
            `tf.get_variable`.
        regularizer: None.
        reuse: as for `tf.get_variable`; in eager execution, where variable scopes do not say it, it counts here too.
        trainable: whether optimizers train it by default.
        collections: names of graph collections that it is in as well.
        caching_device: None.
        partitioner: as for `tf.get_variable`; rows are spread over the ranks, and no further.
        validate_shape: True.
        custom_getter: None.
        constraint: as for `tf.Variable`, on this rank's rows; None: the scope's.
        steps_to_live: as of a `GlobalStepEvict`.
        init_data_source: None.
        ev_option: an `EmbeddingVariableOption`.

    Returns:
        An `EmbeddingVariable`. `target_gpu` may be set to a rank that is to have all rows.

    Raises:
        TypeError: an argument of another type.
        ValueError: an argument out of range, or one without a counterpart, by its name; or as `tf.get_variable`.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import deeprec
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     with tf.variable_scope("ads"):
        ...         items = deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer())
        ...     rows, = deeprec.group_embedding_lookup([items], [tf.constant([7, 2 ** 40], tf.int64)])
        ...     session.run(tf.global_variables_initializer())
        ...     items.name, session.run(rows).tolist()
        ('ads/items:0', [[1.0, 1.0], [1.0, 1.0]])
    """
    label = "get_embedding_variable '{}'".format(name)
    embedding_dim = integer(label + ": embedding_dim", embedding_dim, 1, MOST_ROWS)
    for what, value, unset in (
            ("regularizer", regularizer, None), ("caching_device", caching_device, None),
            ("validate_shape", validate_shape, True), ("custom_getter", custom_getter, None),
            ("init_data_source", init_data_source, None)):
        meaning.refuse(label, what, value, unset, "rows are made, and read, where they are")
    if partitioner is not None and not callable(partitioner):
        raise TypeError("{}: partitioner: got {!r} of type {}, expected None or a function, as "
                        "tf.fixed_size_partitioner makes".format(label, partitioner, type(partitioner).__name__))
    try:
        value_type = tf.as_dtype(value_dtype or tf.float32)
    except TypeError:
        raise TypeError("{}: value_dtype: got {!r}, expected tf.float32 or None; an initializer goes by its name"
                        .format(label, value_dtype)) from None
    if value_type != tf.float32:
        raise TypeError("{}: value_dtype: got {}, expected tf.float32 or None, as of the scope".format(
            label, value_type.name))
    meant = meaning.of(label, ev_option, steps_to_live)
    pool = meant.init.default_value_dim
    begins = meant.init.initializer if meant.init.initializer is not None else initializer
    if begins is None:
        begins = tf.get_variable_scope().initializer

    def make(whole_name: str, of_scope: Any) -> EmbeddingVariable:
        with contextlib.ExitStack() as stack:
            if meant.on_host:
                stack.enter_context(tf.device("/cpu:0"))
            made = EmbeddingVariable(
                embedding_dim, _pooled(_beginning(label, begins, embedding_dim, pool or _MATRIX), pool), meant.var_type,
                whole_name, constraint=constraint or of_scope, trainable=trainable, key_type=key_dtype,
                dtype=value_type, **meant.options)
        for collection in collections or ():
            if not any(one is made for one in made.graph.get_collection_ref(collection)):
                made.graph.add_to_collection(collection, made)
        stepping.watch()
        leaving.watch(made, meant.steps_to_live, meant.l2_threshold)
        return made

    found: Any = scoped_tables.get(name, make, reuse, None if value_dtype is None else value_type)
    if found.table.dim != embedding_dim:
        raise ValueError("{}: embedding_dim: got {}, but '{}' is there already, with {}".format(
            label, embedding_dim, found.table.name, found.table.dim))
    return found


def _beginning(label: str, given: Any, dim: int, rows: int) -> Any:
    """What a `sok.DynamicVariable` takes for it: an initializer whose parameters do not depend on a shape, or [D]."""
    given = tf.glorot_uniform_initializer() if given is None else given
    if isinstance(getattr(given, "value", None), (list, tuple, np.ndarray)):  # tf.constant_initializer's
        given = np.asarray(given.value, np.float32)
    if isinstance(given, (Variable, tf.Tensor, np.ndarray, list, tuple, int, float)):
        shape = tf.TensorShape(np.shape(given)) if not isinstance(given, (Variable, tf.Tensor)) else given.shape
        if shape.rank not in (0, 1) and shape.as_list() != [1, dim]:
            raise ValueError("{}: initializer: got values of shape {}, expected a number or [{}], which is each key's "
                             "row, or an initializer that stands for a distribution".format(label, shape, dim))
        if shape.rank == 0 and not isinstance(given, (Variable, tf.Tensor)):
            return tf.constant_initializer(float(given))
        return given
    spec = initializers.resolve(given, 1, dim, grows=True, what=label + ": initializer").spec
    if spec["kind"] != "variance_scaling":
        return given
    kind, a, b = Table("", rows, dim, HASHED, "int64", Initializer(**spec)).distribution(1)
    return {"uniform": tf.random_uniform_initializer, "normal": tf.random_normal_initializer,
            "truncated_normal": tf.truncated_normal_initializer}[kind](a, b)


def _pooled(begins: Any, rows: Optional[int]) -> Any:
    """The same of a pool of rows, where there is to be one; a number or [D] is the same for all keys anyway."""
    if rows is None or isinstance(begins, (Variable, tf.Tensor, np.ndarray, list, tuple)):
        return begins
    return initializers.Pooled(begins, rows)
