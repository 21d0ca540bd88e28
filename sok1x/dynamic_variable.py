"""SOK 2.x's tables without a fixed number of rows."""
import contextlib
import numbers
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core import joining
from sok1x.core.eagerly import eager
from sok1x.core.frameworks import numbered_rows
from sok1x.core.options import arguments, cache_options, capacities, forgetting_options, initializers, key_types
from sok1x.core.options.cache_options import CacheOptions
from sok1x.core.options.forgetting_options import ForgettingOptions
from sok1x.core.options.given_numbers import integer
from sok1x.core.tables import rows_alone, table_root
from sok1x.core.tables.placed_variable import PlacedVariable, check_rank, placement_of
from sok1x.graph_ops.bridge.tensorflow_versions import Variable, initialized_value, resource_variable_ops
from sok1x.graph_ops.gradients import row_numbers
from sok1x.graph_ops.operations import local_lookup
from sok1x.graph_ops.stores import initial
from sok1x.graph_ops.stores.table import HASHED, MOST_ROWS, Initializer, Table

__all__ = ["DynamicVariable"]

BACKENDS = ("hbm", "hybrid")
OPTIONS = ("init_capacity", "max_capacity") + CacheOptions._fields + ForgettingOptions._fields


@numbered_rows.refuse_methods
class DynamicVariable(PlacedVariable):
    """A table to which keys come as they are looked up, for `sok.lookup_sparse`; it grows.

    It is a resource variable of this rank's rows, [V, D], in TensorFlow's collections, beside an index: initializers,
    `session.run`, `tf.gradients`, savers, and optimizers take it. V is the rows that there is memory for now, of which
    `size` says how many are in use; of a table with a cache V is the cache's. Optimizers of TensorFlow's that must
    know V when the graph is built say that they want to be wrapped: in `sok.DistributedOptimizer` or, for tables alone,
    `sok.OptimizerWrapper`.

    A training lookup gives every key a row that has none; where rows run out, all variables of the table get larger:
    V doubles, or becomes `max_capacity`. That costs a copy, and for its time half a variable's memory more for each
    that there is. All ranks take part in lookups; `tf.nn.embedding_lookup(variable, ids)` is one in this rank's rows
    alone, in which new keys get rows on this rank, whoever owns them elsewhere.

    On one rank it needs no `sok.init`: the process then joins by itself.

    Args:
        dimension: D.
        initializer: how rows begin. 'random', 'uniform' (both: in [-0.05, 0.05)), 'normal', a number as text, as '13'
            (all floats of all rows), or what a layer's `embedding_initializer` may be, of which objects stand for
            their distribution: a row is a function of seed, table and key. Or a tensor, variable or array, [D] or
            [n, D]: row k of this rank begins with its row k % n.
        var_type: 'hbm' or 'hybrid' (None). They differ in what happens at `max_capacity`: of 'hbm' a new key is an
            error then, of 'hybrid' rows leave, with their slots. And of 'hybrid' rows may be in host memory, and in
            part in a cache on the device: see `sok1x.core.options.cache_options.CacheOptions`.
        name: its name, in the current name scope; made unique.
        constraint: as for `tf.Variable`, on this rank's rows.
        trainable: whether optimizers train it by default.
        key_type: of the keys: int64 (None), uint32 or int32.
        dtype: float32 or None.
        mode: None or 'distributed': key k is on rank k % N. 'localized:R': all keys are on rank R.
        **kwargs: init_capacity: rows that this rank begins with, 8192 by default. max_capacity: the most that it gets,
            by default as many as there is memory for. max_hbm_for_vectors, in GB, and what else `CacheOptions` has. And
            those of `sok1x.core.options.forgetting_options.ForgettingOptions`; of 'hybrid' with a `max_capacity`
            evict_strategy is 'lru' by default, of 'hbm' it is None.

    Attributes:
        m_var_name: its name in the graph, without ':0'.
        dimension: D.
        backend_type: 'hbm' or 'hybrid'.
        key_type: the dtype of the keys.
        handle_dtype: the dtype of the rows.
        config_dict: the kwargs.
        initializer_str: the initializer where it is a string, else ''.

    Raises:
        TypeError: an unknown keyword, or an argument of the wrong type.
        ValueError: an argument out of range, an unknown initializer or mode, or eager execution of TensorFlow 1.15.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.DynamicVariable(dimension=2, initializer="13", var_type="hbm", init_capacity=2)
        ...     rows = sok.all2all_dense_embedding(items, tf.constant([7, -2, 2 ** 40, 7], tf.int64))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(rows).tolist()
        ...     session.run([items.size, tf.shape(items)])
        [[13.0, 13.0], [13.0, 13.0], [13.0, 13.0], [13.0, 13.0]]
        [array([3, 2]), array([4, 2], dtype=int32)]
    """

    def __init__(self, dimension: int, initializer: Any = None, var_type: Optional[str] = None,
                 name: Optional[str] = None, constraint: Any = None, trainable: bool = True, key_type: Any = None,
                 dtype: Any = None, mode: Optional[str] = None, **kwargs: Any) -> None:
        label = "sok1x.DynamicVariable '{}'".format(name or "DynamicVariable")
        unknown = sorted(set(kwargs) - set(OPTIONS))
        if unknown:
            raise TypeError("{}: got the unknown keyword{} {}; known are {}".format(
                label, "s" if len(unknown) > 1 else "", ", ".join(unknown), ", ".join(OPTIONS)))
        self.dimension = integer(label + ": dimension", dimension, 1, MOST_ROWS)
        self.backend_type = arguments.one_of(label, "var_type", "hybrid" if var_type is None else var_type, BACKENDS)
        self.key_type = arguments.key_dtype(label, key_type, "key_type")
        self.handle_dtype = tf.as_dtype(dtype or tf.float32)
        if self.handle_dtype != tf.float32:
            raise TypeError("{}: dtype: got {}, expected float32, or None for it".format(label, self.handle_dtype.name))
        self.config_dict = dict(kwargs)
        self.initializer_str = initializer if isinstance(initializer, str) else ""
        placement = placement_of(label, mode)
        joining.init_alone()
        world = launch.current()
        if world is not None:
            check_rank(label, placement, world.size)
        capacity = capacities.resolve(label, None, True, kwargs.get("init_capacity"), kwargs.get("max_capacity"))
        begins = _beginning(label, initializer, self.dimension)
        capacity, forgetting, cache = cache_options.resolve(label, self.dimension, forgetting_options.resolve(
            label, capacity, True, self._forgetting_options(label, kwargs)), self._cache_options(label, kwargs))
        if forgetting is not None and begins.rows is not None:
            anew = ", where a row begins anew for another key"
            raise ValueError("{}: initializer: got values of rows for a table that {}: expected a name or a number as "
                             "text; or give {}".format(label, *(
                                 ("has a cache" + anew, "neither max_hbm_for_vectors nor cache_rows")
                                 if cache is not None else
                                 ("forgets" + anew, "evict_strategy=None") if forgetting.strategy else
                                 ("has rows leave when it is saved" + anew, "no evict_option and no steps_to_live")
                                 if kwargs.get("leaves_when_asked") else
                                 ("gives not every key a row, and keys without one read none of them",
                                  "none of filter_ratio, admit_after and absent_value"))))
        with tf.init_scope():
            unique = table_root.unique_name(name or "DynamicVariable")
        table = Table(unique, capacity.rows, self.dimension, HASHED, self.key_type.name, Initializer(**begins.spec),
                      placement, growth=capacity.growth, forgetting=forgetting, cache=cache)
        fill = None if begins.rows is None else lambda: initial.repeated_rows(table, begins.rows)
        with table_root.room():
            self._make(table, fill, trainable, begins.rows, constraint=constraint)

    def _forgetting_options(self, label: str, kwargs: Dict[str, Any]) -> Dict[str, Any]:
        """Those that are given, and what 'hybrid' adds."""
        given = {name: kwargs[name] for name in ForgettingOptions._fields if name in kwargs}
        if self.backend_type == "hybrid" and kwargs.get("max_capacity") is not None:
            given.setdefault("evict_strategy", "lru")
        if self.backend_type == "hbm" and given.get("evict_strategy") is not None:
            raise ValueError("{}: evict_strategy: got {!r} with var_type='hbm', expected var_type='hybrid': of 'hbm' "
                             "no row leaves".format(label, given["evict_strategy"]))
        return given

    def _cache_options(self, label: str, kwargs: Dict[str, Any]) -> CacheOptions:
        """Those that are given: of 'hybrid' alone, but for what SOK's scripts say of 'hbm' too."""
        given = cache_options.taken_out_of(dict(kwargs))
        if self.backend_type == "hybrid":
            return given
        if given.cache_rows is not None:
            raise ValueError("{}: cache_rows: got {!r} with var_type='hbm', expected var_type='hybrid': of 'hbm' all "
                             "rows are in the memory of the device".format(label, given.cache_rows))
        return given._replace(max_hbm_for_vectors=None)

    def _checks_of_whole(self, value: Any) -> List[tf.Operation]:
        """Keras, which saves and assigns all variables of a layer, knows of this one alone."""
        return rows_alone.checks(self, value)

    @property
    def size(self) -> tf.Tensor:
        """How many keys have rows on this rank, and D.

        Returns:
            int64 [2].

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     items = sok.DynamicVariable(dimension=4)
            ...     session.run(items.initializer)
            ...     _ = session.run([variable.initializer for variable in items.index])
            ...     session.run(items.size).tolist()
            [0, 4]
        """
        with contextlib.ExitStack() if eager.is_on() else self.graph.as_default():
            return tf.stack([self.rows_in_use(), tf.constant(self.dimension, tf.int64)])

    def sparse_read(self, indices: Any, name: Any = None) -> tf.Tensor:
        """The rows that keys have on this rank: what `tf.nn.embedding_lookup` calls. New keys get rows.

        Where an optimizer gives the row numbers of the table's gradient, as decoupled weight decay does to read the
        rows that it is about to change, these are the rows that it gets.

        Args:
            indices: keys, int32 or int64, of any shape [...].
            name: of the op.

        Returns:
            float32 [..., D].

        Raises:
            TypeError: the keys are no integers.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     tf.nn.embedding_lookup(sok.DynamicVariable(dimension=4), [[7, 8]]).shape.as_list()
            [1, 2, 4]
        """
        keys = self._dense_keys(indices)
        if not keys.dtype.is_integer:
            raise TypeError("table '{}': got keys of dtype {}, expected integers".format(
                self.table.name, keys.dtype.name))
        if row_numbers.are_of(keys, self.table.name):
            return super().sparse_read(keys, name=name)
        resource_variable_ops.variable_accessed(self)  # a tape watches what it is told of
        return local_lookup.lookup(self.table_variables, key_types.keys_of(keys, self.table), name or "local_lookup")

    def _dense_keys(self, keys: Any) -> tf.Tensor:
        if isinstance(keys, (tf.SparseTensor, tf.RaggedTensor)):
            raise TypeError("table '{}': got keys in a {}, expected a dense tensor of them: look these up by "
                            "sok.lookup_sparse".format(self.table.name, type(keys).__name__))
        return tf.convert_to_tensor(keys)

    def gather_nd(self, indices: Any, name: Any = None) -> tf.Tensor:
        """The rows of keys: what `tf.gather_nd` calls. TensorFlow's own would take keys for numbers of rows.

        Args:
            indices: keys, int32 or int64 [..., 1].
            name: of the op.

        Returns:
            float32 [..., D], as of `sparse_read`.

        Raises:
            ValueError: indices of another last dimension.
            TypeError: the keys are no integers.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     tf.gather_nd(sok.DynamicVariable(dimension=4), [[7], [8]]).shape.as_list()
            [2, 4]
        """
        keys = self._dense_keys(indices)
        if keys.shape.rank in (None, 0) or keys.shape.as_list()[-1] != 1:
            raise ValueError("table '{}': tf.gather_nd: got indices of shape {}, expected [..., 1], a key for each "
                             "row: read rows by tf.nn.embedding_lookup".format(self.table.name, keys.shape))
        return self.sparse_read(tf.squeeze(keys, -1), name=name)

    def __getitem__(self, part: Any) -> tf.Tensor:
        raise TypeError("table '{}': got [{}]: its rows lie in the order in which keys have come, so none has a place "
                        "to name: read keys' rows by tf.nn.embedding_lookup, or take a part of variable.value()".format(
                            self.table.name, part))

    def _dense_var_to_tensor(self, dtype: Any = None, name: Any = None, as_ref: bool = False) -> tf.Tensor:
        """All rows, where a tensor is asked for, but not to take some of them by their numbers."""
        numbered_rows.refuse_reading(self.table.name)
        return super()._dense_var_to_tensor(dtype, name, as_ref)

    def _in_hand(self) -> None:
        if not self._in_graph_mode:
            numbered_rows.refuse_handle(self.table.name)
        super()._in_hand()

    def _lazy_read(self, op: Any) -> Any:
        if getattr(op, "type", "").startswith("ResourceScatter") and not row_numbers.are_of(
                op.inputs[1], self.table.name):
            numbered_rows.refuse_writing(self.table.name)
        return super()._lazy_read(op)


