"""all_finite on one rank; on several: tests/mpi/program_float16.py."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.operations import finite

GOOD = [np.ones([3, 4], np.float32), np.zeros([0, 7], np.float16), np.float64(1e300), np.full(9, 65504, np.float16)]


@pytest.mark.parametrize("place", [None, 0, 2, 3])
def test_any_of_several_tensors(place):
    values = list(GOOD)
    if place is not None:
        values[place] = values[place] * values[place].dtype.type(np.nan if place else np.inf)
    with tf.Graph().as_default(), tf.Session() as sess:
        fed = [tf.placeholder(value.dtype) for value in values]
        flag = finite.all_finite(fed)
        assert flag.dtype == tf.bool and flag.shape == []
        sess.run(sok.Init(global_batch_size=1))
        assert sess.run(flag, dict(zip(fed, values))) == (place is None)


def test_what_cannot_be_finite_is_refused():
    with tf.Graph().as_default(), pytest.raises(TypeError, match="got a tensor of int32 .*expected one of float16"):
        finite.all_finite([tf.constant(1.0), tf.constant(1)])
