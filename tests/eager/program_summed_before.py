"""Run on two ranks: what a DistributedOptimizer(average=False) has summed is not summed once more, eagerly."""
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KERAS = tf.keras.optimizers
KINDS = {"new": lambda: KERAS.SGD(1.0), "legacy": lambda: KERAS.legacy.SGD(1.0),
         "train": lambda: tf.compat.v1.train.GradientDescentOptimizer(1.0)}


def made(kind):
    """(the optimizer, its variable, a function that gives the variable's gradient, one that applies it)."""
    optimizer, weights = sok.DistributedOptimizer(KINDS[kind](), average=False), tf.Variable([0.0])
    if kind == "new":
        optimizer.build([weights])

    def compute():
        if kind == "train":
            return optimizer.compute_gradients(lambda: tf.reduce_sum(weights), [weights])[0][0]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights)
        method = optimizer.compute_gradients if kind == "new" else optimizer._compute_gradients
        return method(loss, [weights], tape=tape)[0][0]

    def apply(gradient):
        optimizer.apply_gradients([(gradient, weights)])

    return weights, compute, apply


def of_tape(weights):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights)
    return tape.gradient(loss, weights)


# What is right: the sum over the ranks, once.
RIGHT = {
    "eagerly": lambda weights, compute, apply: apply(compute()),
    "in a function": lambda weights, compute, apply: tf.function(lambda: apply(compute()))(),
    "of a tape, changed": lambda weights, compute, apply: apply(1.0 * of_tape(weights)),
    "of a tape, after others": lambda weights, compute, apply: (apply(0 * of_tape(weights)), apply(of_tape(weights))),
    "out of a function": lambda weights, compute, apply: apply(tf.function(compute)()),
    "clipped by ours": lambda weights, compute, apply: apply(
        sok.clip_by_global_norm([compute()], 100.0, variables=[weights])[0][0])}
# What cannot be told.
REFUSED = {
    "changed": lambda weights, compute, apply: apply(1.0 * compute()),
    "clipped": lambda weights, compute, apply: apply(tf.clip_by_value(compute(), -9.0, 9.0)),
    "changed in a function": lambda weights, compute, apply: apply(tf.function(lambda: 1.0 * compute())()),
    "into a function": lambda weights, compute, apply: tf.function(apply)(compute()),
    "out of a branch": lambda weights, compute, apply: tf.function(
        lambda which: apply(tf.cond(which, compute, compute)))(tf.constant(True))}


def main():
    sok.init()
    for kind in KINDS:
        for name, call in RIGHT.items():
            weights, compute, apply = made(kind)
            call(weights, compute, apply)
            assert weights.numpy().tolist() == [-launch.current().size], (kind, name, weights.numpy())
        for name, call in REFUSED.items():
            weights, compute, apply = made(kind)
            try:
                call(weights, compute, apply)
            except ValueError as error:
                assert "it cannot be told whether it has been summed" in str(error), (kind, name, error)
            else:
                raise AssertionError((kind, name, weights.numpy()))
            assert weights.numpy().tolist() == [0.0], (kind, name)
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main()
