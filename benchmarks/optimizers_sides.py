"""One embedding table and one optimizer's step on it, in sok1x and in stock TensorFlow, on a CPU or a GPU.

update   the optimizer alone, on the same gradient: a row for each key of the batch, keys as row numbers, so that equal
         ones are still to be added up
step     lookup, half the squared distance from a target as loss, gradient, and the optimizer
"""
import contrib
import gpu_sides
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

# Name -> ours, TensorFlow's.
OPTIMIZERS = {
    "tf.keras LazyAdamOptimizer": (lambda rate: sok.tf.keras.optimizers.LazyAdamOptimizer(rate), contrib.lazy_adam),
    "tf.keras Adam": (lambda rate: sok.tf.keras.optimizers.Adam(rate), tf.keras.optimizers.Adam),
    "optimizers.Adam": (lambda rate: sok.optimizers.Adam(rate), tf.keras.optimizers.Adam),
}
# Of our kernels those that are the optimizer's step itself; of these, those that add gradients up as they go.
WITH_SUMS = ("group_lazy_adam_sums", "group_plain_lazy_adam_sums", "group_sum_update_long")
FUSED = ("lazy_adam", "group_lazy_adam", "adam", "adam_positions", "adam_no_positions") + WITH_SUMS


class _OfOptimizer:
    """What both sides do alike; comes before `gpu_sides.Side` among the bases."""

    def __init__(self, optimizer, *arguments):
        self.optimizer = optimizer
        super().__init__(*arguments)

    def _make_steps(self, inputs, modes):
        options = self.options
        shape = [options.samples, options.slots, options.dim]
        steps = {}
        # Also where only the update is timed: it makes the table.
        embeddings = tf.reshape(self.look_up(inputs, True), shape)
        if "update" in modes:
            keys = inputs.values if isinstance(inputs, tf.SparseTensor) else tf.reshape(inputs, [-1])
            count = len(self._batches[0].keys)
            values = gpu_sides._noise("gradient", [count, options.dim], 9)
            slices = tf.IndexedSlices(values.read_value(), keys, tf.constant([options.vocabulary, options.dim]))
            steps["update"] = self._apply(slices)
        if "step" in modes:
            target = gpu_sides._noise("target", shape, 7)
            gradient, = tf.gradients(embeddings, [self.variable], grad_ys=[embeddings - target.read_value()])
            steps["step"] = self._apply(gradient)
        return steps

    def _apply(self, gradient):
        """One optimizer for both: the table has one m and one v."""
        with sok.OptimizerScope([self.variable]):
            return self.optimizer.apply_gradients([(gradient, self.variable)])


class Sok1x(_OfOptimizer, gpu_sides.Sok1x):
    """A layer of ours with a hash table that is exactly full, and our optimizer."""

    @property
    def variable(self):
        return self.layer.embedding_variable


class Stock(_OfOptimizer, gpu_sides.Stock):
    """`tf.nn.embedding_lookup(_sparse)` on a resource variable, and TensorFlow's optimizer."""

    @property
    def variable(self):
        return self.table


def make(side, name, layout, batches, modes, options):
    """A side, 'sok1x' or 'stock', of the optimizer called `name`."""
    ours, stock = OPTIMIZERS[name]
    optimizer = (ours if side == "sok1x" else stock)(gpu_sides.RATE)
    return (Sok1x if side == "sok1x" else Stock)(optimizer, layout, batches, modes, options,
                                                 gpu_sides.session_config())


def fused_bytes(name, distinct, options, gradients=None):
    """The fewest bytes of the optimizer's step: gradients read; row, m and v read and written, of the rows it moves.

    For an Adam that moves every row it is the pass over the shard alone, whatever the batch. gradients: rows of them,
    where the step adds them up itself; else a distinct key's are one.
    """
    row = 4 * options.dim
    return row * ((gradients or distinct) + 6 * distinct) if "Lazy" in name else 6 * row * options.vocabulary


def distinct_of(batches):
    """Mean number of distinct keys of a batch."""
    return float(np.mean([batch.distinct() for batch in batches]))
