"""`sok.Variable` of a list: the numbers that TensorFlow's has."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok

LARGE = 2 ** 53 + 1


def value(make, numbers, dtype):
    with tf.Graph().as_default(), tf.Session() as session:
        variable = make(numbers, dtype=dtype)
        session.run(tf.global_variables_initializer())
        return session.run(variable)


@pytest.mark.parametrize("numbers, dtype", [
    ([[0.1, 1e300]], tf.float64), ([[LARGE, 3]], tf.int64), ([[-2 ** 63, 2 ** 63 - 1]], tf.int64),
    ([[1, 2]], tf.float32),
    ([[0.1, 7.0]], None), ([[2 ** 31 - 1, -2 ** 31]], None), ([[1, 2], [3, 4]], tf.int32)])
def test_numbers_of_lists(numbers, dtype):
    sok.init()
    found = value(sok.Variable, numbers, dtype)
    expected = value(lambda *args, **options: tf.Variable(*args, use_resource=True, **options), numbers, dtype)
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


@pytest.mark.parametrize("number", [LARGE, -2 ** 63, 2 ** 31])
def test_integers_that_32_bits_do_not_have(number):
    """TensorFlow refuses them where no dtype is asked for."""
    sok.init()
    assert value(sok.Variable, [[number, 5]], None).tolist() == [[number, 5]]


@pytest.mark.parametrize("numbers, dtype", [([[1.7, 2]], tf.int32), ([[2 ** 40, 2]], tf.int32), ([[0.1, 3]], tf.int64)])
def test_nothing_is_cut_off(numbers, dtype):
    sok.init()
    with tf.Graph().as_default(), pytest.raises(TypeError, match="expected whole numbers that it has"):
        sok.Variable(numbers, dtype=dtype)
    with tf.Graph().as_default(), tf.Session() as session:  # an array is converted, as TensorFlow does
        variable = sok.Variable(np.array(numbers), dtype=dtype)
        session.run(tf.global_variables_initializer())
        assert session.run(variable).tolist() == np.array(numbers).astype(dtype.as_numpy_dtype).tolist()
