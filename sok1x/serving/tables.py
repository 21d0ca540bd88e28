"""An exported table: what is stored of it, its variables in the served graph, and the rows of keys by stock ops.

Of a table with any integer as a key the bundle of a SavedModel's variables has

    sok1x_tables/NAME/keys         int64 [n], ascending
    sok1x_tables/NAME/row_numbers  int32 or int64 [n], from 1 on: which row each of the keys has
    sok1x_tables/NAME/rows         float32, or the bits of float16 as int16, [n + 1, D]; row 0 is what a key without a
                                   row reads, where that is one row for all such keys, else zeros

and of a table whose key k has row k the rows alone, [n, D]. Rows are in the order of the checkpoint, so that exporting
them needs no memory for all of them. (TensorFlow puts slices of int16 together, and none of float16. Without keys the
first two have one entry, key 0 with row number 0.)

By index='table' keys and row numbers are in one of TensorFlow's hash tables, MutableDenseHashTable, as soon as the
model is loaded. It spreads keys by their low bits alone and reserves two keys; so what it is given is `mixed`, one to
one, and the reserved ones are such as the table does not have. By index='search' they stay as they are, and each key
is searched for, in steps whose number is log2 n. docs/serving.md has the figures by which the first is the default.
"""
import hashlib
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import saveable_object, searchsorted
from sok1x.serving import initial_rows

ROOT = "sok1x_tables"
FINDERS = ("table", "search")

_ODD = 0x9E3779B97F4A7C15  # of Fibonacci hashing: Knuth, TAOCP vol. 3, 6.4
_INVERSE = pow(_ODD, 2 ** 63 - 1, 2 ** 64)  # the group of odd numbers modulo 2^64 has an order that divides 2^62


class Served(NamedTuple):
    """How a table is served.

    Attributes:
        name, dim: the table's.
        hashed: whether any integer is a key; else key k is row k.
        storage: dtype of the rows, 'float32' or 'float16'.
        unseen: what is drawn for keys without a row; None: they read row 0.
        find_by: how keys are found, one of `FINDERS`.
        wide: whether row numbers are int64.
        absent: three `mixed` keys that the table does not have.
        ranks: of the evaluation whose sums are met: see lookups.py.
    """

    name: str
    dim: int
    hashed: bool
    storage: str = "float32"
    unseen: Optional[initial_rows.Draw] = None
    find_by: str = "table"
    wide: bool = False
    absent: Tuple[int, int, int] = (0, 0, 0)
    ranks: int = 1

    def tensor(self, part: str) -> str:
        """The name of a part, 'rows', 'keys' or 'row_numbers', in the bundle."""
        return "{}/{}/{}".format(ROOT, self.name, part)

    @property
    def row_dtype(self) -> str:
        """Of the rows' variable."""
        return "int16" if self.storage == "float16" else "float32"

    @property
    def number_dtype(self) -> str:
        """Of row numbers."""
        return "int64" if self.wide else "int32"


class Handles(NamedTuple):
    """Scalar tensors of dtype resource: of rows; of the hash table; or of keys and row numbers."""

    rows: Any
    index: Any = None
    keys: Any = None
    numbers: Any = None


def choose_absent(name: str, keys: Callable[[], Iterable[np.ndarray]]) -> Tuple[int, int, int]:
    """Three `mixed` keys that are none of those that `keys` gives in chunks, int64 [n]: the same each time."""
    attempt = 0
    while True:
        digest = hashlib.blake2b("{} {}".format(name, attempt).encode(), digest_size=24).digest()
        candidates = np.frombuffer(digest, np.int64)
        taken = [unmixed(candidate) for candidate in candidates]
        if len(set(taken)) == 3 and not any(np.isin(chunk, taken).any() for chunk in keys()):
            return absent_of(candidates.tolist())
        attempt += 1


def absent_of(given: List[int]) -> Tuple[int, int, int]:
    """The same from a list. Raises ValueError."""
    first, second, third = given
    return int(first), int(second), int(third)


def unmixed(mixed_key: np.int64) -> np.int64:
    """The key of which `mixed` gives this."""
    x = (int(mixed_key) * _INVERSE) % 2 ** 64
    return np.uint64(x ^ (x >> 32)).astype(np.int64)


def mixed(keys: tf.Tensor) -> tf.Tensor:
    """int64, one to one: so that keys differ in their low bits, however they were made."""
    high = tf.bitwise.bitwise_and(tf.bitwise.right_shift(keys, tf.constant(32, tf.int64)),
                                  tf.constant(0xffffffff, tf.int64))
    return tf.bitwise.bitwise_xor(keys, high) * tf.constant(_ODD - 2 ** 64, tf.int64)


def _mixed_back(keys: tf.Tensor) -> tf.Tensor:
    keys = keys * tf.constant(_INVERSE - (2 ** 64 if _INVERSE >= 2 ** 63 else 0), tf.int64)
    high = tf.bitwise.bitwise_and(tf.bitwise.right_shift(keys, tf.constant(32, tf.int64)),
                                  tf.constant(0xffffffff, tf.int64))
    return tf.bitwise.bitwise_xor(keys, high)


