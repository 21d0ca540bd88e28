"""Batches without samples: all that is known of a dataset's batches, but for how many samples they have."""
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import nest

_NO_VALUES = (tf.resource, tf.variant)


def specs(structure):
    """The structure of a dataset's batches, with any number of samples: shapes [B, ...] become [None, ...].

    Args:
      structure: nested tuples and dicts of tf.TypeSpec.

    Raises:
      TypeError: a part is no tensor. ValueError: it has no first dimension, or not even a known number of them.
    """
    paths = nest.flatten_with_joined_string_paths(structure)
    return nest.pack_sequence_as(structure, [_spec(spec, path) for path, spec in paths])


def _spec(spec, path):
    what = "sok1x.EvenSteps: {}".format("batch component '{}'".format(path) if path else "the batch")
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(_shape(spec._shape, what), spec._dtype, spec._ragged_rank, spec._row_splits_dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensorSpec(_shape(spec.shape, what), spec.dtype)
    if isinstance(spec, tf.TensorSpec) and spec.dtype not in _NO_VALUES:
        return tf.TensorSpec(_shape(spec.shape, what), spec.dtype)
    raise TypeError("{} is {}, expected a tensor, SparseTensor or RaggedTensor".format(what, spec))


def _shape(shape, what):
    if shape.rank is None:
        raise ValueError("{}: got an unknown number of dimensions, expected a known one, to make batches without "
                         "samples of; give the shape, as in Dataset.from_generator(..., output_shapes=...) or by "
                         "tensor.set_shape in Dataset.map".format(what))
    if shape.rank == 0:
        raise ValueError("{}: got shape [], expected [B, ...], whose first dimension a batch without samples can have "
                         "0 of; call .batch(...) on the dataset before".format(what))
    return tf.TensorShape([None]).concatenate(shape[1:])


def empty(spec):
    """No samples of `spec`: 0 in the first dimension, as known in the others, 0 where they are not known."""
    shape = _shape_of(spec)
    inner = [length or 0 for length in shape.as_list()[1:]]
    if isinstance(spec, tf.RaggedTensorSpec):
        splits = [tf.zeros([1], spec._row_splits_dtype)] * spec._ragged_rank
        return tf.RaggedTensor.from_nested_row_splits(tf.zeros([0] + inner[spec._ragged_rank:], spec._dtype), splits)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensor(tf.zeros([0, shape.rank], tf.int64), tf.zeros([0], spec.dtype), [0] + inner)
    return tf.zeros([0] + inner, spec.dtype)


def _shape_of(spec):
    return spec._shape if isinstance(spec, tf.RaggedTensorSpec) else spec.shape


def length(value):
    """A batch's first dimension, int64 []."""
    if isinstance(value, tf.RaggedTensor):
        return value.nrows(tf.int64)
    if isinstance(value, tf.SparseTensor):
        return value.dense_shape[0]
    return tf.shape(value, out_type=tf.int64)[0]


def with_shape(value, spec):
    """`value` with as much of its static shape as `spec` knows; what belongs to a composite tensor is left alone."""
    if isinstance(spec, tf.TensorSpec):
        value.set_shape(spec.shape)
    return value
