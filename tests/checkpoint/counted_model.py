"""A model whose whole state is a function of the number of its trainings, exactly, for the programs of the fault tests.

Every training trains every key that is there, so that after n trainings of a key with weight w its row is
-w n (n + 1) / 2 and its Momentum slot is w n: whole numbers, which float32 holds exactly. New keys come all along. The
global step goes on with every second training: the checkpoint of a step can be replaced by one with other values.
"""
import os

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.commands import verify
from sok1x.checkpoint.files import folders, shard_names
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted

FIRST_KEYS, KEYS_A_TRAINING, MANY = 20, 2, 1000
HASHED, DIRECT = "EmbeddingVariable", "EmbeddingVariable_1"


def hashed_keys(numbers):
    """The hash table's keys, by the numbers 0, 1, … in which they come: arrays or tensors."""
    return numbers * 1000003 - 5


def numbers_of(hashed):
    """The numbers of such keys."""
    return (hashed + 5) // 1000003


def times(numbers, trained):
    """How often keys have been trained after so many trainings."""
    return np.maximum(0, trained - np.maximum(0, np.asarray(numbers) - FIRST_KEYS + 1) // KEYS_A_TRAINING)


def weights(numbers):
    """What a training adds to a key's slot."""
    return 1 + np.asarray(numbers) % 5


def expected(part, numbers, trained, dim):
    """A part's values for keys, by their numbers."""
    n, w = times(numbers, trained), weights(numbers)
    if part == shard_names.STAMPS:
        return np.where(n > 0, (trained - 1) // 2 + 1, 0).astype(np.int32)
    values = -w * n * (n + 1) / 2 if part == shard_names.ROWS else w * n
    return np.repeat(values[:, None], dim, 1).astype(np.float32)


class Model:
    """The graph: a table with a hash index, one by row numbers, a dense variable.

    Args:
        keys: the number of keys that come in time, of each table; of many the hash table grows, and may forget.
        dim: D.
        ranks: N; each rank's shards have room for all keys.
        dense: length of the dense variable.
    """

    def __init__(self, keys, dim, ranks, dense=10):
        self.total, self.dim, self.ranks = keys, dim, ranks
        self.numbers = tf.placeholder(tf.int64, [None])
        room = dict(max_vocabulary_size_per_gpu=keys) if keys < MANY else dict(
            max_vocabulary_size_per_gpu=None, init_capacity=8, max_capacity=keys, evict_strategy="lru")
        self.hashed = sok.All2AllDenseEmbedding(embedding_vec_size=dim, slot_num=1, nnz_per_slot=1,
                                                embedding_initializer="zeros", **room)
        self.direct = sok.All2AllDenseEmbedding(-(-keys // ranks), dim, 1, 1, use_hashtable=False,
                                                embedding_initializer="zeros")
        weight = tf.cast(1 + self.numbers % 5, tf.float32)[:, None]
        loss = tf.add_n([tf.reduce_sum(rows * weight) for rows in self._rows(self.numbers, True)])
        number = tf.train.get_or_create_global_step()
        self.trained = tf.get_variable("trained", [], tf.int64, tf.zeros_initializer(), trainable=False)
        filled = tf.get_variable("filled", [dense], tf.float32, tf.zeros_initializer(), trainable=False)
        tables = [self.hashed.embedding_variable, self.direct.embedding_variable]
        applied = tf.train.MomentumOptimizer(1.0, 1.0).minimize(loss, var_list=tables)
        with tf.control_dependencies([applied]):
            count = self.trained.assign_add(1)
            fill = filled.assign(tf.fill([dense], tf.cast(count, tf.float32)))
            self.train = tf.group(number.assign(count // 2), fill)
        every = tf.range(keys, dtype=tf.int64)
        self.values = self._rows(every, False) + [self.trained, filled, number]

    def _rows(self, numbers, training):
        return [tf.reshape(layer(tf.reshape(keys, [-1, 1, 1]), training=training), [-1, self.dim])
                for layer, keys in ((self.hashed, hashed_keys(numbers)), (self.direct, numbers))]

    def feed(self, rank, trained):
        """This rank's share of the keys of the next training."""
        numbers = np.arange(self.total)
        return {self.numbers: numbers[times(numbers, trained + 1) > 0][rank::self.ranks]}

    def check(self, values):
        """Raises AssertionError unless `self.values` are a function of the number of trainings, which it returns."""
        hashed, direct, trained, filled, number = values
        rows = expected(shard_names.ROWS, np.arange(self.total), trained, self.dim)
        np.testing.assert_array_equal(hashed, rows)
        np.testing.assert_array_equal(direct, rows)
        np.testing.assert_array_equal(filled, np.full(filled.shape, trained))
        assert number == trained // 2
        return int(trained)


def session(folder, hooks, **options):
    """A MonitoredTrainingSession that restores from `folder`."""
    return tf.train.MonitoredTrainingSession(
        checkpoint_dir=folder, save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None,
        hooks=[sok.InitHook()] + hooks, **options)


def check_folder(directory, ranks=1):
    """The number of trainings in the last complete checkpoint of a folder, or None; every value of it is checked.

    Args:
        directory: the checkpoint_dir.
        ranks: on how many ranks it is read.
    """
    found = folders.latest(directory)
    return None if found is None else check_checkpoint(found, ranks)


def check_checkpoint(found, ranks=1):
    """The number of trainings in a checkpoint, every value of it checked, as so many ranks read them."""
    assert list(verify.faults(found.folder)) == []
    reader = tf.train.load_checkpoint(found.prefix)
    trained = int(reader.get_tensor("trained"))
    assert int(reader.get_tensor("global_step")) == found.step == trained // 2
    assert (reader.get_tensor("filled") == trained).all()
    checkpoint = Checkpoint(found.folder)
    for name in (HASHED, DIRECT):
        numbers = [_check_table(checkpoint, name, rank, ranks, trained) for rank in range(ranks)]
        together = np.sort(np.concatenate(numbers))
        np.testing.assert_array_equal(together, np.arange(len(together)))
        direct = checkpoint.manifest.ranks * checkpoint.table(DIRECT).rows
        assert len(together) == (direct if name == DIRECT else np.count_nonzero(times(np.arange(direct), trained)))
    return trained


def _check_table(checkpoint, name, rank, ranks, trained):
    """Checks one rank's rows of a table; returns the numbers of its keys."""
    table = checkpoint.table(name)
    parts = {part: (entry.dtype, entry.row_shape) for part, entry in table.parts.items()
             if part not in (shard_names.KEYS, shard_names.UNUSED) + shard_names.SCORES}
    assert len(parts) == 3, "rows, stamps and the slot"
    source = TableSource(checkpoint, name, rank, ranks,
                         Wanted(table.dim, table.rows * checkpoint.manifest.ranks, table.use_hashtable,
                                table.key_dtype, parts))
    source.check()
    numbers = [np.zeros([0], np.int64)]
    for keys, values in source.chunks():
        numbers.append(numbers_of(keys) if table.use_hashtable else keys)
        for part, found in values.items():
            np.testing.assert_array_equal(found, expected(part, numbers[-1], trained, table.dim), err_msg=part)
    return np.concatenate(numbers)


def leftovers(directory):
    """Names of what saves left that did not get to their end."""
    return sorted(name for name in os.listdir(directory) if name.endswith(".tmp"))
