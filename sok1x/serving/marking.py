"""What of a training graph is to be served, said where the graph is built."""
from typing import Any

from sok1x.serving import models

__all__ = ["mark_for_serving"]


def mark_for_serving(inputs: Any, outputs: Any) -> None:
    """Marks what of the graph is to be served, so that its checkpoints say so.

    `python -m sok1x.serving export saved --to model` then exports the model from a checkpoint alone: sok1x's and
    TensorFlow's have the graph in a `.meta` file. Call it before the session that saves is made.

    Args:
        inputs: {name: tensor}, of any shape and dtype, as for `export_saved_model`.
        outputs: {name: tensor}, of any shape and dtype, likewise.

    Raises:
        ValueError: no outputs.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     keys = tf.placeholder(tf.int64, [None, 2, 1])
        ...     layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2,
        ...                                       nnz_per_slot=1)
        ...     sok.serving.mark_for_serving({"keys": keys}, {"vectors": layer(keys, training=True)})
        ...     tf.get_collection("sok1x_serving_signatures") != []
        True
    """
    models.mark(inputs, outputs)
