"""Restores what cannot be restored, on two ranks, and reports what came of it: see test_checkpoint_faults_restore.py.

    mpiexec -np 2 python program_restore.py FOLDER SEED

Rank r writes FOLDER/report-<r>.json: {"damages", "mismatches", "unseen" or "steps": {case: [the error's classes, its
message, names of the variables that changed]}}.
"""
import json
import os
import random
import shutil
import sys

import counted_model
import damages
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

RANK, RANKS = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


class Restorer:
    """A graph's hook in a session of its own: all variables are initialized, and nothing is restored yet."""

    def __init__(self, directory):
        self._variables = {variable.name: variable for variable in tf.global_variables()}
        self._saver = sok.CheckpointSaverHook(directory, save_steps=1000)
        self._saver.begin()
        self.session = tf.Session()
        init = sok.Init()
        initializer = tf.global_variables_initializer()
        tf.get_default_graph().finalize()
        self.session.run(init)
        self.session.run(initializer)

    def save(self, step):
        self._saver._save(self.session, step)

    def restore(self):
        self._saver.after_create_session(self.session, None)

    def report(self, act=None):
        """[classes of the error, its message, what changed] of a restore, or of what else is done."""
        before = self.session.run(self._variables)
        classes, message = [], ""
        try:
            (act or self.restore)()
        except Exception as error:
            classes, message = [one.__name__ for one in type(error).__mro__], str(error)
        after = self.session.run(self._variables)
        return [classes, message, [name for name in before if before[name].tobytes() != after[name].tobytes()]]


def on_rank_0(act):
    """One rank changes the files, while the others wait."""
    MPI.COMM_WORLD.Barrier()
    if RANK == 0:
        act()
    MPI.COMM_WORLD.Barrier()


def damaged(folder):
    model = counted_model.Model(200, 4, RANKS)
    directory, good, other = (os.path.join(folder, name) for name in ("saved", "good", "other"))
    final = os.path.join(directory, "model.ckpt-{}".format(damages.STEP))
    restorer = Restorer(directory)

    def train(first, last):
        for trained in range(first, last):
            restorer.session.run(model.train, model.feed(RANK, trained))

    def put(act):
        shutil.rmtree(final)
        shutil.copytree(good, final)
        act(final, other)

    train(0, 2 * damages.STEP)
    restorer.save(damages.STEP)
    on_rank_0(lambda: os.rename(final, other))
    train(2 * damages.STEP, 2 * damages.STEP + 1)
    restorer.save(damages.STEP)
    on_rank_0(lambda: shutil.copytree(final, good))
    train(2 * damages.STEP + 1, 12)
    reports = {}
    for name, damage in damages.DAMAGES.items():
        on_rank_0(lambda: put(damage.act))
        reports[name] = restorer.report()
    on_rank_0(lambda: put(lambda final, other: None))
    reports["none"] = restorer.report()
    assert model.check(restorer.session.run(model.values)) == 2 * damages.STEP + 1
    return reports


class Varied:
    """A model with a table, a dense variable, an optimizer, each of which can be another one."""

    OPTIMIZERS = {"momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9), "adam": lambda: tf.train.AdamOptimizer(0.1),
                  "sgd": lambda: tf.train.GradientDescentOptimizer(0.1)}

    def __init__(self, dim=4, rows=100, use_hashtable=True, key_dtype="int64", optimizer="momentum", tables=1,
                 dense=(3,), dense_dtype="float32", more=0):
        keys = tf.cast(tf.reshape(tf.range(60), [-1, 1, 1]), key_dtype)
        layers = [sok.All2AllDenseEmbedding(rows, dim, 1, 1, use_hashtable=use_hashtable, key_dtype=key_dtype)
                  for _ in range(tables)]
        for name, shape in [("weights", dense)] + [("more", (2,))] * more:
            tf.get_variable(name, shape, dense_dtype, tf.ones_initializer(), trainable=False)
        self.train = self.OPTIMIZERS[optimizer]().minimize(
            tf.add_n([tf.reduce_sum(layer(keys)) for layer in layers]), tf.train.get_or_create_global_step(),
            var_list=[layer.embedding_variable for layer in layers])


VARIATIONS = {
    "same": {}, "dim": {"dim": 8}, "key dtype": {"key_dtype": "uint32"}, "direct": {"use_hashtable": False},
    "rows": {"rows": 20}, "more rows": {"rows": 150}, "adam": {"optimizer": "adam"}, "no slots": {"optimizer": "sgd"},
    "table": {"tables": 2}, "dense shape": {"dense": (5,)}, "dense dtype": {"dense_dtype": "float64"},
    "dense more": {"more": 1}}


def mismatched(folder):
    directory, reports = os.path.join(folder, "saved"), {}
    with tf.Graph().as_default():
        model = Varied()
        restorer = Restorer(directory)
        restorer.session.run(model.train)
        restorer.save(1)
        restorer.session.close()
    for name, arguments in VARIATIONS.items():
        with tf.Graph().as_default():
            Varied(**arguments)
            restorer = Restorer(directory)
            reports[name] = restorer.report()
            restorer.session.close()
    return reports


def unseen(folder):
    """Rank 1 works somewhere else, so a relative folder is another one to it."""
    place = os.path.join(folder, "rank-{}".format(RANK))
    os.mkdir(place)
    os.chdir(place)
    reports = {}
    with tf.Graph().as_default():
        Varied()
        restorer = Restorer("saved")
        reports["save"] = restorer.report()
        assert not [name for name in os.listdir("saved") if "model.ckpt" in name] if RANK == 0 else True
    on_rank_0(lambda: None)
    os.chdir(folder)
    with tf.Graph().as_default():
        Varied()
        Restorer("rank-0/saved").save(1)
    on_rank_0(lambda: None)
    os.chdir(place)
    with tf.Graph().as_default():
        Varied()
        reports["restore"] = Restorer("saved").report()
    return reports


def steps(folder):
    """Each rank means another step: of a save, and of a restore where there are both."""
    Varied()
    manager, restorer = sok.CheckpointManager(folder), Restorer(folder)
    session = restorer.session
    reports = {"hook": restorer.report(lambda: restorer.save(3 + RANK)),
               "save": restorer.report(lambda: manager.save(session, 1 + RANK))}
    assert not [name for name in os.listdir(folder) if "model.ckpt" in name]
    manager.save(session, 1)
    manager.save(session, 2)
    reports["restore"] = restorer.report(lambda: manager.restore(session, 1 + RANK))
    reports["last"] = restorer.report(lambda: manager.restore(session, 2 if RANK else None))
    assert manager.restore(session, 2) == 2
    return reports


def main():
    folder, seed = sys.argv[1:]
    random.seed(int(seed))
    reports = {}
    for name, cases in (("damages", damaged), ("mismatches", mismatched), ("unseen", unseen), ("steps", steps)):
        place = os.path.join(folder, name)
        on_rank_0(lambda: os.mkdir(place))
        with tf.Graph().as_default():
            reports[name] = cases(place)
    with open(os.path.join(folder, "report-{}.json".format(RANK)), "w") as file:
        json.dump(reports, file)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
