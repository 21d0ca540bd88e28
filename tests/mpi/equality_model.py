"""The model and the data of the equality test, and the same model in stock TensorFlow."""
import collections

import numpy as np
import stock_lazy_adam
import tensorflow.compat.v1 as tf

SLOTS, KEYS, MOST_KEYS = 3, 2, 4
GLOBAL_BATCH, STEPS, VOCABULARY = 24, 16, 60

Case = collections.namedtuple(
    "Case", "name rows_per_rank dense_dim sparse_dim hashtable key_dtype combiner exchange initializer optimizers")
_EVERY = ("SGD", "Adagrad", "Adam", "LazyAdam")
CASES = (
    Case("hash", VOCABULARY, 8, 5, True, "int64", "mean", "auto", None, _EVERY),
    Case("direct", VOCABULARY, 3, 4, False, "int32", "sum", "all2all", "normal", ("SGD", "LazyAdam")),
    Case("reduce_scatter", VOCABULARY, 4, 7, True, "uint32", "Mean", "reduce_scatter", "glorot_uniform",
         ("SGD", "Adam")),
    Case("reduce_scatter_sum", VOCABULARY, 1, 17, True, "int64", "SUM", "reduce_scatter", None, ("LazyAdam",)),
)


def optimizer(name):
    """A new optimizer; rates small enough that training does not amplify rounding, large enough to show errors."""
    return {"SGD": lambda: tf.train.GradientDescentOptimizer(0.05),
            "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
            "Adam": lambda: tf.train.AdamOptimizer(0.01),
            "LazyAdam": lambda: stock_lazy_adam.LazyAdamOptimizer(0.01)}[name]()


def keys(case, seed):
    """The key of each of the vocabulary's ids, extremes of the key type among them."""
    random = np.random.RandomState(seed)
    info = np.iinfo(case.key_dtype)
    if not case.hashtable:
        return random.permutation(VOCABULARY).astype(case.key_dtype)
    chosen = set([info.min, info.max, 0, info.max - 1, info.min + 1])
    while len(chosen) < VOCABULARY:
        chosen.add(int(random.randint(info.min, info.max, dtype=case.key_dtype)))
    return random.permutation(np.array(sorted(chosen), case.key_dtype))


def batch(seed, step):
    """A global batch in ids: dense [G, S, H], bags: G x S lists of 0 to 4 ids (duplicates and empty ones), labels."""
    random = np.random.RandomState([seed, step])
    def skewed(*size):
        return (VOCABULARY * random.uniform(size=size) ** 3).astype(np.int64)
    dense = skewed(GLOBAL_BATCH, SLOTS, KEYS)
    bag_ids = np.empty((GLOBAL_BATCH, SLOTS), object)
    for i in np.ndindex(bag_ids.shape):
        bag_ids[i] = skewed(random.randint(0, MOST_KEYS + 1))
    return dense, bag_ids, random.uniform(size=GLOBAL_BATCH).astype(np.float32)


def share(seed, step, rank, ranks):
    """This rank's samples: uneven shares that change from step to step; some are empty."""
    random = np.random.RandomState([seed, step, 1])
    cuts = np.sort(random.randint(0, GLOBAL_BATCH + 1, ranks - 1))
    if ranks > 1 and step % 5 == 0:
        cuts[0] = 0  # rank 0 has no sample at all
    edges = np.concatenate([[0], cuts, [GLOBAL_BATCH]])
    return slice(edges[rank], edges[rank + 1])


def bags(bag_ids, key_of_id):
    """(indices, values, dense_shape) of a SparseTensor's rows, one for each slot of each sample."""
    flat = bag_ids.ravel()
    indices = [(row, column) for row, ids in enumerate(flat) for column in range(len(ids))]
    values = np.concatenate([key_of_id[ids] for ids in flat] + [key_of_id[:0]])
    return np.array(indices, np.int64).reshape(-1, 2), values, [len(flat), MOST_KEYS]


def one_each(key_of_id):
    """Every key as a bag of its own, padded to whole samples with empty bags."""
    count = len(key_of_id)
    indices = np.stack([np.arange(count), np.zeros(count)], 1).astype(np.int64)
    return indices, key_of_id, [-(-count // SLOTS) * SLOTS, MOST_KEYS]


def padded(key_of_id):
    """Every key in a dense batch [B, S, H], the last ones repeated."""
    whole = SLOTS * KEYS
    return np.resize(key_of_id, (-(-len(key_of_id) // whole), SLOTS, KEYS))


def sparse(indices, values, dense_shape):
    return tf.SparseTensorValue(indices, values, dense_shape)


def loss(dense, combined, labels):
    """The batch's part of the loss: sums over its samples, divided by the global batch."""
    random = np.random.RandomState(5)
    def project(value):
        width = int(np.prod(value.shape.as_list()[1:]))
        weights = random.normal(size=[width, 1]).astype(np.float32)
        return tf.matmul(tf.reshape(value, [-1, width]), weights)[:, 0]
    logits = tf.tanh(project(dense) + project(combined) + 0.1)
    return tf.reduce_sum(tf.square(logits - labels)) / GLOBAL_BATCH


def train_stock(case, optimizer_name, seed, dense0, sparse0):
    """The same training with `tf.nn.embedding_lookup` and `embedding_lookup_sparse`, one process, whole batches."""
    with tf.Graph().as_default():
        tables = [tf.get_variable(name, initializer=value, use_resource=True)
                  for name, value in (("dense", dense0), ("sparse", sparse0))]
        ids = tf.placeholder(tf.int64, [None, SLOTS, KEYS])
        labels = tf.placeholder(tf.float32, [None])
        bag = tf.sparse_placeholder(tf.int64)
        # safe_embedding_lookup_sparse gives empty bags zeros, as we promise.
        combined = tf.nn.safe_embedding_lookup_sparse([tables[1]], bag, combiner=case.combiner.lower())
        combined = tf.reshape(combined, [-1, SLOTS, case.sparse_dim])
        value = loss(tf.nn.embedding_lookup(tables[0], ids), combined, labels)
        train = optimizer(optimizer_name).minimize(value)
        losses = []
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for step in range(STEPS):
                dense_ids, bag_ids, wanted = batch(seed, step)
                feed = {ids: dense_ids, labels: wanted, bag: sparse(*bags(bag_ids, np.arange(VOCABULARY)))}
                losses.append(sess.run([value, train], feed)[0])
            return losses, sess.run(tables)
