"""Embeddings of a fixed number of keys a slot, each on its own."""
from typing import Any, Dict, List, Optional, Union

import tensorflow.compat.v1 as tf

from sok1x.core.options import arguments
from sok1x.embeddings import call_checks, learning_phase
from sok1x.embeddings.autograph import graph_code
from sok1x.embeddings.layer import EmbeddingLayer
from sok1x.graph_ops.operations import embedding


class All2AllDenseEmbedding(EmbeddingLayer):
    """Looks up dense keys in a table that is spread over the ranks: int [B, S, H] → float [B, S, H, D].

    The batch's distinct keys travel to their owners, rank `key % N`, by All2All, and their rows travel back. In
    backward the gradients of distinct keys travel the other way and are summed over the ranks, so the loss should
    already divide by the global batch. B may differ between ranks and steps, and be 0.

    Rows are float32. Under a Keras policy that computes in float16 the output is float16, and so is what travels
    between the ranks; gradients are summed in float32. See `sok1x.tf.keras.mixed_precision.LossScaleOptimizer`.

    Args:
        max_vocabulary_size_per_gpu: V, the most keys that this rank's shard holds; None: as many as come, and V grows
            (see `init_capacity` and `max_capacity` of `sok.EmbeddingVariable`, which are taken as keywords).
        embedding_vec_size: D, floats a row.
        slot_num: S, feature fields of a sample.
        nnz_per_slot: H, keys a slot.
        dynamic_input: True takes keys [K] in any number and gives [K, D].
        use_hashtable: True takes any key, and gives it a row when it is first trained on; False takes keys in
            [0, V * N), where key k always has row k // N of rank k % N.
        key_dtype: int64 (None), uint32 or int32, as a dtype or its name. int32 and uint32 keys are also taken where
            it is int64.
        embedding_initializer: how rows begin: None (uniform in [-0.05, 0.05)), a name that
            tf.keras.initializers.get knows (a function of seed, table and key), or a Keras initializer (called for
            [V, D]; row i of the shard begins with its row i).
        **kwargs: what every Keras layer takes: name, trainable, and dtype, which may be a Keras policy, its name, or
            the dtype to compute in; None is the policy that has been set for all layers, else float32. Which rows leave
            when keys need more, and which keys get rows: see `sok1x.core.options.forgetting_options.ForgettingOptions`.
            Whether rows are in host memory: see `sok1x.core.options.cache_options.CacheOptions`.

    Raises:
        TypeError: an argument of the wrong type, or unknown.
        ValueError: an argument out of range, an unknown initializer, or eager execution of TensorFlow 1.15.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=1024, embedding_vec_size=16, slot_num=2, nnz_per_slot=3)
        ...     vectors = layer(tf.constant([[[1, 2, 3], [4, 5, -6]]], tf.int64), training=True)
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(vectors).shape
        (1, 2, 3, 16)
    """

    def __init__(self, max_vocabulary_size_per_gpu: Optional[int], embedding_vec_size: int, slot_num: int,
                 nnz_per_slot: int, dynamic_input: bool = False, use_hashtable: bool = True, key_dtype: Any = None,
                 embedding_initializer: Any = None, **kwargs: Any) -> None:
        super().__init__(max_vocabulary_size_per_gpu, embedding_vec_size, slot_num, use_hashtable, key_dtype,
                         embedding_initializer, **kwargs)
        self.nnz_per_slot = self._positive("nnz_per_slot", nnz_per_slot)
        self.dynamic_input = arguments.boolean(self._label, "dynamic_input", dynamic_input)
        self._make_table()

    @graph_code
    def call(self, inputs: tf.Tensor, training: Union[None, bool, tf.Tensor] = None) -> tf.Tensor:
        """The keys' rows.

        Args:
            inputs: keys, [B, S, H]; with dynamic_input [K].
            training: False reads only: a key without a row gives its initial values and gets no row. A Python bool
                or a scalar bool tensor, equal on all ranks. None is what an enclosing Keras layer is told, else what
                tf.keras.backend.set_learning_phase has set; else, in what Keras runs (a model on tf.keras.Input, or
                one that fit, evaluate or predict calls), Keras' learning phase; else True.

        Returns:
            float32, or float16 under such a policy, [B, S, H, D]; with dynamic_input [K, D].

        Raises:
            TypeError: the keys are no dense tensor, or of another dtype.
            ValueError: their static shape does not fit, or this is another graph than the layer's.
            tf.errors.ResourceExhaustedError: (when run) a shard is full; nothing has been changed.
            tf.errors.InvalidArgumentError: (when run) without a hash table, a key outside [0, V * N).

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     layer = sok.All2AllDenseEmbedding(
            ...         max_vocabulary_size_per_gpu=1024, embedding_vec_size=16, slot_num=2, nnz_per_slot=3)
            ...     layer(tf.placeholder(tf.int64, [None, 2, 3]), training=False).shape.as_list()
            [None, 2, 3, 16]
        """
        call_checks.graph(self)
        shape: List[Optional[int]] = [None] if self.dynamic_input else [None, self.slot_num, self.nnz_per_slot]
        keys = call_checks.dense(self, inputs, shape)
        trains = call_checks.training(self, training, inputs)
        vectors = embedding.lookup_dense(self._accessed(), keys, trains, dtype=self._compute_dtype, name="lookup",
                                         filtered=self._filters)
        return learning_phase.guarded(vectors, training, trains)

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """The output's shape.

        Args:
            input_shape: of the keys.

        Returns:
            The same with D appended.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     layer = sok.All2AllDenseEmbedding(
            ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
            >>> layer.compute_output_shape([None, 2, 1]).as_list()
            [None, 2, 1, 4]
        """
        return tf.TensorShape(input_shape).concatenate([self.embedding_vec_size])

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
            >>> layer.get_config()["nnz_per_slot"]
            1
        """
        return dict(super().get_config(), nnz_per_slot=self.nnz_per_slot, dynamic_input=self.dynamic_input)


# So that tf.keras.Model.from_config knows the name.
tf.keras.utils.get_custom_objects()["All2AllDenseEmbedding"] = All2AllDenseEmbedding
