"""Run by test_eager.py: ranks with different numbers of batches, in a loop, trained as one rank that has them all."""
import functools
import sys

import numpy as np
import tensorflow as tf
from mpi4py import MPI
from refusals import refused

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

ROWS, DIM, BATCH, RATE = 20, 3, 4, 0.3
SIZES = {1: (9,), 3: (17, 0, 10)}  # samples of each rank


def samples(seed, rank, count):
    """Keys [n, 2] and labels [n]."""
    random = np.random.RandomState([seed, rank])
    return random.randint(0, ROWS, [count, 2]), random.normal(size=count).astype(np.float32)


def trained(seed, rows):
    """(rows, losses of two epochs) by NumPy, of all ranks' samples."""
    parts = [samples(seed, rank, count) for rank, count in enumerate(SIZES[launch.current().size])]
    rows, losses = rows.astype(np.float64), []
    for begin in list(range(0, max(len(keys) for keys, _ in parts), BATCH)) * 2:
        keys, labels = (np.concatenate([part[i][begin:begin + BATCH] for part in parts]) for i in range(2))
        errors = rows[keys].sum(axis=(1, 2)) - labels
        losses.append((errors ** 2).sum() / len(labels))
        np.subtract.at(rows, keys, (RATE * 2 * errors / len(labels))[:, None, None])
    return rows, losses


def whole(table):
    """All ranks' rows, ordered by their keys."""
    keys, rows = (np.concatenate(MPI.COMM_WORLD.allgather(np.asarray(part))) for part in sok.export(table))
    return rows[np.argsort(keys)]


def check_training(seed, function):
    world = launch.current()
    table = sok.Variable(np.random.RandomState(seed).normal(size=[ROWS, DIM]).astype(np.float32))
    expected, losses = trained(seed, whole(table))
    optimizer = sok.OptimizerWrapper(tf.keras.optimizers.legacy.SGD(RATE))

    def step(keys, labels):
        with tf.GradientTape() as tape:
            rows = sok.all2all_dense_embedding(table, keys)
            loss = tf.reduce_sum((tf.reduce_sum(rows, axis=[1, 2]) - labels) ** 2) / tf.cast(steps.samples, tf.float32)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        return loss

    step = function(step)
    data = tf.data.Dataset.from_tensor_slices(samples(seed, world.rank, SIZES[world.size][world.rank])).batch(BATCH)
    steps = sok.EvenSteps(data)
    found = []
    for _ in range(2):
        found += [MPI.COMM_WORLD.allreduce(float(step(keys, labels))) for keys, labels in steps]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    np.testing.assert_allclose(whole(table), expected, rtol=1e-5, atol=1e-6)


def check_kinds():
    """A rank without data has empty batches of every kind; one with data what its own iterator gives."""
    first = launch.current().rank == 0
    numbers = tf.data.Dataset.range(5 if first else 0).map(lambda i: (
        {"sparse": tf.SparseTensor([[0, 0]], [tf.cast(i, tf.int32)], [2, 3]), "text": tf.as_string(i)},
        tf.fill([2], 0.5))).batch(2)
    ragged = tf.data.Dataset.from_tensors(tf.ragged.constant([[1, 2], []])).repeat(3 if first else 0)
    batches = tf.data.Dataset.zip((numbers, ragged))
    own, counts = iter(batches), []
    steps = sok.EvenSteps(iter(batches))
    for (features, halves), bags in steps:
        if first:
            tf.nest.map_structure(lambda a, b: np.testing.assert_array_equal(a.numpy(), b.numpy()),
                                  *[tf.nest.flatten(each, expand_composites=True)
                                    for each in (((features, halves), bags), next(own))])
        else:
            assert features["sparse"].dense_shape.numpy().tolist() == [0, 2, 3] and features["text"].shape == [0]
            assert halves.shape == [0, 2] and bags.nrows() == 0 and bags.dtype == tf.int32
        try:
            counts.append(int(steps.samples))
        except tf.errors.InvalidArgumentError as error:  # the last batch has a sample, and two bags
            assert "first dimensions that differ" in str(error)
            counts.append(None)
    assert counts == [2, 2, None], counts
    assert list(steps) == [], "an iterator has one epoch"


def check_functions():
    """One that reads `samples` in its body has those of the EvenSteps which it was traced with, in its loops alone."""
    check_function(tf.function, "whose loop is over, expected one that is gone through", "first dimensions that differ")
    compiled = functools.partial(tf.function, jit_compile=True)
    check_function(compiled, *["EvenSteps_loop_is_over_or_dimensions_differ"] * 2)


def check_function(function, is_over, differ):
    size = launch.current().size
    steps, count = sok.EvenSteps(tf.data.Dataset.range(3).batch(2)), function(lambda: steps.samples)

    def over():
        refused(tf.errors.InvalidArgumentError, is_over, count)

    for _ in range(2):
        assert [int(count()) for _ in steps] == [2 * size, size] and int(steps.samples) == size
        over()
    for _ in steps:
        break
    over()
    held = iter(steps)
    next(held)
    assert [int(count()) for _ in steps] == [2 * size, size] and int(count()) == size  # one of two loops is over
    with tf.Graph().as_default() as graph:  # a loop is let go anywhere
        del held
    assert not graph.get_operations()
    over()
    traced, steps = steps, sok.EvenSteps(tf.data.Dataset.range(3).batch(1))
    for _ in steps:
        over()
        assert int(steps.samples) == size
    assert [int(count()) for _ in traced] == [2 * size, size]
    steps = sok.EvenSteps(tf.data.Dataset.from_tensors((tf.zeros([2]), tf.zeros([3]))))
    count = function(lambda: steps.samples)
    for _ in steps:
        refused(tf.errors.InvalidArgumentError, differ, count)


def check_refusals():
    steps = sok.EvenSteps(tf.data.Dataset.range(4).batch(2))
    refused(ValueError, "got no batch yet", lambda: steps.samples)
    refused(ValueError, "get_next: got eager execution", steps.get_next)
    refused(ValueError, "initializer: got eager execution", lambda: steps.initializer)
    refused(RuntimeError, "sok1x.EvenSteps: called in the body", tf.function(lambda: list(steps)[0], autograph=False))
    refused(ValueError, "inside a function's body", tf.function(
        lambda: sok.EvenSteps(tf.data.Dataset.range(4).batch(2)), autograph=False))
    refused(TypeError, "got [1, 2] of type list", lambda: sok.EvenSteps([1, 2]))
    refused(ValueError, "the batch: got shape []", lambda: sok.EvenSteps(tf.data.Dataset.range(4)))
    with tf.Graph().as_default():
        made = sok.EvenSteps(tf.data.Dataset.range(4).batch(2))
    refused(TypeError, "made in a graph, expected steps.get_next()", lambda: iter(made))


def main():
    sok.init()
    seed = int(sys.argv[1])
    for function in (lambda step: step, lambda step: tf.function(step, autograph=False)):
        check_training(seed, function)
    check_kinds()
    check_functions()
    check_refusals()
    sys.stdout.write("ok\n")


if __name__ == "__main__":
    main()
