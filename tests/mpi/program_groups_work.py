"""What a step of many tables costs in calls, however many they are; and that steps leave no memory behind.

    [mpiexec -np N] python program_groups_work.py
"""
import collections
import resource

import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import (
    BACKWARD,
    BAG_BACKWARD,
    BAG_FORWARD,
    BAG_WEIGHTS,
    DISTINCT,
    FORWARD,
    Model,
    bags_by,
    gate,
    in_bags,
    pause,
    session,
    sizes,
)
from settled import settle

import sok1x as sok
from sok1x import launch
from sok1x.cuda_kernels import backend, group_steps

called = collections.Counter()


def counted(what, function):
    def call(*arguments, **options):
        called[what] += 1
        return function(*arguments, **options)
    return call


steps = group_steps.steps()


def count_calls(world):
    """Has kernels that Python calls, exchanges and messages counted by name."""
    for name in list(backend._signatures):
        if not name.endswith("_bytes"):
            setattr(backend.kernels, name, counted("kernel from Python", getattr(backend.kernels, name)))
    communicator = world.communicator
    for name in ("all_to_all", "exchange_counts", "all_gather", "agree", "any_rank"):
        setattr(communicator, name, counted(name, getattr(communicator, name)))
    if world.size > 1:
        transport = world.coordinator.transport
        transport.send = counted("message", transport.send)


def counts_of(step):
    """How often everything is called in a step that C++ runs alone.

    On a busy machine a group may be held for longer than C++ waits, and Python goes on with it on one rank or another;
    or what follows a group, for which nothing waits, may come in two parts: then all look at the next step.
    """
    world = launch.current()
    for _ in range(20):
        called.clear()
        sizes.clear()
        before, exchanges = steps.kernels(), exchanges_of_cpp()
        step()
        disturbed = len(called) + sum(len(groups) - 1 for groups in sizes.values())
        if not (world.mpi.MPI.COMM_WORLD.allreduce(disturbed) if world.size > 1 else disturbed):
            break
    counts = dict(called)
    if "all_to_all" in counts:  # ranks that share a GPU, or have no NCCL: Python exchanges, and may have to tell more
        counts.pop("message", None)
    counts["kernel of a step"], counts["exchange"] = steps.kernels() - before, exchanges_of_cpp() - exchanges
    return counts


def exchanges_of_cpp():
    return getattr(getattr(launch.current().communicator, "direct", None), "exchanges", 0)


def work(tables, random):
    """How often everything is called in a step of so many tables by key, and by bag, whose keys are all known."""
    with tf.Graph().as_default():
        hashed = [number // 2 % 3 != 1 for number in range(2 * tables)]
        model = Model([(60, one) for one in hashed],
                      [(number, True) for number in range(2 * tables)], bags=range(0, 2 * tables, 2))
        batch = [np.arange(-20 if one else 0, 20) for one in hashed]
        with session() as made:
            for _ in range(3):  # the plan is told with the first
                made.run(model.step, model.feed(batch))
            counts = counts_of(lambda: made.run(model.step, model.feed(
                [random.permutation(keys)[:random.randint(5, 20)] for keys in batch])))
        expected = {name: [tables] for name in (FORWARD, BACKWARD, BAG_FORWARD, BAG_BACKWARD)}
        expected[DISTINCT] = [2 * tables]
        assert sizes == expected, sizes
    return counts


def weighted_work(tables, random):
    """The same of `lookup_sparse`, half of its tables with weights, to which there are gradients, too."""
    with tf.Graph().as_default():
        variables = [sok.Variable(shape=[60, 3 + number % 4], initializer="ones") for number in range(tables)]
        fed = tf.placeholder(tf.int64, [None])
        with tf.control_dependencies([gate()]):
            ids = [in_bags(tf.identity(fed)) for _ in variables]
            weights = [tf.identity(tf.cast(fed, tf.float32)) if number % 2 else None for number in range(tables)]
        outs = sok.lookup_sparse(variables, ids, [None if one is None else tf.SparseTensor(
            keys.indices, one, keys.dense_shape) for keys, one in zip(ids, weights)])
        with tf.control_dependencies(outs + [gate()]):
            given = [out + 1 for out in outs]
        gradients = tf.gradients(outs, variables + weights[1::2], grad_ys=given)
        with session() as made:
            for _ in range(3):
                made.run(gradients, {fed: np.arange(1, 60)})
            counts = counts_of(lambda: made.run(gradients, {fed: random.permutation(60)[:random.randint(5, 50)]}))
        assert sizes == {BAG_FORWARD: [tables], BAG_BACKWARD: [tables], DISTINCT: [tables],
                         BAG_WEIGHTS: [tables // 2]}, sizes
    return counts


def main():
    with tf.Session() as made:
        made.run(sok.Init(global_batch_size=64))
    world = launch.current()
    count_calls(world)
    random = np.random.RandomState(world.rank)
    pause[0] = settle
    found = {tables: work(tables, random) for tables in (2, 6, 14)}
    assert found[2] == found[6] == found[14], found
    if world.size > 1:
        bags_by[0] = "reduce_scatter"
        by_sums = [work(tables, random) for tables in (2, 14)]
        assert by_sums[0] == by_sums[1], by_sums
        bags_by[0] = "all2all"
    weighted = [weighted_work(tables, random) for tables in (4, 14)]
    assert weighted[0] == weighted[1], weighted
    peaks = peaks_of_steps(random)
    assert peaks[1] - peaks[0] < 60 << 10, peaks  # KiB; outputs alone of 100 steps are 8 times that
    assert np.mean(sizes[FORWARD] + sizes[BAG_FORWARD]) > 1.5, "steps did not run together"
    print("rank", world.rank, found[14], weighted[1], peaks, "ok")


def peaks_of_steps(random):
    """KiB of memory that the process has had at most after 60 steps, and after 160."""
    peaks = []
    sizes.clear()
    with tf.Graph().as_default():
        model = Model([(3000, number % 3 != 1) for number in range(4)], [(number, True) for number in range(4)],
                      dim=200, bags=(2, 3))
        with session() as made:
            for step in range(160):
                batch = [random.randint(0, 1500, random.randint(1000, 1500)) for _ in range(4)]
                made.run(model.step, model.feed(batch))
                if step in (59, 159):
                    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peaks


if __name__ == "__main__":
    main()
