"""Embeddings of a varying number of keys a slot, combined to one vector."""
from typing import Any, Dict, Optional, Union

import tensorflow.compat.v1 as tf

from sok1x.core.options import arguments
from sok1x.embeddings import call_checks, keras_inputs, learning_phase
from sok1x.embeddings.autograph import graph_code
from sok1x.embeddings.layer import EmbeddingLayer
from sok1x.graph_ops.operations import embedding

COMBINERS = ("sum", "mean")
EXCHANGES = ("auto", "all2all", "reduce_scatter")


class DistributedEmbedding(EmbeddingLayer):
    """Looks up sparse keys in a table spread over the ranks and combines them by slot: → float [B, S, D].

    The input is a tf.SparseTensor of dense_shape [B * S, max_nnz], one row for each slot of each sample. A slot
    without keys gives zeros, also for the mean. Gradients are summed over the ranks, so the loss should already
    divide by the global batch. B may differ between ranks and steps, and be 0.

    Rows are float32. Under a Keras policy that computes in float16 the output is float16, and so is what travels
    between the ranks; rows and gradients are summed in float32. By 'reduce_scatter' each rank's part of a sum travels
    as float16, that of a mean too: a part beyond 65504 is infinite. See
    `sok1x.tf.keras.mixed_precision.LossScaleOptimizer`.

    Args:
        combiner: 'sum' or 'mean', in any case: how the rows of a slot's keys become one vector.
        max_vocabulary_size_per_gpu: V, the most keys that this rank's shard holds; None: as many as come, and V grows
            (see `init_capacity` and `max_capacity` of `sok.EmbeddingVariable`, which are taken as keywords).
        embedding_vec_size: D, floats a row.
        slot_num: S, feature fields of a sample.
        max_nnz: the most keys a slot.
        max_feature_num: the most keys a sample. Nothing depends on it; SOK 1.x scripts give it.
        use_hashtable: True takes any key, and gives it a row when it is first trained on; False takes keys in
            [0, V * N), where key k always has row k // N of rank k % N.
        key_dtype: int64 (None), uint32 or int32, as a dtype or its name. int32 and uint32 keys are also taken where
            it is int64.
        embedding_initializer: how rows begin: None (uniform in [-0.05, 0.05)), a name that
            tf.keras.initializers.get knows (a function of seed, table and key), or a Keras initializer (called for
            [V, D]; row i of the shard begins with its row i).
        exchange: what travels: 'all2all' distinct keys and their rows, combined where they are used;
            'reduce_scatter' keys and their owners' partial sums; 'auto' in each training step whichever moves fewer
            bytes, by the rule in `sok1x.graph_ops.exchanges.choice.choose`, and in an evaluation 'all2all'. The result
            is the same, but for the order in which sums are rounded.
        **kwargs: what every Keras layer takes: name, trainable, and dtype, which may be a Keras policy, its name, or
            the dtype to compute in; None is the policy that has been set for all layers, else float32. Which rows leave
            when keys need more, and which keys get rows: see `sok1x.core.options.forgetting_options.ForgettingOptions`.
            Whether rows are in host memory: see `sok1x.core.options.cache_options.CacheOptions`.

    Raises:
        TypeError: an argument of the wrong type, or unknown.
        ValueError: an argument out of range, an unknown combiner, exchange or initializer, or eager execution of
            TensorFlow 1.15.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.DistributedEmbedding(
        ...         combiner="mean", max_vocabulary_size_per_gpu=1024, embedding_vec_size=16, slot_num=2, max_nnz=3)
        ...     keys = tf.SparseTensor(  # one sample: keys 7 and 9 in its first slot, none in its second
        ...         indices=[[0, 0], [0, 1]], values=tf.constant([7, 9], tf.int64), dense_shape=[2, 3])
        ...     vectors = layer(keys, training=True)
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(vectors).shape
        (1, 2, 16)
    """

    def __init__(self, combiner: str, max_vocabulary_size_per_gpu: Optional[int], embedding_vec_size: int,
                 slot_num: int,
                 max_nnz: int, max_feature_num: int = 1, use_hashtable: bool = True, key_dtype: Any = None,
                 embedding_initializer: Any = None, exchange: str = "auto", **kwargs: Any) -> None:
        super().__init__(max_vocabulary_size_per_gpu, embedding_vec_size, slot_num, use_hashtable, key_dtype,
                         embedding_initializer, **kwargs)
        self.combiner = arguments.one_of(self._label, "combiner", combiner, COMBINERS)
        self.max_nnz = self._positive("max_nnz", max_nnz)
        self.max_feature_num = self._positive("max_feature_num", max_feature_num)
        self.exchange = arguments.one_of(self._label, "exchange", exchange, EXCHANGES)
        self._make_table()

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """As every Keras layer's."""
        return super().__call__(keras_inputs.known_to_keras(inputs), *args, **kwargs)

    @graph_code
    def call(self, inputs: tf.SparseTensor, training: Union[None, bool, tf.Tensor] = None) -> tf.Tensor:
        """The slots' combined rows.

        Args:
            inputs: keys, a tf.SparseTensor of dense_shape [B * S, max_nnz].
            training: False reads only: a key without a row gives its initial values and gets no row. A Python bool
                or a scalar bool tensor, equal on all ranks. None is what an enclosing Keras layer is told, else what
                tf.keras.backend.set_learning_phase has set; else, in what Keras runs (a model on tf.keras.Input, or
                one that fit, evaluate or predict calls), Keras' learning phase; else True.

        Returns:
            float32, or float16 under such a policy, [B, S, D].

        Raises:
            TypeError: the keys are no tf.SparseTensor, or of another dtype.
            ValueError: their static shape does not fit, or this is another graph than the layer's.
            tf.errors.ResourceExhaustedError: (when run) a shard is full; nothing has been changed.
            tf.errors.InvalidArgumentError: (when run) the dense_shape does not fit, or, without a hash table, a key
                is outside [0, V * N).

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     layer = sok.DistributedEmbedding(
            ...         combiner="sum", max_vocabulary_size_per_gpu=1024, embedding_vec_size=16, slot_num=2, max_nnz=3)
            ...     layer(tf.sparse.placeholder(tf.int64), training=False).shape.as_list()
            [None, 2, 16]
        """
        call_checks.graph(self)
        keys = call_checks.sparse(self, inputs, self.slot_num, self.max_nnz)
        trains = call_checks.training(self, training, inputs)
        vectors = embedding.lookup_combined(self._accessed(), keys, self.slot_num, self.max_nnz, self.combiner, trains,
                                            self.exchange, dtype=self._compute_dtype, name="lookup",
                                            filtered=self._filters)
        return learning_phase.guarded(vectors, training, trains)

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """The output's shape.

        Args:
            input_shape: of the keys, [B * S, max_nnz].

        Returns:
            [B, S, D].

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     layer = sok.DistributedEmbedding(
            ...         combiner="sum", max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, max_nnz=3)
            >>> layer.compute_output_shape([10, 3]).as_list()
            [5, 2, 4]
        """
        rows = tf.TensorShape(input_shape).as_list()[0]
        samples = None if rows is None else rows // self.slot_num
        return tf.TensorShape([samples, self.slot_num, self.embedding_vec_size])

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
            ...     layer = sok.DistributedEmbedding(
            ...         combiner="Mean", max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, max_nnz=3)
            >>> layer.get_config()["combiner"]
            'mean'
        """
        return dict(super().get_config(), combiner=self.combiner, max_nnz=self.max_nnz,
                    max_feature_num=self.max_feature_num, exchange=self.exchange)


# So that tf.keras.Model.from_config knows the name.
tf.keras.utils.get_custom_objects()["DistributedEmbedding"] = DistributedEmbedding
