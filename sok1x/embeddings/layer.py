"""What both embedding layers have in common."""
import re
from typing import Any, Dict, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options import arguments, capacities, initializers
from sok1x.core.options.cache_options import CacheOptions
from sok1x.core.options.forgetting_options import ForgettingOptions
from sok1x.core.options.given_numbers import integer
from sok1x.embeddings import precision, scope_reuse
from sok1x.graph_ops.bridge.tensorflow_versions import resource_variable_ops
from sok1x.graph_ops.stores.table import MOST_ROWS
from sok1x.graph_ops.stores.table_variables import TableVariables


class EmbeddingLayer(tf.keras.layers.Layer):
    """A Keras layer with one table of its own; see its two subclasses.

    Args:
        max_vocabulary_size_per_gpu: V, the most keys this rank's shard holds; None: the table grows.
        embedding_vec_size: D, floats a row.
        slot_num: S, feature fields of a sample.
        use_hashtable: True takes any key and gives it a row when it is first trained on; False takes keys in
            [0, V * N), each with a row of its own.
        key_dtype: int64 (None), uint32 or int32, as a dtype or its name.
        embedding_initializer: of the rows: None (uniform in [-0.05, 0.05)), a name or a Keras initializer.
        init_capacity, max_capacity: of a table that grows: see `sok.EmbeddingVariable`.
        **kwargs: which rows leave when keys need more, and which keys get rows: see
            `sok1x.core.options.forgetting_options.ForgettingOptions`. Whether rows are in host memory, and how many
            in a cache on the device: see `sok1x.core.options.cache_options.CacheOptions`. And what Keras' layers take:
            trainable, dtype (see `precision.policy`), name: the table is called `NAME/EmbeddingVariable`, in variables,
            checkpoints and messages. Without one, or with what Keras would make up, it has SOK's name,
            `EmbeddingVariable`, `EmbeddingVariable_1`, …, in the order of tables.

    Raises:
        TypeError: an argument of the wrong type, or unknown.
        ValueError: an argument out of range, an unknown initializer, a variable scope with reuse=True, or eager
            execution of TensorFlow 1.15.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.embeddings.layer import EmbeddingLayer
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        >>> isinstance(layer, EmbeddingLayer)
        True
    """

    def __init__(self, max_vocabulary_size_per_gpu: Optional[int], embedding_vec_size: int, slot_num: int,
                 use_hashtable: bool = True, key_dtype: Any = None, embedding_initializer: Any = None,
                 init_capacity: Optional[int] = None, max_capacity: Optional[int] = None, **kwargs: Any) -> None:
        # A tuple: Keras would wrap a dict.
        self._options = tuple((name, kwargs.pop(name)) for name in ForgettingOptions._fields + CacheOptions._fields
                              if name in kwargs)
        # Given outright, or Keras takes the dtype of the keys for the layer's.
        dtype = precision.policy(kwargs.get("name") or type(self).__name__, kwargs.pop("dtype", None))
        super().__init__(dtype=dtype, **kwargs)
        self.max_vocabulary_size_per_gpu = None if max_vocabulary_size_per_gpu is None else \
            self._positive("max_vocabulary_size_per_gpu", max_vocabulary_size_per_gpu, capacities.ROWS_EXPECTED)
        self.init_capacity, self.max_capacity = init_capacity, max_capacity
        self.embedding_vec_size = self._positive("embedding_vec_size", embedding_vec_size)
        self.slot_num = self._positive("slot_num", slot_num)
        self.use_hashtable = arguments.boolean(self._label, "use_hashtable", use_hashtable)
        self.key_dtype = arguments.key_dtype(self._label, key_dtype)
        # Keras would wrap a dict that is an attribute into something that JSON cannot hold.
        self.embedding_initializer = (tf.keras.initializers.get(embedding_initializer)
                                      if isinstance(embedding_initializer, dict) else embedding_initializer)
        self._table: Optional[EmbeddingVariable] = None

    @property
    def _label(self) -> str:
        """As `label`, where there is no table yet."""
        return "layer '{}'".format(self.name)

    def _positive(self, what: str, value: Any, expected: Optional[str] = None) -> int:
        return integer("{}: {}".format(self._label, what), value, 1, MOST_ROWS, expected)

    def _make_table(self) -> None:
        """Makes the variables. Called last by the subclasses, so that a wrong argument leaves none behind."""
        name = self._given_name()
        scope_reuse.check(self._label, name)
        self._table = EmbeddingVariable(
            rows=self.max_vocabulary_size_per_gpu, dim=self.embedding_vec_size, use_hashtable=self.use_hashtable,
            key_dtype=self.key_dtype.name, initializer=self.embedding_initializer, trainable=self.trainable,
            init_capacity=self.init_capacity, max_capacity=self.max_capacity, layer=name,
            **dict(self._options))
        scope_reuse.note(self._table, name)
        # Keras then saves and counts them with the layer's weights.
        self._index = self._table.index
        self._stamps = [self._table.stamps, self._table.steps]
        self._forgets = list(self._table.forgetting.values())

    def _given_name(self) -> Optional[str]:
        """The layer's name; None where Keras has made it up, which counts the layers that were built before.

        By its form, for a copy by `from_config` is given the name that Keras has made up.
        """
        words = re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", type(self).__name__))
        if re.match(words.lower() + r"(_\d+)?\Z", self.name.lower()):
            return None
        if not re.match(r"[A-Za-z0-9.][A-Za-z0-9_./-]*\Z", self.name):
            raise ValueError("layer '{0}': name: got '{0}', expected what TensorFlow's ops can be called: letters, "
                             "digits, '_', '.', '-' and '/', the first a letter, a digit or '.'".format(self.name))
        return str(self.name).rstrip("/")

    @property
    def embedding_variable(self) -> EmbeddingVariable:
        """This rank's shard.

        Returns:
            The `EmbeddingVariable`, float32 [V, D].

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     layer = sok.All2AllDenseEmbedding(
            ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
            >>> layer.embedding_variable.m_var_name
            'EmbeddingVariable'
        """
        assert self._table is not None
        return self._table

    def _accessed(self) -> TableVariables:
        """The table's variables for a lookup; a tf.GradientTape learns of it, as from any variable that is read."""
        resource_variable_ops.variable_accessed(self.embedding_variable)
        return self.embedding_variable.table_variables

    @property
    def _filters(self) -> bool:
        """Whether lookups draw which new keys get rows: always, where the table has a `filter_ratio`."""
        forgetting = self.embedding_variable.table.forgetting
        return forgetting is not None and forgetting.filter_ratio < 1

    @property
    def label(self) -> str:
        """The layer and its table, as errors name them.

        Returns:
            A string.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     layer = sok.All2AllDenseEmbedding(
            ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1, name="ads")
            >>> layer.label
            "layer 'ads' (table 'ads/EmbeddingVariable')"
        """
        return "{} (table '{}')".format(self._label, self.embedding_variable.table.name)

    def get_config(self) -> Dict[str, Any]:
        """The layer's arguments, for `from_config`.

        Returns:
            A dict that JSON can hold.

        Raises:
            ValueError: embedding_initializer is a callable that has no configuration.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     layer = sok.All2AllDenseEmbedding(
            ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
            ...     twin = sok.All2AllDenseEmbedding.from_config(layer.get_config())
            >>> twin.embedding_variable.m_var_name
            'EmbeddingVariable_1'
        """
        config = super().get_config()
        config.update(
            dtype=self._dtype_policy.name,  # Keras would write that of the rows, float32
            max_vocabulary_size_per_gpu=self.max_vocabulary_size_per_gpu, embedding_vec_size=self.embedding_vec_size,
            slot_num=self.slot_num, use_hashtable=self.use_hashtable, key_dtype=self.key_dtype.name,
            embedding_initializer=initializers.to_config(self.embedding_initializer))
        if self.max_vocabulary_size_per_gpu is None:
            config.update(init_capacity=self.init_capacity, max_capacity=self.max_capacity)
        config.update(self._options)
        return config
