"""A session has the threads that its config asks for, also after ranks have joined without one.

    [mpiexec -np N] python program_threads.py HOW
"""
import sys
import threading

import tensorflow.compat.v1 as tf

import sok1x as sok

COUNT = 7  # more threads than TensorFlow takes by itself on a small machine
CONFIG = tf.ConfigProto(inter_op_parallelism_threads=COUNT + 1, intra_op_parallelism_threads=1)


def opened(how):
    """A session, after all ranks have joined."""
    if how == "hook":
        return tf.train.MonitoredTrainingSession(config=CONFIG, hooks=[sok.InitHook(global_batch_size=8)])
    sok.init()
    return tf.Session(config=CONFIG)


def main():
    """All of them wait for each other."""
    barrier = threading.Barrier(COUNT)
    with tf.Graph().as_default():
        waits = [tf.py_func(lambda: barrier.wait(60) >= 0, [], tf.bool) for _ in range(COUNT)]
        with opened(sys.argv[1]) as session:
            assert all(session.run(waits))
    print("ok", flush=True)


main()
