"""Trains demo.py's model as a tf.estimator.Estimator, with checkpoints; started again, it goes on.

    mpiexec -np 2 python legacy_examples/estimator.py --model_dir saved
    python legacy_examples/estimator.py --model_dir saved --steps 1200        # from two ranks to one

All that sok1x adds to such a script, besides layers (in model.py) and optimizers, is `scaffold=sok.Scaffold(...)`.
Checkpoints are the Estimator's own and have the rows of all ranks. Every rank calls the Estimator alike, with one
model_dir.
"""
import argparse
import sys

import movielens
import numpy as np
import tensorflow.compat.v1 as tf
from demo import train_op
from model import WideAndDeep, add_arguments, auc, batches, part_of, shuffled
from mpi4py import MPI

import sok1x as sok


def model_fn(features, labels, mode, params):
    """The model: what is trained, measured and predicted."""
    training = mode == tf.estimator.ModeKeys.TRAIN
    inputs = features["keys"], features["genres"], features["labels"]
    model = WideAndDeep(params["data"], params["batch_size"], inputs, training)
    scaffold = sok.Scaffold(global_batch_size=params["batch_size"], seed=params["seed"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": model.score}, scaffold=scaffold)
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"auc": tf.metrics.auc(model.labels, model.score, num_thresholds=1000)}
        return tf.estimator.EstimatorSpec(mode, loss=model.loss, eval_metric_ops=metrics, scaffold=scaffold)
    with tf.control_dependencies([train_op(model.objective, params["optimizer"])]):
        step = tf.train.get_global_step().assign_add(1, read_value=False)
    return tf.estimator.EstimatorSpec(mode, loss=model.loss, train_op=step, scaffold=scaffold,
                                      training_hooks=[sok.BroadcastGlobalVariablesHook(0)])  # dense first values


def input_of(data, parts):
    """An input_fn of batches: `parts` gives, for each, the numbers of its ratings."""
    def generator():
        for rows in parts():
            yield (data.keys[rows][:, :, None],) + tuple(data.genres(rows)) + (data.label[rows],)

    def features(keys, indices, values, labels):
        shape = tf.stack([tf.shape(keys, out_type=tf.int64)[0], data.max_genres])
        return {"keys": keys, "genres": tf.SparseTensor(indices, values, shape), "labels": labels}

    def input_fn():
        return tf.data.Dataset.from_generator(
            generator, (tf.int64, tf.int64, tf.int64, tf.float32),
            ([None, len(movielens.FIELDS), 1], [None, 2], [None], [None])).map(features)
    return input_fn


def main():
    """Trains up to --steps, then scores the test ratings."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model_dir", required=True, help="folder of checkpoints and summaries, which all ranks see")
    parser.add_argument("--steps", type=int, default=528, help="where to end; 88 steps are an epoch")
    parser.add_argument("--save_steps", type=int, default=100, help="steps between checkpoints")
    add_arguments(parser)
    options = parser.parse_args()
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    data = movielens.load(movielens.fetch(options.data))
    train_rows, test_rows = data.split()

    estimator = tf.estimator.Estimator(
        model_fn, params=dict(vars(options), data=data), config=tf.estimator.RunConfig(
            options.model_dir, tf_random_seed=options.seed, save_checkpoints_steps=options.save_steps,
            session_config=tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)))
    saved = estimator.latest_checkpoint()
    done = 0 if saved is None else int(tf.train.load_variable(saved, "global_step"))

    def train_parts():
        step, epoch = 0, 0
        while True:
            epoch += 1
            for batch in batches(shuffled(train_rows, options.seed, epoch), options.batch_size):
                step += 1
                if step > done:  # the others were trained on before the checkpoint
                    yield part_of(batch, rank, ranks)

    def test_parts():
        return batches(test_rows, options.batch_size)  # all of them on every rank, for equal results

    estimator.train(input_of(data, train_parts), max_steps=options.steps)
    result = estimator.evaluate(input_of(data, test_parts))
    scores = [one["score"] for one in estimator.predict(input_of(data, test_parts))]
    if rank == 0:
        print("steps {} to {}: test AUC {:.4f} as the Estimator measures it, {:.4f} exactly".format(
            done, result["global_step"], result["auc"], auc(data.label[test_rows], np.array(scores))),
              flush=True)


if __name__ == "__main__":
    try:
        main()
    except movielens.DataError as problem:
        sys.exit("MovieLens-100k: {}".format(problem))
