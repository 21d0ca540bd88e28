"""A canned Estimator with feature columns over tables of ours, as a script for DeepRec has it.

    [mpiexec -np N] python program_columns_estimator.py FOLDER WHAT...

WHAT, one after the other: train:STEP (up to that step), evaluate:STEP (of that step's checkpoint; and predicted),
export (saved, loaded again and asked; on several ranks it is refused), kill:STEP (rank 1 is killed when it comes to
that step). A line for each on every rank, with the loss of all samples where that is known.
"""
import os
import signal
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x
from sok1x.checkpoint import CheckpointError

tf.logging.set_verbosity(tf.logging.ERROR)
SAMPLES = 48
sok1x.install_as_deeprec()
columns = tf.feature_column


def estimator(folder):
    keys = columns.categorical_column_with_embedding("user", tf.int64)
    with columns.group_embedding_column_scope(name="fields"):
        deep = [columns.embedding_column(keys, 4),
                columns.embedding_column(columns.categorical_column_with_hash_bucket("city", 40), 3, "sum")]
        deep += columns.shared_embedding_columns(
            [columns.categorical_column_with_identity(name, 12) for name in ("seen", "bought")], 2)
    wide = [keys, columns.categorical_column_with_hash_bucket("city", 40)]
    return tf.estimator.DNNLinearCombinedClassifier(
        folder, linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[8],  # Ftrl is the default
        linear_optimizer="Ftrl", dnn_optimizer=tf.train.AdagradOptimizer(0.1),
        loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE, config=tf.estimator.RunConfig(
            tf_random_seed=1, save_checkpoints_steps=4, session_config=tf.ConfigProto(intra_op_parallelism_threads=1)))


def samples():
    random = np.random.RandomState(7)
    found = {"user": random.randint(-60, 60, [SAMPLES, 1]), "seen": random.randint(0, 12, [SAMPLES, 2]),
             "city": random.randint(0, 30, [SAMPLES, 1]).astype(str).astype(object),
             "bought": random.randint(0, 12, [SAMPLES, 1])}
    return found, ((found["user"] + found["seen"][:, :1]) % 2)


def input_of(rank, ranks, repeat=None):
    features, labels = samples()
    mine = {name: value[rank::ranks] for name, value in features.items()}, labels[rank::ranks]
    return lambda: tf.data.Dataset.from_tensors(mine).repeat(repeat)


class Kill(tf.train.SessionRunHook):
    def __init__(self, step):
        self._step = step

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.train.get_global_step())

    def after_run(self, run_context, run_values):
        if run_values.results + 1 >= self._step:
            os.kill(os.getpid(), signal.SIGKILL)


def examples():
    """The samples as serialized tf.train.Examples."""
    features, labels = samples()
    kinds = {"user": "int64", "seen": "int64", "bought": "int64"}

    def feature(name, row):
        if name in kinds:
            return tf.train.Feature(int64_list=tf.train.Int64List(value=row))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[word.encode() for word in row]))

    return [tf.train.Example(features=tf.train.Features(feature={
        name: feature(name, value[number]) for name, value in features.items()})).SerializeToString()
        for number in range(SAMPLES)], labels[:, 0]


def export(made, folder, several):
    """What the exported model gives, as a loss; on several ranks the error's words."""
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn({
        "user": tf.io.VarLenFeature(tf.int64), "seen": tf.io.VarLenFeature(tf.int64),
        "bought": tf.io.VarLenFeature(tf.int64), "city": tf.io.VarLenFeature(tf.string)})
    try:
        path = made.export_saved_model(folder, receiver).decode()
    except Exception as error:
        assert several and "on 2 ranks" in str(error) and "on one rank" in str(error), error
        assert not os.path.lexists(folder)
        return "refused", 0.0
    assert not several
    given, labels = examples()
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], path).signature_def["predict"]
        chances = session.run(signature.outputs["probabilities"].name, {signature.inputs["examples"].name: given})
    return "export", -np.mean(np.log(chances[np.arange(SAMPLES), labels]))


def main():
    tf.config.experimental.enable_distributed_strategy(strategy="collective")
    rank, ranks = sok1x.communication.rank(), sok1x.communication.num_ranks()
    folder = sys.argv[1]
    made = estimator(os.path.join(folder, "model"))
    for argument in sys.argv[2:]:
        what, _, step = argument.partition(":")
        if what == "export":
            if rank == 1:  # a BestExporter may find on one rank alone that it is time to
                export(made, os.path.join(folder, "exported"), True)
                best = tf.estimator.BestExporter(serving_input_receiver_fn=len)
                try:
                    best.export(made, os.path.join(folder, "best"), None, {"loss": 0.0}, False)
                except CheckpointError as error:
                    assert "on 2 ranks" in str(error), error
                else:
                    raise AssertionError("not refused")
            what, loss = export(made, os.path.join(folder, "exported"), ranks > 1)
            step = made.get_variable_value("global_step")
        else:
            if what == "evaluate":
                found = made.evaluate(input_of(0, 1, 1))
                assert found["global_step"] == int(step), found
                loss = found["average_loss"]
                predicted = [one["probabilities"][1] for one in made.predict(input_of(0, 1, 1))]
                np.testing.assert_allclose(np.mean(predicted), found["prediction/mean"], rtol=1e-5)
            else:
                hooks = [Kill(int(step))] if what == "kill" and rank == 1 else []
                made.train(input_of(rank, ranks), max_steps=int(step), hooks=hooks)
                loss = 0.0
        sys.stdout.write("rank {} did {} at {}: {:.7f}\n".format(rank, what, step, loss))


if __name__ == "__main__":
    main()
