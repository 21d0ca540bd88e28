"""Trains slowly and saves after every training until it is killed or told to end, for test_checkpoint_faults_jobs.py.

    python program_keep_saving.py FOLDER

Prints "saved" and the global step, again and again. A line on stdin ends it.
"""
import select
import sys
import time

import counted_model
import tensorflow.compat.v1 as tf

import sok1x as sok


def main():
    model = counted_model.Model(100, 4, 1)
    with counted_model.session(sys.argv[1], [sok.CheckpointSaverHook(sys.argv[1], save_steps=1)]) as run:
        trained = model.check(run.run_step_fn(lambda step_context: step_context.session.run(model.values)))
        sys.stdout.write("restored {}\n".format(trained))
        while not select.select([sys.stdin], [], [], 0)[0]:
            run.run(model.train, model.feed(0, trained))
            trained += 1
            if trained % 2 == 0:
                sys.stdout.write("saved {}\n".format(trained // 2))
                sys.stdout.flush()
                time.sleep(0.1)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
