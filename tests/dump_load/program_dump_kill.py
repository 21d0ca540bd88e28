"""Dumps once, and kills itself at some call of the file system while it dumps again; for test_dump_load_kill.py.

    python program_dump_kill.py FOLDER CALL
"""
import os
import signal
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from stopped_disk import StoppedDisk

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)


if __name__ == "__main__":
    sok.init()
    with v1.Session() as session:
        table = sok.Variable(np.ones([1000, 4]), dtype=tf.float32, name="table")
        session.run(v1.global_variables_initializer())
        sok.dump(sys.argv[1], table)
        session.run(table.assign(2 * tf.ones([1000, 4])))
        with StoppedDisk(int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL)):
            sok.dump(sys.argv[1], table)
        print("not killed")
