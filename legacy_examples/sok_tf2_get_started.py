"""SparseOperationKit 1.x's get-started model for TensorFlow 2: only the import of sok names sok1x.

    mpiexec -np 2 python legacy_examples/sok_tf2_get_started.py

The model and the data of sok_get_started.py, in eager execution and tf.function: embedding tables are spread over the
ranks by sok; Horovod sums the dense layers' gradients.
"""
import argparse

import horovod.tensorflow as hvd
import tensorflow as tf
from sok_get_started import DemoModel, even_start, synthetic

import sok1x as sok


def batches(args):
    """This rank's share of the samples, in batches, again and again: sparse keys and labels."""
    dataset = tf.data.Dataset.from_tensor_slices(synthetic(args))
    dataset = dataset.shard(hvd.size(), hvd.rank()).repeat()
    for keys, labels in dataset.batch(args.global_batch_size // hvd.size(), drop_remainder=True).take(args.steps):
        keys = tf.reshape(keys, [-1, args.max_nnz])
        where = tf.where(tf.ones_like(keys, dtype=tf.bool))
        yield tf.SparseTensor(where, tf.gather_nd(keys, where), tf.shape(keys, out_type=tf.int64)), labels


def main():
    """Builds the model and trains it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--global_batch_size", type=int, default=512)
    parser.add_argument("--samples", type=int, default=16384)
    parser.add_argument("--vocabulary_size", type=int, default=1000)
    parser.add_argument("--max_vocabulary_size_per_gpu", type=int, default=1024)
    parser.add_argument("--slot_num", type=int, default=10)
    parser.add_argument("--max_nnz", type=int, default=5)
    parser.add_argument("--embedding_vec_size", type=int, default=16)
    parser.add_argument("--dense_layers", type=int, default=7)
    parser.add_argument("--units", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--even_start", action="store_true",
                        help="dense layers begin with the same numbers on every version of TensorFlow")
    args = parser.parse_args()
    hvd.init()
    tf.keras.utils.set_random_seed(args.seed)  # Keras draws first weights by a seed of its own

    sok.Init(global_batch_size=args.global_batch_size)
    model = DemoModel(args.max_vocabulary_size_per_gpu, args.slot_num, args.max_nnz, args.embedding_vec_size,
                      args.dense_layers, args.units)
    embedding_optimizer = tf.keras.optimizers.legacy.Adam(1e-3, epsilon=1e-8)
    dense_optimizer = tf.keras.optimizers.legacy.Adam(1e-3, epsilon=1e-8)

    @tf.function
    def train_step(keys, labels, first_batch):
        with tf.GradientTape() as tape:
            logits = model(keys, training=True)
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
            # Gradients are summed over the ranks, so every rank's loss divides by the global batch.
            loss = tf.reduce_sum(entropy) / args.global_batch_size
        embedding_vars, dense_vars = sok.split_embedding_variable_from_others(model.trainable_variables)
        embedding_gradients, dense_gradients = tape.gradient(loss, [embedding_vars, dense_vars])
        dense_gradients = [hvd.allreduce(gradient, op=hvd.Sum) for gradient in dense_gradients]
        with sok.OptimizerScope(embedding_vars):
            embedding_optimizer.apply_gradients(zip(embedding_gradients, embedding_vars))
        dense_optimizer.apply_gradients(zip(dense_gradients, dense_vars))
        if first_batch:
            hvd.broadcast_variables(dense_vars, root_rank=0)
            hvd.broadcast_variables(dense_optimizer.variables(), root_rank=0)
        return hvd.allreduce(loss, op=hvd.Sum)

    for step, (keys, labels) in enumerate(batches(args), 1):
        if step == 1:
            model(keys, training=False)  # makes the dense layers
            for variable, value in even_start(model.dense_layers + [model.out_layer], args.seed):
                if args.even_start:
                    variable.assign(value)
        value = float(train_step(keys, labels, step == 1))
        if hvd.rank() == 0 and (step % 10 == 0 or step == 1):
            print("step {}: loss {:.7f}".format(step, value), flush=True)


if __name__ == "__main__":
    main()
