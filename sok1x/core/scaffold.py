"""The one line that an Estimator needs."""
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.initialize import DEFAULT_SEED, InitHook


class Scaffold(tf.train.Scaffold):
    """A `tf.train.Scaffold` that joins the ranks: for `tf.estimator.EstimatorSpec`, in all its modes.

    With it, train, evaluate, predict and train_and_evaluate run on any number of ranks, each of which calls them alike,
    with one model_dir that all ranks see. Checkpoints are the Estimator's own, have the rows of all ranks, and can be
    restored on any number of ranks. Summaries of hooks and Estimators are written by rank 0 alone.

    Args:
        global_batch_size: as in `Init`.
        seed: as in `Init`.
        save_on_sigterm: as of `sok.CheckpointSaverHook`: in a session that trains and saves checkpoints SIGTERM has all
            ranks save after the same step, by TensorFlow's hook, and end the session.
        **options: as for `tf.train.Scaffold`.

    Raises:
        TypeError: a value that is no integer.
        ValueError: global_batch_size is not positive, or seed not in [0, 2**63); save_on_sigterm is no signal.
        tf.errors.InvalidArgumentError: the ranks gave different arguments.

    Example:
        >>> import tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> def model_fn(features, mode):
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     loss = tf.reduce_sum(layer(features, training=mode == tf.estimator.ModeKeys.TRAIN) ** 2)
        ...     step = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        ...     return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step,
        ...                                       scaffold=sok.Scaffold(global_batch_size=1))
        >>> def input_fn():
        ...     return tf.data.Dataset.from_tensors(tf.constant([[[7], [9]]], tf.int64)).repeat()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     estimator = tf.estimator.Estimator(model_fn, folder)
        ...     _ = estimator.train(input_fn, steps=3)
        ...     result = estimator.evaluate(input_fn, steps=1)
        >>> int(result["global_step"])
        3
    """

    def __init__(self, global_batch_size: Optional[int] = None, seed: int = DEFAULT_SEED, save_on_sigterm: Any = False,
                 **options: Any) -> None:
        from sok1x.checkpoint.session import told_to_end  # which needs this module's neighbours
        self._signals = told_to_end.signals_of("Scaffold", save_on_sigterm)
        told_to_end.told_to_end.listen("Scaffold", self._signals)
        # Without what the hook asks the other ranks: one rank alone may build the model, to export it.
        InitHook(global_batch_size, seed)._join()
        super().__init__(**options)

    def finalize(self) -> tf.train.Scaffold:
        """Makes what is missing, and finalizes the graph; called by the session.

        Returns:
            This scaffold.

        Raises:
            RuntimeError: a session is to train until SIGTERM, and its graph has no global step.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     scaffold = sok.Scaffold(global_batch_size=1)
            ...     scaffold.finalize() is scaffold
            True
        """
        if self._signals:
            from sok1x.checkpoint.session import stop_hook  # likewise
            stop_hook.add_to_session("Scaffold", self._signals, begin=True)
        return super().finalize()
