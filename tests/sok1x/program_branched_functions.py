"""Run on two ranks: a step in a branch that is a function (control flow v2), which ranks decide differently."""
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.enable_control_flow_v2()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402


def main():
    sok.init()
    rank = launch.current().rank
    table = sok.Variable(np.ones([2, 1], np.float32))
    kernel = tf.get_variable("kernel", initializer=[1.0], use_resource=True)
    scale = tf.placeholder(tf.float32, [])
    optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
    pairs = optimizer.compute_gradients(
        tf.reduce_sum(sok.all2all_dense_embedding(table, [rank]) * kernel * scale), [table, kernel])

    def apply():
        with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
            return tf.constant(1)

    step = tf.cond(tf.reduce_all(tf.is_finite(pairs[0][0].values)), apply, lambda: tf.constant(0))
    assert any(op.type in ("If", "StatelessIf") for op in tf.get_default_graph().get_operations())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(step, {scale: 1.0}) == 1
        assert session.run(step, {scale: np.inf}) == 0
        try:
            session.run(step, {scale: 1.0 if rank == 0 else np.inf})
        except tf.errors.InvalidArgumentError as error:
            assert "got the predicate True on ranks [0] and False on ranks [1]" in str(error), error
            assert "the step of 'Variable:0' is inside" in str(error), error
        else:
            raise AssertionError("no error")
        np.testing.assert_array_equal(session.run(table), [[0.0]])
        np.testing.assert_array_equal(session.run(kernel), [0.0])
    print("rank", rank, "ok")


if __name__ == "__main__":
    main()
