"""The wide-and-deep click model that demo.py, monitored.py and estimator.py train, and what they need around it."""
import movielens
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

# TensorFlow 1.15 warns of 2.0 at every other call.
tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()

DIM, HIDDEN, L2 = 16, (128, 64), 0.03


def contribs_lazy_adam(rate):
    """Of TensorFlow 1.15; 2 has no tf.contrib."""
    try:
        from tensorflow.contrib.opt import LazyAdamOptimizer
    except ImportError:
        raise SystemExit("--optimizer lazyadam is of tf.contrib, which TensorFlow {} has not: take sok_lazyadam".format(
            tf.__version__)) from None
    return LazyAdamOptimizer(rate)


OPTIMIZERS = {
    "lazyadam": lambda: contribs_lazy_adam(0.002),
    "adam": lambda: tf.train.AdamOptimizer(0.002),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.2, initial_accumulator_value=1e-4),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.002),
    "momentum": lambda: tf.train.MomentumOptimizer(0.5, 0.9),
    "sgd": lambda: tf.train.GradientDescentOptimizer(2.0),
    "keras_adam": lambda: tf.keras.optimizers.Adam(0.002),
    "keras_adagrad": lambda: tf.keras.optimizers.Adagrad(0.2, initial_accumulator_value=1e-4),
    "keras_rmsprop": lambda: tf.keras.optimizers.RMSprop(0.002),
    "keras_momentum": lambda: tf.keras.optimizers.SGD(0.5, 0.9),
    "keras_sgd": lambda: tf.keras.optimizers.SGD(2.0),
    "sok_lazyadam": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.002),
    "sok_keras_adam": lambda: sok.tf.keras.optimizers.Adam(0.002),
    "sok_adam": lambda: sok.optimizers.Adam(learning_rate=0.002),
}


def make_optimizers(name):
    """Two optimizers: for the tables, and for the dense variables, which sok.optimizers.Adam does not take."""
    return OPTIMIZERS[name](), OPTIMIZERS["keras_adam" if name == "sok_adam" else name]()


def add_arguments(parser):
    """The options that all scripts have."""
    parser.add_argument("--batch_size", type=int, default=1024, help="samples of all ranks in a step")
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS),
                        default="lazyadam" if tf.__version__.startswith("1.") else "sok_lazyadam")
    parser.add_argument("--seed", type=int, default=1, help="of first values and of the order of samples")
    parser.add_argument("--data", default=movielens.DEFAULT_FOLDER, help="folder of MovieLens-100k; fetched if missing")


class WideAndDeep:
    """Builds the graph for this rank's part of a batch: B samples of seven fields with one key each, and genres.

    loss    float32 []   this rank's part of the global batch's loss
    score   float32 [B]  the predicted probability that the rating is 4 or more

    The batch is fed; or it is `inputs`, (keys, genres, labels) as tensors, and `training` a bool.
    """

    def __init__(self, data, global_batch_size, inputs=None, training=None):
        self.data = data
        fields = len(movielens.FIELDS)
        # Training gives unseen keys a row; evaluation must not.
        if inputs is not None:
            (self.keys, self.genres, self.labels), self.training = inputs, training
        else:
            self.keys = tf.placeholder(tf.int64, [None, fields, 1], name="keys")
            self.genres = tf.sparse_placeholder(tf.int64, [None, data.max_genres], name="genres")
            self.labels = tf.placeholder(tf.float32, [None], name="labels")
            self.training = tf.placeholder_with_default(False, [], name="training")

        # Wide: a bias for every key. Deep: a vector for every key, all fields in one table.
        wide = sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=data.num_keys, embedding_vec_size=1, slot_num=fields, nnz_per_slot=1,
            embedding_initializer="zeros", name="wide")
        deep = sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=data.num_keys, embedding_vec_size=DIM, slot_num=fields, nnz_per_slot=1,
            name="deep")
        # A film has one genre or several: one slot with up to max_genres keys, averaged.
        genre = sok.DistributedEmbedding(
            combiner="mean", max_vocabulary_size_per_gpu=data.vocabulary["genre"], embedding_vec_size=DIM, slot_num=1,
            max_nnz=data.max_genres, name="genre")

        biases = wide(self.keys, training=self.training)                                 # [B, 7, 1, 1]
        vectors = tf.concat([deep(self.keys, training=self.training)[:, :, 0],           # [B, 7, D]
                             genre(self.genres, training=self.training)], axis=1)        # [B, 1, D]
        hidden = tf.reshape(vectors, [-1, (fields + 1) * DIM])
        with tf.variable_scope("dense", use_resource=True):  # Keras' optimizers take no others
            # With seeds of their own the first values are the same in every script, whatever else its graph has.
            first = [tf.glorot_uniform_initializer(seed=number) for number in range(len(HIDDEN) + 1)]
            for number, units in enumerate(HIDDEN):
                hidden = tf.layers.dense(hidden, units, activation=tf.nn.relu, kernel_initializer=first[number])
            logits = tf.layers.dense(hidden, 1, kernel_initializer=first[-1])[:, 0] + tf.reduce_sum(
                biases, axis=[1, 2, 3])
        self.score = tf.sigmoid(logits)

        # A sum over this rank's samples, divided by the batch of all ranks: these parts add up to the loss of the
        # global batch, so gradients that are summed over the ranks are its gradients, on any number of ranks and
        # however the batch is divided among them. The layers sum those of their tables; dense ones must be summed too.
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.labels, logits=logits)
        penalty = L2 * tf.reduce_sum(tf.square(vectors))
        self.loss = tf.reduce_sum(entropy) / global_batch_size
        self.objective = self.loss + penalty / global_batch_size

    def feed(self, rows, training):
        """What to feed for these ratings."""
        indices, values = self.data.genres(rows)
        return {self.keys: self.data.keys[rows][:, :, np.newaxis],
                self.genres: tf.SparseTensorValue(indices, values, [len(rows), self.data.max_genres]),
                self.labels: self.data.label[rows], self.training: training}

    def evaluate(self, session, rows, batch_size, rank, ranks):
        """Labels and scores of this rank's part of `rows`. All ranks must call it: each owns a part of the tables."""
        parts = [part_of(batch, rank, ranks) for batch in batches(rows, batch_size)]
        scores = [session.run(self.score, self.feed(part, training=False)) for part in parts]
        return self.data.label[np.concatenate(parts)], np.concatenate(scores)


def batches(rows, batch_size):
    """The global batches, the same on every rank and on any number of ranks."""
    return [rows[start:start + batch_size] for start in range(0, len(rows), batch_size)]


def part_of(batch, rank, ranks):
    """This rank's part of a global batch; parts may differ in length."""
    return np.array_split(batch, ranks)[rank]


def shuffled(rows, seed, epoch):
    """The order of an epoch's samples, the same on every rank."""
    return np.random.RandomState([seed, epoch]).permutation(rows)


def auc(labels, scores):
    """Area under the ROC curve, exactly: the share of (positive, negative) pairs in the right order, ties half."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[place]  # mean rank, from 1, of equal scores
    positives = float(np.sum(labels > 0))
    negatives = len(labels) - positives
    return (rank[labels > 0].sum() - positives * (positives + 1) / 2) / (positives * negatives)
