"""Trains the model on this rank's batches, saves it, exports it in several ways, and writes what it predicts.

program_export.py FOLDER SEED FORM... . Below FOLDER: saved/, plain.* (one rank: a tf.train.Saver's), models/FORM/1,
batch.npz, and predicted.npz. Without forms saved/ is there, and is restored and evaluated.
"""
import os
import sys

import numpy as np
import tensorflow as tf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from serving_model import WORDS, Model, batch  # noqa: E402

import sok1x as sok  # noqa: E402
from sok1x.serving import __main__ as command  # noqa: E402

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)


def main():
    folder, seed = sys.argv[1], int(sys.argv[2])
    sok.init(seed=seed % 1000)
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    words = os.path.join(folder, "words.txt")
    if rank == 0:
        with open(words, "w") as file:
            file.write("\n".join(WORDS) + "\n")
    random = np.random.RandomState([seed, rank])
    v1.set_random_seed(1)
    model = Model(words)
    sok.serving.mark_for_serving(model.inputs, model.outputs)
    manager = sok.CheckpointManager(os.path.join(folder, "saved"))
    saver = v1.train.Saver() if ranks == 1 else None
    with v1.Session() as session:
        session.run(sok.Init(global_batch_size=64))  # its own seed says nothing, after that of sok.init
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run(sok.broadcast_global_variables(0))
        if sys.argv[3:]:
            for step in range(3):
                session.run(model.step, model.feeds(batch(random, 13 + rank, 30), True))
            manager.save(session, 3)
        else:
            assert manager.restore(session) == 3
        if saver is not None:
            saver.save(session, os.path.join(folder, "plain"))
        # Every rank evaluates the same samples; rank 0 keeps what it gets.
        values = batch(np.random.RandomState(seed), 21, 45)
        predicted = session.run(model.outputs, model.feeds(values, False))
    if rank:
        return
    np.savez(os.path.join(folder, "batch.npz"), **values)
    np.savez(os.path.join(folder, "predicted.npz"), **predicted)
    saved, exported = os.path.join(folder, "saved"), os.path.join(folder, "models")

    def served():
        made = Model(words, trains=False)
        return made.inputs, made.outputs

    def path(name):
        return os.path.join(exported, name, "1")

    def run(*arguments):
        assert command.main(["export", saved, *arguments, "--seed", str(seed % 1000)]) == 0

    export = sok.serving.export_saved_model
    forms = {
        "function": lambda: export(path("function"), saved, served),
        "command": lambda: run("--to", path("command"), "--index", "search"),
        "tables": lambda: run("--to", path("tables"), "--tables_alone", "--storage", "float16", "--unseen", "-1.5"),
        "tensors": lambda: export(path("tensors"), saved, inputs=model.inputs, outputs=model.outputs),
        "one rank": lambda: export(path("one rank"), saved, served, ranks=1),
        "half": lambda: export(path("half"), saved, served, storage="float16"),
        "plain": lambda: export(path("plain"), os.path.join(folder, "plain"), served),
    }
    for form in sys.argv[3:]:
        forms[form]()


if __name__ == "__main__":
    main()
