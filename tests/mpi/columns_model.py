"""Feature columns of every kind, with tables of ours and as TensorFlow's, of the same values: for program_columns."""
import os

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

WORDS = ["w{}".format(number) for number in range(12)]
KEYS = 30
ours = sok.feature_column
stock = tf.feature_column


def values_of(random):
    """An initializer whose matrix is the same whoever calls it."""
    state = random.randint(2 ** 31)

    def initial(shape, dtype=None, partition_info=None):
        return tf.constant(np.random.RandomState(state).uniform(-1, 1, shape), tf.float32)
    return initial


def vocabulary_file(folder):
    path = os.path.join(folder, "words_{}.txt".format(os.getpid()))
    with open(path, "w") as file:
        file.write("\n".join(WORDS[:8]) + "\n")
    return path


def columns(side, folder, seed):
    """Dense columns by name. side: `ours` or `stock`, where keys are identities and words of a vocabulary."""
    random = np.random.RandomState(seed)
    words = stock.categorical_column_with_vocabulary_list
    buckets = stock.categorical_column_with_hash_bucket("h", 20)
    numbers = stock.bucketized_column(stock.numeric_column("n", [2]), [-0.5, 0.0, 0.5])
    identities = [stock.categorical_column_with_identity(name, 9) for name in ("s", "t")]
    if side is ours:
        keys = ours.categorical_column_with_embedding("a", tf.int64)
        strings = ours.categorical_column_with_embedding("b")
    else:
        keys, strings = stock.categorical_column_with_identity("a", KEYS), words("b", WORDS)
    made = {
        "keys": side.embedding_column(keys, 4, initializer=tf.constant_initializer(0.25)),
        "strings": side.embedding_column(strings, 3, "sum", tf.constant_initializer(-0.5)),
        "norm": side.embedding_column(stock.categorical_column_with_identity("i", 10, 0), 5, "mean",
                                      values_of(random), max_norm=0.9),
    }
    for name, categorical, combiner in (
            ("buckets", buckets, "sqrtn"), ("list", words("v", WORDS[:6]), "mean"),
            ("file", stock.categorical_column_with_vocabulary_file("f", vocabulary_file(folder), 8, 3), "sum"),
            ("numbers", numbers, "mean"), ("crossed", stock.crossed_column(["h", numbers], 25), "mean"),
            ("weighted", stock.weighted_categorical_column(stock.categorical_column_with_hash_bucket(
                "w", 20), "weights"), "mean"),
            ("weighted_sum", stock.weighted_categorical_column(stock.categorical_column_with_hash_bucket(
                "y", 20), "weights"), "sum"),
            ("weighted_root", stock.weighted_categorical_column(stock.categorical_column_with_hash_bucket(
                "z", 20), "weights"), "sqrtn")):
        made[name] = side.embedding_column(categorical, 2 + len(name) % 3, combiner, values_of(random))
    made["shared"], made["shared_too"] = side.shared_embedding_columns(identities, 3, initializer=values_of(random))
    return made


def batch(random, samples):
    """Features of so many samples: arrays, and of what has weights (indices, values, weights) of a sparse matrix."""
    def some(choices, width):
        return random.choice(choices, [samples, width])

    places = np.argwhere(random.uniform(size=[samples, 4]) < 0.5)
    found = {"a": some(range(-1, KEYS), 3), "b": some(WORDS + [""], 2), "h": some(WORDS, 2), "v": some(WORDS + [""], 3),
             "f": some(WORDS, 2), "i": some(range(12), 2), "n": random.uniform(-1, 1, [samples, 2]).astype(np.float32),
             "s": some(range(9), 1), "t": some(range(-1, 9), 3)}
    weights = random.choice([-1.0, 0.0, 0.5, 2.0], len(places)).astype(np.float32)
    found["sparse"] = places, random.choice(WORDS, len(places)), weights
    found["label"] = random.uniform(-1, 1, samples).astype(np.float32)
    return found


def part(found, first, last):
    """The samples from first to last of a batch."""
    places, words, weights = found["sparse"]
    mine = (places[:, 0] >= first) & (places[:, 0] < last)
    rest = {name: value[first:last] for name, value in found.items() if name != "sparse"}
    return dict(rest, sparse=(places[mine] - [first, 0], words[mine], weights[mine]))


class Inputs:
    """Placeholders for a batch."""

    def __init__(self, like):
        self._dense = {name: tf.placeholder(tf.string if value.dtype.kind == "U" else value.dtype,
                                            [None] + list(value.shape[1:]), name)
                       for name, value in like.items() if name != "sparse"}
        self._sparse = {name: tf.sparse_placeholder(dtype, [None, 4], name)
                        for name, dtype in (("w", tf.string), ("weights", tf.float32))}
        words = self._sparse["w"]
        self.features = dict(self._dense, **self._sparse, y=words, z=words)
        self.label = self.features.pop("label")

    def feed(self, found):
        places, words, weights = found["sparse"]
        shape = [len(found["label"]), 4]
        fed = {self._dense[name]: found[name] for name in self._dense}
        fed[self._sparse["w"]] = tf.SparseTensorValue(places.reshape([-1, 2]), words.astype(object), shape)
        fed[self._sparse["weights"]] = tf.SparseTensorValue(places.reshape([-1, 2]), weights, shape)
        return fed
