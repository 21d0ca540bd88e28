"""Training in sessions with hooks, which check at which step they begin: for tests of what they restore and save."""
import tensorflow.compat.v1 as tf
from stock_model import Model

import sok1x as sok


class Killed(Exception):
    """A job that ends so saves nothing more."""


def train(steps, hooks=(), best=None, killed=False, **options):
    """Trains in a session of its own, with a manager for the folder `best`; gives the step at which it has begun.

    hooks: some, or what makes them in the graph; as `scaffold` does.
    """
    model = Model(0, 1, start=False)
    options = dict(dict(log_step_count_steps=None, save_summaries_steps=None, save_checkpoint_secs=None), **options)
    try:
        with model.graph.as_default():
            manager = None if best is None else sok.CheckpointManager(best)
            made = list(hooks() if callable(hooks) else hooks)
            if "scaffold" in options:
                options["scaffold"] = options["scaffold"]()
            with tf.train.MonitoredTrainingSession(hooks=[sok.InitHook(global_batch_size=1)] + made,
                                                   **options) as session:
                inner = session._tf_sess()
                begun = int(inner.run(model.number))
                model.check(begun, inner.run(model.values))
                for step in range(begun + 1, begun + steps + 1):
                    session.run(model.step)
                    if manager is not None and step == 2:
                        manager.save(inner, step)
                model.check(begun + steps, inner.run(model.values))
                if killed:
                    raise Killed()
    except Killed:
        pass
    return begun


def hook(folder, steps=2):
    return sok.CheckpointSaverHook(str(folder), save_steps=steps)


def listened(folder, steps=2):
    return tf.train.CheckpointSaverHook(str(folder), save_steps=steps, listeners=[sok.CheckpointSaverListener()])