class _IndexSaveable(saveable_object.SaveableObject):
    """Has a Saver fill the hash table with the keys and row numbers of the bundle."""

    def __init__(self, served: Served, handle: tf.Tensor) -> None:
        self._handle = handle
        keys, numbers = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=tf.int64,
                                                       Tvalues=tf.as_dtype(served.number_dtype))
        there = tf.raw_ops.Where(condition=numbers > 0)[:, 0]  # what is exported has free places too
        specs = [saveable_object.SaveSpec(tensor, "", served.tensor(part)) for part, tensor in (
            ("keys", _mixed_back(tf.gather(keys, there))), ("row_numbers", tf.gather(numbers, there)))]
        super().__init__(handle, specs, served.tensor("index"))

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> tf.Operation:
        """Called by the Saver."""
        keys, numbers = restored_tensors
        # Not LookupTableImportV2, which takes the table's memory as it lies.
        return tf.raw_ops.LookupTableInsertV2(table_handle=self._handle, keys=mixed(keys), values=numbers)


def make(served: Served) -> Tuple[Handles, List[Any]]:
    """The table's variables in the current graph: their handles, and what a Saver takes."""
    rows = _variable(served.tensor("rows"), [None, served.dim], served.row_dtype)
    if not served.hashed:
        return Handles(rows.handle), [rows]
    if served.find_by == "table":
        with tf.name_scope(served.tensor("index") + "/"):
            index = _hash_table(served)
            return Handles(rows.handle, index), [rows, _IndexSaveable(served, index)]
    keys = _variable(served.tensor("keys"), [None], "int64")
    numbers = _variable(served.tensor("row_numbers"), [None], served.number_dtype)
    return Handles(rows.handle, None, keys.handle, numbers.handle), [rows, keys, numbers]


def placeholders(served: Served) -> Handles:
    """Stand-ins for the handles, each named by its field."""
    def stand_in(field: str) -> tf.Tensor:
        return tf.placeholder(tf.resource, [], name="handle_" + field)

    if not served.hashed:
        return Handles(stand_in("rows"))
    if served.find_by == "table":
        return Handles(stand_in("rows"), stand_in("index"))
    return Handles(stand_in("rows"), None, stand_in("keys"), stand_in("numbers"))


def _variable(name: str, shape: List[Optional[int]], dtype: str) -> tf.Variable:
    """Not initialized but restored; its length may change with the model's next version."""
    return tf.Variable(tf.zeros([0] + shape[1:], dtype), trainable=False, name=name, use_resource=True,
                       shape=tf.TensorShape(shape))


def _hash_table(served: Served) -> tf.Tensor:
    return tf.raw_ops.MutableDenseHashTableV2(
        empty_key=tf.constant(served.absent[0], tf.int64), deleted_key=tf.constant(served.absent[1], tf.int64),
        value_dtype=tf.as_dtype(served.number_dtype), shared_name=served.tensor("index"), name="hash_table")


def rows_of(served: Served, handles: Handles, keys: tf.Tensor) -> tf.Tensor:
    """float32 keys.shape + [D]: the rows of keys, integers of any shape.

    A key outside of a table without keys of its own is an error on the host, with its place, when it is run.
    """
    keys = tf.cast(keys, tf.int64)
    flat = tf.reshape(keys, [-1])
    numbers = _find(served, handles, flat) if served.hashed else flat
    rows = tf.raw_ops.ResourceGather(resource=handles.rows, indices=numbers, dtype=tf.as_dtype(served.row_dtype))
    if served.storage == "float16":
        rows = tf.cast(tf.bitcast(rows, tf.float16), tf.float32)
    rows = tf.ensure_shape(rows, [None, served.dim])
    if served.unseen is not None:
        rows = initial_rows.filled(rows, flat, tf.equal(numbers, tf.zeros([], numbers.dtype)), served.unseen)
    if keys.shape.rank == 1:
        return rows
    return tf.reshape(rows, tf.concat([tf.shape(keys), [served.dim]], 0))


def _find(served: Served, handles: Handles, keys: tf.Tensor) -> tf.Tensor:
    """The row numbers of keys int64 [K]; 0 for those that have none."""
    dtype = tf.as_dtype(served.number_dtype)
    if served.find_by == "table":
        asked = mixed(keys)
        reserved = [tf.equal(asked, tf.constant(one, tf.int64)) for one in served.absent[:2]]
        other = tf.fill(tf.shape(asked), tf.constant(served.absent[2], tf.int64))
        asked = tf.raw_ops.Select(condition=tf.logical_or(*reserved), x=other, y=asked)
        return tf.raw_ops.LookupTableFindV2(table_handle=handles.index, keys=asked,
                                            default_value=tf.zeros([], dtype))
    known = tf.raw_ops.ReadVariableOp(resource=handles.keys, dtype=tf.int64)
    size = tf.size(known, out_type=dtype)
    places = tf.minimum(searchsorted(known, keys, out_type=dtype), size - 1)
    found = tf.equal(tf.gather(known, places), keys)
    numbers = tf.raw_ops.ResourceGather(resource=handles.numbers, indices=places, dtype=dtype)
    return tf.raw_ops.Select(condition=found, x=numbers, y=tf.zeros_like(numbers))