class _Beginning(NamedTuple):
    """How rows begin: fields of `graph_ops.stores.table.Initializer`, and rows [n, D] where these are given."""

    spec: Dict[str, Any]
    rows: Optional[tf.Tensor] = None


def _beginning(label: str, initializer: Any, dim: int) -> _Beginning:
    if isinstance(initializer, str):
        with contextlib.suppress(ValueError):
            return _Beginning({"kind": "constant", "a": float(initializer), "b": 0.0})
        initializer = None if initializer == "random" else initializer
    if isinstance(initializer, Variable):
        initializer = initialized_value(initializer)
    if isinstance(initializer, (tf.Tensor, np.ndarray, list, tuple, numbers.Number)):
        given = tf.cast(tf.convert_to_tensor(initializer), tf.float32)
        shape: Tuple[Any, ...] = tuple(given.shape.as_list()) if given.shape.rank is not None else (None,)
        if shape in ((), (1,)):
            given = tf.fill([1, dim], tf.reshape(given, []))
        elif not shape or len(shape) > 2 or shape[-1] != dim or 0 in shape:
            raise ValueError("{}: initializer: got values of shape {}, expected [{}] or [n, {}]".format(
                label, given.shape, dim, dim))
        return _Beginning({"kind": "by_row"}, tf.reshape(given, [-1, dim]))
    return _Beginning(initializers.resolve(initializer, 1, dim, grows=True, what=label + ": initializer").spec)
