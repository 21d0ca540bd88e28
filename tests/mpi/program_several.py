"""Programs that check themselves, one after the other in the same processes, each in a graph of its own.

    mpiexec -np N python program_several.py SEED PROGRAM...
"""
import os
import runpy
import sys

import tensorflow.compat.v1 as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    seed, programs = sys.argv[1], sys.argv[2:]
    for program in programs:
        sys.argv = [program, seed]
        with tf.Graph().as_default():
            runpy.run_path(os.path.join(HERE, program), run_name="__main__")
        sys.stdout.write("{} is over\n".format(program))


if __name__ == "__main__":
    main()
