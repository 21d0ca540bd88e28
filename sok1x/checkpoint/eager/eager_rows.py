"""What tables have, and their slots, once `tf.train.Checkpoint` has restored them: see eager_restoring.py."""
import contextlib
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.session.tables import tables_of
from sok1x.core.eagerly import eager, eager_slots
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.stores.step_at import time_of_restore


class _Before(NamedTuple):
    """What a table was before a restore: its clock, the number of the restore before, and the keys of its rows if any
    has one, and there are slots, whose rows are those of these keys."""

    clock: int
    restore: int
    keys: Optional[Tuple[np.ndarray, np.ndarray]]


@contextlib.contextmanager
def noted(restored: Iterable[EmbeddingVariable]) -> Iterator[None]:
    """Inside, these tables are restored, or stay where there is nothing for them."""
    tables = list(restored)
    slots = _slots_of([table for table in tables if table.index and int(table.index[-1].read_value()) > 0])
    before = [_Before(int(table.steps.read_value()), _restore_of(table),
                      eager_slots.keys_of_rows(table) if slots.get(id(table)) else None) for table in tables]
    yield
    for table, then in zip(tables, before):
        time, step = table.step_at
        eager.session().run(step, {time: time_of_restore(then.clock)})
        eager_slots.note_restored(table)
        eager_slots.fit(table)  # the checkpoint may have nothing for a slot, and other rows than there were
        memory = table.forgetting.get("evicted")
        if memory is not None and _restore_of(memory) <= then.restore < _restore_of(table):
            memory.assign(tf.zeros_like(memory))  # what left here before is not what has left
    _begin_others([(table, then) for table, then in zip(tables, before)
                   if then.keys is not None and _restore_of(table) > then.restore])


def _begin_others(restored: List[Tuple[EmbeddingVariable, _Before]]) -> None:
    """Rows of other keys begin anew in slots that have not been restored since the table was the time before."""
    slots_of = _slots_of([table for table, _ in restored])
    for table, then in restored:
        slots = [slot for slot in slots_of[id(table)] if _restore_of(slot) <= then.restore]
        if slots and then.keys is not None:
            eager_slots.begin_others(slots, table, *then.keys)


def _slots_of(tables: List[EmbeddingVariable]) -> Dict[int, List[Any]]:
    """The slots that these tables have, by a table's `id`."""
    wanted = {id(table) for table in tables}
    return {id(state.variable): state.slots_besides(()) for state in (tables_of(eager.graph()) if wanted else [])
            if id(state.variable) in wanted}


def _restore_of(variable: Any) -> int:
    """The number of the last restore that has given a variable a value: they grow; -1 is none."""
    return int(getattr(variable, "_update_uid", -1))  # it is there when some tf.train.Checkpoint has had the variable
