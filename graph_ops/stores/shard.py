"""The owner's side of every lookup: keys of this rank's shard to rows, and gradients of rows to one per row."""
import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import fill, hash_index, row_init, row_numbers, segment_sum, unique
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.gradients import shard_gradients
from sok1x.graph_ops.stores import known_rows, stamps

INDEX, COUNT = 1, 2  # the index's place among a table's variables; the rows come first


def make_distinct(request, keys, inverse):
    """Numbers a batch's distinct keys in order of first appearance.

    Args:
      keys: `Array` of any key type, any shape. inverse: int32, filled: which distinct key each position has.

    Returns:
      (the distinct keys, int64, at the front of an `Array`; how many).
    """
    values = request.temporary("int64", keys.size)
    scratch = request.temporary("uint8", unique.scratch_bytes(keys.size))
    return values, unique.unique(keys.pointer, keys.dtype, keys.size, values.pointer, inverse.pointer,
                                 scratch.pointer)


def check_range(table, world, keys, count, first_position):
    """Raises where a key of a table without index has no row.

    Args:
      keys: int64 [count]. first_position: finds where in the batch keys[i] stands first, given i, for the message.
    """
    if table.use_hashtable:
        return
    limit = table.rows * world.size
    bad = row_numbers.first_out_of_range(keys.pointer, count, limit)
    if bad < 0:
        return
    raise CallError(INVALID_ARGUMENT, (
        "embedding table '{}' on rank {}: got key {} at position {} of the batch, expected keys in [0, {}) "
        "(max_vocabulary_size_per_gpu {} x {} ranks, use_hashtable=False); raise max_vocabulary_size_per_gpu, or set "
        "use_hashtable=True to take any key").format(
            table.name, world.rank, int(keys.read()[bad]), first_position(bad), limit, table.rows, world.size))


class Found:
    """Rows of distinct keys. rows: int32 [u], -1 for a key without one. read_from: int32 [u], where to read values
    (differs from rows only for keys that an evaluation has not found). missing: how many have no row."""

    def __init__(self, rows, read_from, missing):
        self.rows = rows
        self.read_from = read_from
        self.missing = missing


def find(request, table, world, variables, keys, count, rows):
    """Rows of `keys` without changing anything; `rows` int32 [count] is filled."""
    if not table.use_hashtable:
        row_numbers.direct(keys.pointer, count, world.size, rows.pointer)
        return Found(rows, rows, 0)
    missing = hash_index.find(variables[INDEX].pointer, variables[INDEX].shape[0], keys.pointer, count,
                              rows.pointer)
    read_from = rows
    if missing and table.by_row:
        # A Keras initializer's values are in the rows not yet in use: read those that these keys would get.
        read_from = request.temporary("int32", count)
        row_numbers.number_missing(rows.pointer, count, int(variables[COUNT].read()), table.rows, read_from.pointer)
    return Found(rows, read_from, missing)


def find_or_insert(request, table, world, variables, keys, count, rows):
    """Rows of `keys`; a new key gets the next free row, in the order of `keys`, with its initial values.

    `variables` end with the table's stamps and clock.
    All ranks that take part in an exchange call it together: if one shard is full, none changes.

    Raises:
      CallError: RESOURCE_EXHAUSTED, agreed on by all ranks, before anything is written.
    """
    found = find(request, table, world, variables, keys, count, rows)
    if not table.use_hashtable:
        return found
    used = int(variables[COUNT].read()) if found.missing else 0
    code, message = 0, ""
    if used + found.missing > table.rows:
        code, message = RESOURCE_EXHAUSTED, (
            "embedding table '{}' is full on rank {}: {} of {} rows (max_vocabulary_size_per_gpu) are in use and the "
            "batch has {} new keys; nothing was changed. Raise max_vocabulary_size_per_gpu, or train on more "
            "ranks").format(table.name, world.rank, used, table.rows, found.missing)
    agree(world, code, message)
    if not found.missing:
        return found
    inserted = hash_index.insert(variables[INDEX].pointer, variables[INDEX].shape[0], keys.pointer, count,
                                 rows.pointer, used)
    if not table.by_row:
        new_keys = request.temporary("int64", inserted)
        row_numbers.collect_new(keys.pointer, rows.pointer, count, used, new_keys.pointer)
        write_initial_rows(table, world, new_keys, inserted, 0, variables[0].pointer + used * table.dim * 4)
    fill.fill_int64(variables[COUNT].pointer, 1, used + inserted)
    stamps.stamp_new(request, table, variables, used, inserted)
    return Found(rows, rows, 0)


def agree(world, code=0, message=""):
    """Raises on all ranks where one of them says that it cannot insert its keys; all call it in one exchange."""
    if world.size == 1:
        if code:
            raise CallError(code, message)
        return
    failed = world.communicator.agree(code, message)
    if failed is not None:
        raise CallError(failed.code, str(failed), agreed=True)


def fill_unseen(request, table, world, keys, found, inverse, length, values):
    """Overwrites values [length, D], float32 or float16, with initial rows where the key asked for has no row.

    Args:
      keys: int64 [u], distinct. found: their rows. inverse: int32 [length], which of them each value belongs to.
    """
    if not found.missing or table.by_row:
        return
    asked = request.temporary("int64", length)
    rows = request.temporary("int32", length)
    row_numbers.look_up_int64(keys.pointer, inverse.pointer, length, asked.pointer)
    row_numbers.look_up(found.rows.pointer, inverse.pointer, length, rows.pointer)
    write_initial_rows(table, world, asked, length, rows.pointer, values.pointer, values.dtype)


