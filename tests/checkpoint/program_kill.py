"""Trains and saves after every training until it is killed, for test_checkpoint_faults_kill.py.

    mpiexec -np N python program_kill.py FOLDER KEYS DIM [OPERATION [LAST]]
    python program_kill.py serve            a line "FOLDER KEYS DIM [OPERATION [LAST]]" on stdin starts such a job

With an OPERATION, as "any:60" or "rename:2", the process kills itself at that call of a file system's function, of any
of them or of this one, half-way through where it writes; calls count from the first save on that replaces another one
of the same step. With a LAST it ends after so many trainings. It prints its pid, the number of trainings that it
restored and, after each save, that which it saved.

Served jobs are forked from a process that has imported TensorFlow and sok1x: this is what takes longest in their start.
"""
import os
import signal
import sys
import traceback

import counted_model
import tensorflow.compat.v1 as tf

import sok1x as sok


class Calls:
    """Counts the calls of a file system's functions while `counting`, and kills the process at one of them.

    Those that TensorFlow makes by itself are not seen.
    """

    NAMES = ("open", "write", "pwrite", "fsync", "mkdir", "rename", "unlink", "rmdir")

    def __init__(self, operation):
        self.counting = False
        self._name, left = operation.split(":")
        self._left = int(left)
        for name in self.NAMES:
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name, function):
        def call(*arguments, **options):
            if self.counting and self._name in (name, "any"):
                self._left -= 1
                if self._left < 0:
                    if name in ("write", "pwrite"):
                        data = memoryview(arguments[1]).cast("B")
                        function(arguments[0], data[:len(data) // 2], *arguments[2:])
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return call


def say(*words):
    # In one piece, or lines of two ranks get into each other.
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def job(folder, keys, dim, operation="none", last="1000000000"):
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
    ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1))
    say("pid", rank, os.getpid())
    model = counted_model.Model(int(keys), int(dim), ranks)
    # Ends in a save after every second training, when the global step has gone on.
    saver = sok.CheckpointSaverHook(folder, save_steps=1, keep_checkpoint_max=2)
    calls = None if operation == "none" else Calls(operation)
    with counted_model.session(folder, [saver]) as run:
        trained = model.check(run.run_step_fn(lambda step_context: step_context.session.run(model.values)))
        say("restored", rank, trained)
        while trained < int(last):
            run.run(model.train, model.feed(rank, trained))
            trained += 1
            if trained % 2:
                # The hook has not saved: the step is that of the last save. Now it is replaced.
                if calls:
                    calls.counting = True
                run.run_step_fn(lambda step_context: saver._save(step_context.session, trained // 2))
            say("saved", rank, trained)


def serve():
    assert sok.All2AllDenseEmbedding and sok.CheckpointSaverHook  # imported only when they are asked for
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                job(*line.split())
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        say("ended", os.waitpid(child, 0)[1])


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    if sys.argv[1] == "serve":
        serve()
    else:
        job(*sys.argv[1:])
