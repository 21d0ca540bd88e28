"""Keys that leave tables that forget: given out with their rows when they do, or asked for later."""
import copy
from typing import Any, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import hash_index
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import key_types, shown_steps
from sok1x.graph_ops.stores.distinct import make_distinct
from sok1x.graph_ops.stores.forgetting import EVICTED, KNOWN, known_since
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CONTENT, Held, TableVariables
from sok1x.launch.local_communicator import LocalCommunicator


class EvictionsConfig(NamedTuple):
    """Attributes:
      table, held: the table, and all of its variables."""

    table: Table
    held: Held


@register
class _ReadAndEvict(Operation):
    """Input: keys [n], of any key type. Outputs: their rows float32 [n, D], new ones inserted in this rank's shard
    alone; keys int64 [m] and rows float32 [m, D] of those that had to leave for them.
    """

    name = "operations.evictions.read_and_evict"
    Config = EvictionsConfig

    def run(self, request: Any, config: EvictionsConfig, world: Any, headers: Any) -> None:
        keys, dim = request.inputs[0], config.table.dim
        key_types.check(request, config.table, world, keys, "position {} of the keys".format)
        alone = copy.copy(world)  # whose ranks do not agree on anything
        alone.communicator = LocalCommunicator()
        out, places = request.output(0, "float32", (keys.size, dim)), request.temporary("int32", keys.size)
        given = []

        def memory(count: int) -> Tuple[Any, Any]:
            given.append(count)
            return request.output(1, "int64", (count,)), request.output(2, "float32", (count, dim))

        with request_store(request, config, alone, exclusive=True) as store:
            distinct, count = make_distinct(request, keys, places)
            store.memory_for_leaving = memory
            found = store.insert(distinct, count, request.temporary("int32", count))
            store.gather(found, places, out)
        if not given:
            memory(0)


@register
class _Since(Operation):
    """Host input: since, an integer []. Host outputs: keys int64 [n] that have left after step `since` and have no row
    now, each once; bool [], whether these are all of them.
    """

    name = "operations.evictions.since"
    Config = EvictionsConfig

    def run(self, request: Any, config: EvictionsConfig, world: Any, headers: Any) -> None:
        since = int(request.host_inputs[0].numpy())
        with request_store(request, config, world, exclusive=False) as store:
            shown_steps.note(store)
            counters = store.own["counters"].read()
            ring, total = store.own.get("evicted"), int(counters[EVICTED])
            notes = np.zeros((0, 2), np.int64) if ring is None else ring.read()
            enough = total <= len(notes)
            if not enough and len(notes):  # of the step of the oldest note some may have been overwritten
                enough = since >= notes[total % len(notes), 1]
            elif not enough:  # KNOWN has the last step at which keys left, unless an earlier sok1x has saved the table
                enough = counters[KNOWN] != 0
            notes = notes[:min(total, len(notes))]
            noted = notes[notes[:, 1] > 0]
            # Saved without a ring: keys had left before the first note. KNOWN tells up to when that matters, unless an
            # earlier sok1x has saved the table.
            if len(noted) < len(notes) and not counters[KNOWN]:
                enough = len(noted) > 0 and since >= noted[:, 1].min()
            notes = noted
            keys = np.unique(notes[notes[:, 1] > since, 0])
            rows, asked = request.temporary("int32", len(keys)), request.temporary("int64", len(keys))
            asked.write(keys)
            index = store.own.get("every", store.index)
            hash_index.find(index, asked, rows)
            keys = keys[rows.read() < 0]
            known = known_since(int(counters[KNOWN]), int(store.clock.read()))
        complete = enough and (not counters[KNOWN] or since >= known)
        request.host_output(0, "int64", (len(keys),)).numpy()[:] = keys
        request.host_output(1, "bool", ()).numpy()[...] = complete


@register
class _Evict(Operation):
    """Input: row numbers int64 [n], ascending. Host output: int64 [], how many of these rows have left: those that have
    keys and are in the hands of no step in flight.
    """

    name = "operations.evictions.evict"
    Config = EvictionsConfig

    def run(self, request: Any, config: EvictionsConfig, world: Any, headers: Any) -> None:
        asked = request.inputs[0].read()
        with request_store(request, config, world, exclusive=True) as store:
            left = store.leave(asked)
        request.host_output(0, "int64", ()).numpy()[...] = left


def evict(variables: TableVariables, rows: tf.Tensor, name: str = "evict") -> tf.Tensor:
    """int64 [], on the host: how many of rows int64 [n], ascending, have left."""
    held, handles = variables.resources(*CONTENT)
    left, = library.call(
        "operations.evictions.evict", EvictionsConfig(variables.table, held), [rows], [], [], resources=handles,
        host_dtypes=[tf.int64], host_shapes=[[]], name=name)
    return left


def read_and_evict(variables: TableVariables, keys: tf.Tensor,
                   name: str = "read_and_evict") -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """(rows float32 [n, D] of keys [n], keys int64 [m] and rows float32 [m, D] that had to leave for them)."""
    held, handles = variables.resources(*CONTENT)
    dim = variables.table.dim
    found, evicted, values = library.call(
        "operations.evictions.read_and_evict", EvictionsConfig(variables.table, held), [keys],
        [tf.float32, tf.int64, tf.float32], [[None, dim], [None], [None, dim]], resources=handles, name=name)
    return found, evicted, values


def since(variables: TableVariables, step: tf.Tensor, name: str = "evicted_since") -> Tuple[tf.Tensor, tf.Tensor]:
    """(keys int64 [n] that have left after a step and have no row now, whether these are all), on the host."""
    held, handles = variables.resources("index", "count", "clock", "evicted", "counters", "every")
    keys, complete = library.call(
        "operations.evictions.since", EvictionsConfig(variables.table, held), [], [], [], resources=handles,
        host_inputs=[step], host_dtypes=[tf.int64, tf.bool], host_shapes=[[None], []], name=name)
    return keys, complete
