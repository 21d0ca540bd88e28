"""Batches of `sok1x.EvenSteps` in eager execution: a loop that all ranks leave after the same step."""
import sys
from typing import Any, Iterator

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
        totals_now: a variable with the same, so that a function which has been traced reads those of now; all -1 while
            there is no loop.

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
            self.totals_now = ResourceVariable(_no_totals(self.specs), trainable=False, name="EvenSteps")

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
                self.totals_now.assign(totals)
                self.totals = totals
                yield batch
        finally:
            self._loops -= 1
            if not self._loops and not sys.is_finalizing():
                with eager_context.eager_mode():  # a loop that was left is closed wherever Python lets it go
                    self.totals_now.assign(_no_totals(self.specs))

    def totals_in_function(self) -> tf.Tensor:
        """`totals` of each call of the function whose body this is.

        Returns:
            int64 [n].

        Raises:
            tf.errors.InvalidArgumentError: (when run) there is no loop, so that it would be those of another.
        """
        totals = self.totals_now.read_value()
        there = tf.raw_ops.Assert(condition=tf.reduce_all(totals >= 0), data=[
            "sok1x.EvenSteps: samples: got a tf.function that reads those of an EvenSteps whose loop is over, expected "
            "one that is gone through: a function reads those of the EvenSteps which it was traced with. Give it "
            "`steps.samples` as an argument"])
        with tf.control_dependencies([there]):
            return tf.identity(totals)


def _no_totals(specs: Any) -> tf.Tensor:
    with tf.device("/cpu:0"):
        return tf.fill([len(specs)], tf.constant(-1, tf.int64))
