"""SparseOperationKit's get-started model, as a script for SOK 1.x has it: only the import of sok names sok1x.

    mpiexec -np 2 python legacy_examples/sok_get_started.py

Ten slots of five keys each, vectors of 16 floats summed in each slot, seven dense layers of 1024 units and one of 1, on
synthetic keys. Embedding tables are spread over the ranks by sok; Horovod sums the dense layers' gradients.
"""
import argparse
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok


class DemoModel(tf.keras.Model):
    """Summed embeddings of the slots, side by side, through dense layers to one logit."""

    def __init__(self, max_vocabulary_size_per_gpu, slot_num, max_nnz, embedding_vec_size, dense_layers, units):
        super(DemoModel, self).__init__()
        self.slot_num, self.embedding_vec_size = slot_num, embedding_vec_size
        self.embedding_layer = sok.DistributedEmbedding(
            combiner="sum",
            max_vocabulary_size_per_gpu=max_vocabulary_size_per_gpu,
            embedding_vec_size=embedding_vec_size,
            slot_num=slot_num,
            max_nnz=max_nnz)
        self.dense_layers = [tf.keras.layers.Dense(units, activation="relu") for _ in range(dense_layers)]
        self.out_layer = tf.keras.layers.Dense(1, activation=None)

    def call(self, inputs, training=True):
        """`inputs`: tf.SparseTensor [B * slot_num, max_nnz]; returns logits [B, 1]."""
        hidden = self.embedding_layer(inputs, training=training)
        hidden = tf.reshape(hidden, [-1, self.slot_num * self.embedding_vec_size])
        for layer in self.dense_layers:
            hidden = layer(hidden)
        return self.out_layer(hidden)


def synthetic(args):
    """Random keys [samples, slot_num, max_nnz], and labels that depend on them."""
    random = np.random.RandomState(args.seed)
    keys = random.randint(0, args.vocabulary_size, [args.samples, args.slot_num, args.max_nnz])
    leaning = random.normal(size=args.vocabulary_size)
    labels = leaning[keys].sum(axis=(1, 2)) > 0
    return keys.astype(np.int64), labels.astype(np.float32)[:, np.newaxis]


def input_fn(args):
    """This rank's share of the samples, in batches, again and again: sparse keys and labels."""
    dataset = tf.data.Dataset.from_tensor_slices(synthetic(args))
    dataset = dataset.shard(hvd.size(), hvd.rank()).repeat()
    dataset = dataset.batch(args.global_batch_size // hvd.size(), drop_remainder=True).prefetch(1)
    keys, labels = tf.data.make_one_shot_iterator(dataset).get_next()
    keys = tf.reshape(keys, [-1, args.max_nnz])
    where = tf.where(tf.ones_like(keys, dtype=tf.bool))
    return tf.SparseTensor(where, tf.gather_nd(keys, where), tf.shape(keys, out_type=tf.int64)), labels


def even_start(layers, seed):
    """(variable, its first value) of dense layers, whatever a version of TensorFlow draws."""
    random = np.random.RandomState(seed)
    for layer in layers:
        kernel, bias = layer.weights
        yield kernel, (random.uniform(-1, 1, kernel.shape.as_list()) / np.sqrt(int(kernel.shape[0]))).astype(np.float32)
        yield bias, np.zeros(bias.shape.as_list(), np.float32)


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
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    tf.set_random_seed(args.seed)

    sok_init = sok.Init(global_batch_size=args.global_batch_size)
    model = DemoModel(args.max_vocabulary_size_per_gpu, args.slot_num, args.max_nnz, args.embedding_vec_size,
                      args.dense_layers, args.units)
    keys, labels = input_fn(args)
    logits = model(keys, training=True)
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    # Gradients are summed over the ranks, so every rank's loss divides by the global batch.
    loss = tf.reduce_sum(entropy) / args.global_batch_size

    embedding_vars, dense_vars = sok.split_embedding_variable_from_others(model.trainable_variables)
    gradients = tf.gradients(loss, embedding_vars + dense_vars)
    embedding_gradients, dense_gradients = gradients[:len(embedding_vars)], gradients[len(embedding_vars):]
    dense_gradients = [hvd.allreduce(gradient, op=hvd.Sum) for gradient in dense_gradients]
    with sok.OptimizerScope(embedding_vars):
        embedding_step = tf.train.AdamOptimizer(1e-3).apply_gradients(zip(embedding_gradients, embedding_vars))
    dense_step = tf.train.AdamOptimizer(1e-3).apply_gradients(zip(dense_gradients, dense_vars))
    step_op = tf.group(embedding_step, dense_step)
    total_loss = hvd.allreduce(loss, op=hvd.Sum)

    with tf.Session() as sess:
        sess.run(sok_init)
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        sess.run(hvd.broadcast_global_variables(0))
        if args.even_start:
            for variable, value in even_start(model.dense_layers + [model.out_layer], args.seed):
                variable.load(value, sess)
        began = time.time()
        for step in range(1, args.steps + 1):
            value, _ = sess.run([total_loss, step_op])
            if hvd.rank() == 0 and (step % 10 == 0 or step == 1):
                print("step {}: loss {:.7f}, {:.0f} samples/s".format(
                    step, value, step * args.global_batch_size / (time.time() - began)), flush=True)


if __name__ == "__main__":
    main()
