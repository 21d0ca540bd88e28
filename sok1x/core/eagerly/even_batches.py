"""Batches of `sok1x.EvenSteps` in eager execution: a loop that all ranks leave after the same step."""
import sys
from typing import Any, Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable, eager_context
from sok1x.graph_ops.operations import empty_batch, even_steps


class EvenBatches:
    """What `EvenSteps` is eagerly.

    Args:
        source: a tf.data.Dataset, or an iterator of one, which is gone through once.

    Raises:
        TypeError, ValueError: as `EvenSteps`.

    Attributes:
        totals: of the batch that was taken last: int64 [n], the first dimensions of its n parts, summed over the ranks,
            also when its loop is over; None before the first.
        numbers_now: a variable, so that a function which has been traced reads that of now: int64 [1], the samples in
            it; several where its parts differ in their first dimensions, and none while there is no loop.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.eagerly.even_batches import EvenBatches
        >>> with tf.Graph().as_default():
        ...     EvenBatches(tf.data.Dataset.range(3).batch(2)).totals is None
        True
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._structure = empty_batch.specs(source.element_spec)
        self.specs = tf.nest.flatten(self._structure)
        self.totals: Any = None
        self._loops = 0
        with tf.device("/cpu:0"):
            self.numbers_now = ResourceVariable(_no_numbers(), trainable=False, name="EvenSteps", shape=[None])

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
        self._loops += 1
        try:
            while True:
                batch = next(batches, None)
                has = batch is not None
                if not has:
                    batch = tf.nest.pack_sequence_as(self._structure, [empty_batch.empty(spec) for spec in self.specs])
                try:
                    totals = even_steps.exchange(tf.constant(has), tf.nest.flatten(batch), label, "EvenSteps")
                except tf.errors.OutOfRangeError:
                    return
                self.numbers_now.assign(_numbers(totals, self.specs))
                self.totals = totals
                yield batch
        finally:
            self._loops -= 1
            if not self._loops and not sys.is_finalizing():
                with eager_context.eager_mode():  # a loop that was left is closed wherever Python lets it go
                    self.numbers_now.assign(_no_numbers())

    def samples_in_function(self) -> tf.Tensor:
        """How many samples all ranks have in each call of the function whose body this is.

        Returns:
            int64 [].

        Raises:
            tf.errors.InvalidArgumentError: (when run) there is no loop, so that it would be those of another; or the
                batch's parts differ.
        """
        numbers = self.numbers_now.read_value()
        there = tf.raw_ops.Assert(condition=tf.size(numbers) > 0, data=[
            "sok1x.EvenSteps: samples: got a tf.function that reads those of an EvenSteps whose loop is over, expected "
            "one that is gone through: a function reads those of the EvenSteps which it was traced with. Give it "
            "`steps.samples` as an argument"])
        with tf.control_dependencies([there]):
            same = tf.raw_ops.Assert(condition=tf.size(numbers) < 2, data=[even_steps.DIFFERENT, numbers])
        with tf.control_dependencies([same]):  # XLA drops Assert; a tf.reshape would go before it elsewhere
            return tf.squeeze(numbers, [0], name="EvenSteps_loop_is_over_or_dimensions_differ")


def _numbers(totals: tf.Tensor, specs: Any) -> tf.Tensor:
    with tf.device("/cpu:0"):
        return tf.constant(np.unique(totals.numpy()[even_steps.counted(specs)]))


def _no_numbers() -> tf.Tensor:
    with tf.device("/cpu:0"):
        return tf.zeros([0], tf.int64)