def fill_unseen_distinct(table, world, keys, found, count, values):
    """As `fill_unseen`, where values float32 [count, D] belong to the distinct keys themselves."""
    write_initial_rows(table, world, keys, count, found.rows.pointer, values.pointer)


def write_initial_rows(table, world, keys, count, only_where_negative, out, dtype="float32"):
    """The initial rows of keys int64 [count] at `out`; with a pointer to int32 [count], only where that is negative."""
    kind, a, b = table.distribution(world.size)
    row_init.initial_rows(world.arguments["seed"], table.identity, keys.pointer, count, table.dim, kind, a, b,
                          only_where_negative, out, dtype)


def rows_are_known(table, training):
    """Whether, as the graph shows already, every key that is looked up has a row.

    Then the rows that the forward op found are the gradient's indices as they are, and what optimizers do with
    indices alone (as TensorFlow's making them distinct) need not wait for the gradient.
    """
    return training is True or not table.use_hashtable


def gradient_slices(table, call, known_rows):
    """The `tf.IndexedSlices` of a lookup's gradient.

    Args:
      call: makes the backward op, given its outputs' dtypes and shapes: values, and indices where they are not known.
      known_rows: the forward op's `rows`, int32 [u], if `rows_are_known`; else None.
    """
    dtypes, shapes = [tf.float32, tf.int32], [[None, table.dim], [None]]
    outputs = call(dtypes[:1], shapes[:1]) if known_rows is not None else call(dtypes, shapes)
    indices = outputs[1] if known_rows is None else known_rows
    shard_gradients.add(table.name, outputs[0], indices)
    # int32, as of TensorFlow's own gather: in a branch it is merged with TensorFlow's zeros of the other branch.
    return tf.IndexedSlices(outputs[0], indices, tf.constant([table.rows, table.dim], tf.int32))


def check_gradient(table, world, gradient, count):
    """Raises where a lookup's gradient was given an `Array` that does not have the embeddings' `count` rows."""
    if gradient.size != count * table.dim or gradient.dtype not in ("float16", "float32"):
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on rank {}: got a gradient of {} and shape {} for a lookup's embeddings, expected "
            "as many numbers as these have, {} x {}, of float16 or float32").format(
                table.name, world.rank, gradient.dtype, list(gradient.shape), count, table.dim))


class Kept:
    """Which of a lookup's rows its gradient has: all, or those of the keys that have a row.

    Attributes:
      count: how many. rows: int32 [count], at the front of an `Array`.
    """

    def __init__(self, request, rows, rows_known):
        self._request, self._number = request, None
        self.count, self.rows = rows.size, rows
        if rows_known:
            return
        self.rows, number = request.temporary("int32", rows.size), request.temporary("int32", rows.size)
        self.count = row_numbers.compact(rows.pointer, rows.size, self.rows.pointer, number.pointer)
        if self.count != rows.size:
            self._number = number

    def places(self, inverse):
        """inverse int32 [length], which of the lookup's rows each position has, renumbered: -1 where it was dropped."""
        if self._number is None:
            return inverse
        renumbered = self._request.temporary("int32", inverse.size)
        row_numbers.look_up(self._number.pointer, inverse.pointer, inverse.size, renumbered.pointer)
        return renumbered


def without_unknown(request, table, rows, inverse, rows_known):
    """Drops keys without a row from a gradient's sums, and writes output 1, the rows that are left.

    Args:
      rows: int32 [u], -1 for a key without a row. inverse: int32 [length], which of `rows` each position belongs to.
      rows_known: there is none without, and no output 1.

    Returns:
      (how many rows are left, inverse renumbered to them: -1 where the row was dropped).
    """
    kept = Kept(request, rows, rows_known)
    if not rows_known:
        indices = request.output(1, "int32", (kept.count,))
        row_numbers.look_up(kept.rows.pointer, 0, kept.count, indices.pointer)
        known_rows.note(request, table, indices)
    return kept.count, kept.places(inverse)


def summed_by_row(request, table, gradients, segments, rows, rows_known):
    """Writes IndexedSlices' values float32 [u, D] and, where they are not known, their indices int32 [u], distinct.

    Args:
      gradients: [length, D], float32 or float16. segments: int32 [length], which of `rows` each belongs to.
      rows: int32 [u].
    """
    kept, segments = without_unknown(request, table, rows, segments, rows_known)
    values = request.output(0, "float32", (kept, table.dim))
    segment_sum.segment_sum(gradients.pointer, table.dim, segments.pointer, segments.size, kept, values.pointer,
                            gradients.dtype)


def training_inputs(training):
    """(fields of a lookup's config, its last host inputs) that say whether it trains: a bool is known in the graph."""
    if isinstance(training, bool):
        return {"training": training}, []
    return {"training": None}, [tf.convert_to_tensor(training, tf.bool)]


def training_of(request, config):
    """Whether this run trains."""
    if config["training"] is not None:
        return config["training"]
    given = request.host_inputs[-1]
    if given.size != 1:
        raise CallError(INVALID_ARGUMENT, "embedding table '{}': got training of shape {}, expected a scalar".format(
            config["table"].name, list(given.shape)))
    return bool(given.numpy().reshape(()))


def check_training(table, headers):
    """Raises, on all ranks alike, where some train and others evaluate; `training` is the headers' first column."""
    flags = headers[:, 0]
    if flags.min() != flags.max():
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}': got training=True on ranks {} and training=False on ranks {}; expected one value "
            "on all ranks in one step").format(
                table.name, np.flatnonzero(flags).tolist(), np.flatnonzero(flags == 0).tolist()), agreed=True)
