"""Batches of `sok1x.EvenSteps` in eager execution: a loop that all ranks leave after the same step."""
from typing import Any, Iterator

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable
from sok1x.graph_ops.operations import empty_batch, even_steps


class EvenBatches:
    """What `EvenSteps` is eagerly.

    Args:
        source: a tf.data.Dataset, or an iterator of one, which is gone through once.

    Raises:
        TypeError, ValueError: as `EvenSteps`.

    Attributes:
        totals: of the batch that was taken last: int64 [n], the first dimensions of its n parts, summed over the ranks;
            a variable, so that a function which has been traced reads those of now.
        begun: whether a batch has been taken.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.eagerly.even_batches import EvenBatches
        >>> with tf.Graph().as_default():
        ...     EvenBatches(tf.data.Dataset.range(3).batch(2)).begun
        False
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._structure = empty_batch.specs(source.element_spec)
        self.specs = tf.nest.flatten(self._structure)
        self.begun = False
        with tf.device("/cpu:0"):
            self.totals = ResourceVariable(tf.zeros([len(self.specs)], tf.int64), trainable=False, name="EvenSteps")

    def epoch(self) -> Iterator[Any]:
        """Goes through the data once; through those of a dataset from the beginning.

        Yields:
            A batch a step, in the dataset's structure; empty ones where another rank has more.

        Raises:
            RuntimeError: a function's body is being traced.
        """
        eager.refuse_in_function("sok1x.EvenSteps")
        batches = iter(self._source)
        label = even_steps.label(self.specs)
        while True:
            batch = next(batches, None)
            has = batch is not None
            if not has:
                batch = tf.nest.pack_sequence_as(self._structure, [empty_batch.empty(spec) for spec in self.specs])
            try:
                self.totals.assign(even_steps.exchange(tf.constant(has), tf.nest.flatten(batch), label, "EvenSteps"))
            except tf.errors.OutOfRangeError:
                return
            self.begun = True
            yield batch
