"""Ops that hand a table's shard to a Python object of this process, and take one from it.

What a shard holds travels in parts: "keys" int64 [n], "rows" float32 [n, D], and by their names further variables
that have a value for each row, as optimizer slots. The ops are local to a rank; see `save` and `load` for what their
objects must offer. The objects are named by a token, fed to the op in each run, so that the ops can be made once and
for all before a graph is finalized.
"""
import contextlib
import itertools
import threading
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, INTERNAL, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import Held
from sok1x.graph_ops.transfer import shard_load, shard_save

_offered = {}
_tokens = itertools.count(1)
_lock = threading.Lock()


@contextlib.contextmanager
def offered(obj):
    """Inside, ops that are fed the token that this gives (an int) work with `obj`."""
    with _lock:
        token = next(_tokens)
        _offered[token] = obj
    try:
        yield token
    finally:
        del _offered[token]


class TransferConfig(NamedTuple):
    """Attributes:
      table, held: the table, its content, and the parts besides as slots."""

    table: Table
    held: Held


class _Transfer(Operation):
    """Host input: int64 [], a token of `offered`. No output."""

    Config = TransferConfig
    exclusive = None  # whether it writes the variables

    def run(self, request, config, world, headers):
        table = config.table
        given = request.host_inputs[0].numpy()
        token = int(given) if given.size == 1 else given.tolist()
        if given.size != 1 or token not in _offered:
            raise CallError(FAILED_PRECONDITION, (
                "{} of embedding table '{}' on {}: got token {}, expected one of shard_transfer.offered in this "
                "process, inside its block").format(self.name, table.name, world.name, token))
        with request_store(request, config, world, exclusive=self.exclusive) as store, _errors_of_objects():
            self.transfer(store, _offered[token])

    def transfer(self, store, obj):
        """Moves everything."""
        raise NotImplementedError


@register
class _Save(_Transfer):
    """Hands the shard over."""

    name = "transfer.shard_transfer.save"
    exclusive = False

    def transfer(self, store, obj):
        shard_save.give(store, obj)


@register
class _Load(_Transfer):
    """Replaces the shard."""

    name = "transfer.shard_transfer.load"
    exclusive = True

    def transfer(self, store, obj):
        shard_load.replace(store, obj)


@contextlib.contextmanager
def _errors_of_objects():
    """What objects raise on purpose fails the op with their message first, and with their `code` if they have one.

    Anything else is a mistake in a program, which the bridge reports with its traceback.
    """
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        code = getattr(error, "code", None)
        raise CallError(code if isinstance(code, int) else INTERNAL, str(error)) from error


def save(variables, parts, token, name="save_shard"):
    """An op that hands this rank's shard to a sink.

    The sink is called on the executor's thread, while nothing may change the shard:

        begin(facts)        facts: {"table", "rank", "ranks", "rows": V, where it differs the most of all ranks,
                            of a table that "grows" (bool) this rank's, "dim": D, "use_hashtable", "key_dtype",
                            "used": n, the rows that are handed over, "parts":
                            {part: {"dtype", "row_shape", "count"}} in the order in which they come, "localized": the
                            rank that has all rows, or None, "keys": `Table.keys`, "admission": `Table.admission`}
        write(part, array)  some rows of the part, in row order, as a NumPy array that must not be changed and not be
                            kept: on the CPU the variable's own memory. Part after part, "keys" first, then "rows",
                            then the others; none for a part without rows
        end()

    With a hash table rows in use are handed over, 0 to n - 1; without one all V. Where a Keras object gave a hash
    table's first rows (`table.by_row`), another part is "unused", float32 [V - n, D]: the rows of keys to come. A
    table that does not give every key a row ends with "admission", int64 [1 + words]: its tick, and its sketch.

    Args:
      variables: the table's `TableVariables`.
      parts: {name: resource variable [V, ...]}, on the table's device.
      token: int64 [], from `offered`.

    Returns:
      The operation.
    """
    return _call("transfer.shard_transfer.save", variables, parts, token, name)


def load(variables, parts, token, name="load_shard"):
    """An op that replaces this rank's shard by what a source gives.

    The source is called on the executor's thread, while nobody else may see the shard:

        total               rows that will come, at most V; a table that grows gets as many
        chunks()            an iterator of (keys int64 [n], {part: array [n, ...]}) with "rows" and all parts of the
                            op; parts that the op lacks are passed over. The arrays must stay as they are until the
                            next chunk is asked for
        unused()            None, or an iterator of float32 [n, D]: the rows of keys to come
        fresh               where it has that: {part: number}, what rows that have keys now, in a hash table, and will
                            have none then begin with in these parts
        admission()         where it has that: None, or an iterator of int64 [n], in all [1 + words]; else the table's
                            admission begins anew
        same_ranks          where it has that: whether it is what this rank has saved, keys of other ranks included

    With a hash table, rows are given out in the order in which keys come, from 0: the index is that which
    training makes. Without one a key says itself which row it has, and rows whose keys do not come stay as they are.
    A key of another rank, with a hash table a repeated key, too many rows, a part of another dtype or shape are
    errors; without a hash table nobody notices a repeated key, one of whose rows counts. What can be known before
    anything changes is; after an error later than that a hash table is empty.

    Args:
      variables, parts, token: as for `save`.

    Returns:
      The operation.
    """
    return _call("transfer.shard_transfer.load", variables, parts, token, name)


def _call(function, variables, parts, token, name):
    table = variables.table
    for part, variable in parts.items():
        shape = variable.shape
        row_bytes = ITEM_BYTES[variable.dtype.base_dtype.name] * (shape[1:].num_elements() or 0)
        if shape[:1].as_list() != [table.static_rows] or not row_bytes or row_bytes % 4:
            raise ValueError("{} of table '{}': got '{}' of shape {} and dtype {}, expected a variable of {} rows of 4 "
                             "bytes or a multiple".format(function, table.name, part, shape,
                                                          variable.dtype.base_dtype.name, table.static_rows))
    held, handles = variables.resources(
        *variables.content, slots={part: variable.handle for part, variable in parts.items()})
    return library.call(function, TransferConfig(table, held), [], [], [], resources=handles,
                        host_inputs=[tf.convert_to_tensor(token, tf.int64)], name=name)
