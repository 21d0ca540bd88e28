"""Whether gradients of tables are sums over the ranks, as they come, or means, as a plain script's dense ones."""
import tensorflow as tf

from sok1x.graph_ops.gradients import provenance

_means = False


def make_means(means):
    """Has lookups' gradients that are built from now on be means over the ranks, or sums."""
    global _means
    _means = bool(means)


def of_sum(values):
    """The values of a table's gradient, given what is summed over the ranks."""
    ranks = provenance.ranks() if _means else 1
    if ranks == 1:
        return values
    return tf.multiply(values, 1.0 / ranks, name="mean_over_ranks")
