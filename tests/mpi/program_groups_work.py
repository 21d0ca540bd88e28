"""What a step of many tables costs in calls, however many they are; and that steps leave no memory behind.

    [mpiexec -np N] python program_groups_work.py
"""
import collections
import ctypes
import functools
import resource
import time

import numpy as np
import tensorflow as tf
from groups_model import BACKWARD, BAG_BACKWARD, BAG_FORWARD, DISTINCT, FORWARD, Model, pause, session, sizes
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


class Steps(ctypes.Structure):
    """group_steps.h's GroupSteps, of which the last counts kernels."""

    _fields_ = [("nbytes", ctypes.c_int64), ("steps", ctypes.c_void_p * 17),
                ("kernels", ctypes.CFUNCTYPE(ctypes.c_int64))]


steps = Steps.from_address(group_steps.functions())
assert steps.nbytes == ctypes.sizeof(Steps)


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
            called.clear()
            sizes.clear()
            before = steps.kernels()
            made.run(model.step, model.feed([random.permutation(keys)[:random.randint(5, 20)] for keys in batch]))
        called["kernel of a step"] = steps.kernels() - before
        expected = {name: [tables] for name in (FORWARD, BACKWARD, BAG_FORWARD, BAG_BACKWARD)}
        expected[DISTINCT] = [2 * tables]
        assert sizes == expected, sizes
    return dict(called)


def main():
    with tf.Session() as made:
        made.run(sok.Init(global_batch_size=64))
    world = launch.current()
    count_calls(world)
    random = np.random.RandomState(world.rank)
    pause[0] = settle
    found = {tables: work(tables, random) for tables in (2, 6, 14)}
    assert found[2] == found[6] == found[14], found
    pause[0] = functools.partial(time.sleep, 0.004)
    peaks = peaks_of_steps(random)
    assert peaks[1] - peaks[0] < 60 << 10, peaks  # KiB; outputs alone of 100 steps are 8 times that
    assert np.mean(sizes[FORWARD] + sizes[BAG_FORWARD]) > 1.5, "steps did not run together"
    print("rank", world.rank, found[14], peaks, "ok")


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
