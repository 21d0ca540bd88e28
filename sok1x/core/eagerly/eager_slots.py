"""Tables that grow in eager execution: their variables' names, and the slots that optimizers make of them.

Growth finds variables by name (graph_ops/stores/growth.py), and eager ones have none of their own: so each is noted
under one. A slot is made outside of the functions that optimizers are called in, where its table has as many rows as it
has by then; what its rows begin with is one number, as in graphs (growing_slots.py).

A `tf.train.Checkpoint` that is restored before the first step has TensorFlow make a slot that begins with what was
saved, from which nobody could tell what later rows begin with: so the optimizer makes its slots before. Keras' make and
restore theirs at the first step: rows that a table that forgets has given to other keys by then begin anew in them.
"""
import contextlib
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.frameworks import slots
from sok1x.core.tables import growing_shape, growing_slots, slot_beginnings
from sok1x.graph_ops.bridge.tensorflow_versions import resource_variable_ops
from sok1x.graph_ops.stores import beside, eager_names, initial, known_slots

_RESTORED = "_sok1x_restored"  # of a table: its _Restored


def track_variables(shard: Any) -> None:
    """Has a `tf.train.Checkpoint` of a table's rows have all that lies beside them.

    In a graph, of a table with keys: rows that stay where they are mean something by themselves.
    """
    if shard._in_graph_mode and not shard.index:
        return
    for name, variable in dict(_beside(shard), steps=shard.steps).items():
        shard._track_trackable(variable, name)


def note_variables(shard: Any) -> None:
    """Has growth find the variables of a table that grows."""
    note(shard, "", shard)
    for name, variable in _beside(shard).items():
        note(shard, name, variable)
    if shard.start is not None:
        note(shard, beside.START, shard.start)


def _beside(shard: Any) -> Dict[str, Any]:
    """What grows with a table's rows, by its name."""
    return dict(zip(("index", "count"), shard.index), stamps=shard.stamps, **shard.forgetting)


def note(shard: Any, name: str, variable: Any) -> None:
    """Has growth find one variable of a table that grows; name: beside the rows', "" for these."""
    eager_names.note(variable._handle, beside.place_of(shard.table, name)[1])


def fit(shard: Any) -> None:
    """Gives the slots of a table that grows as many rows as it has, where somebody has given it others."""
    if shard.table.grows:
        for variable in eager.collected(eager.graph(), tf.GraphKeys.GLOBAL_VARIABLES):
            if slots.shard_of(variable, [shard]) is not None:
                growing_slots.fit(variable, shard)


@contextlib.contextmanager
def made_for(shard: Any) -> Iterator[None]:
    """Inside, an optimizer makes a slot of a table, in eager execution or in a function that is called from there."""
    if not shard.table.grows:
        with tf.variable_creator_scope(_noting_creator):
            yield
        return
    with growing_shape.shapes_known(), tf.init_scope(), tf.variable_creator_scope(_creator(shard)):
        yield


def _noting_creator(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    """Of a table that does not grow: what rows begin with can be seen in a slot that has just been made. One that is
    restored as it is made, before the first step, does not tell; nor does an average, whose rows begin as the table's.
    """
    made = next_creator(**kwargs)
    if tf.executing_eagerly() and made.shape.rank:
        eager.begins(made, _only_number(made.read_value()))
    return made


def _creator(shard: Any) -> Callable[..., Any]:
    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        given, table = kwargs.get("initial_value"), shard.table
        example = tf.convert_to_tensor(given() if callable(given) else given)
        if not example.shape.rank:
            return next_creator(**kwargs)  # a number of the optimizer's
        dtype, row_shape = example.dtype.base_dtype, example.shape[1:].as_list()
        name = eager.unique_name("{}/{}".format(table.name, kwargs.get("name") or "slot"))
        slot = known_slots.Slot(name, table.growth.container, slot_beginnings.number_of(table.name, name, example))
        made = next_creator(**dict(
            kwargs, initial_value=lambda: initial.initial_slot(table, slot, dtype, row_shape),
            shape=tf.TensorShape([None] + row_shape)))
        growing_slots.keep(made, table, slot)
        eager_names.note(made._handle, name)
        known_slots.note_eager(table.name, slot)
        weakref.finalize(made, known_slots.forget, table.name, slot).atexit = False
        return made
    return create


@contextlib.contextmanager
def restored_later(later: bool) -> Iterator[None]:
    """Inside, a `tf.train.Checkpoint` leaves slots that are not there to the first step, and restores them then, as
    where any scope of creators is open.

    Args:
        later: whether it does so; else it makes them.

    Example:
        >>> from sok1x.core.eagerly import eager_slots
        >>> with eager_slots.restored_later(True):
        ...     print("restores")
        restores
    """
    with contextlib.ExitStack() as stack:
        if later:
            stack.enter_context(tf.variable_creator_scope(lambda creator, **kwargs: creator(**kwargs)))
        yield


def restore_slot(stock: Callable[..., Any]) -> Callable[..., Any]:
    """In place of tf.train.Optimizer's _create_or_restore_slot_variable, which a `tf.train.Checkpoint` calls."""
    def create_or_restore(self: Any, slot_variable_position: Any, slot_name: str, variable: Any) -> Any:
        if not growing_shape.grows(variable) or not tf.executing_eagerly():
            return stock(self, slot_variable_position=slot_variable_position, slot_name=slot_name, variable=variable)
        if self.get_slot(variable, slot_name) is None and slot_variable_position.is_simple_variable() \
                and not _is_someones():
            # As the first step does, but here: rows that get other keys before that begin anew in them too.
            with growing_shape.shapes_known(), tf.init_scope():
                self._create_slots([variable])
        with restored_later(self.get_slot(variable, slot_name) is None):
            made = stock(self, slot_variable_position=slot_variable_position, slot_name=slot_name, variable=variable)
        _lengthen(self.get_slot(variable, slot_name), variable)
        return made

    return create_or_restore


def restore_made_slot(stock: Callable[..., Any]) -> Callable[..., Any]:
    """In place of tf.train.Optimizer's _restore_slot_variable, for what was restored before a slot was made."""
    def restore(self: Any, slot_name: str, variable: Any, slot_variable: Any) -> Any:
        restored = stock(self, slot_name=slot_name, variable=variable, slot_variable=slot_variable)
        if growing_shape.grows(variable) and eager.is_on():
            _lengthen(slot_variable, variable)
        return restored

    return restore


def note_restored(shard: Any) -> None:
    """A `tf.train.Checkpoint` has restored a table: what it has of slots, Keras' optimizers restore at the first step.

    Rows that a table that forgets gives to other keys before that begin anew in the slots that are there, and these are
    not: see `begin_anew`. Stamps do not tell such rows, for eagerly the first step's gradient has stamped its own.
    """
    if shard.table.forgetting is not None and shard.table.cache is None:
        setattr(shard, _RESTORED, _Restored(shard))


class _Restored:
    """Which key each row of a table had when it was restored, in host memory, where it stays: 9 bytes a row."""

    def __init__(self, shard: Any) -> None:
        self._keys, self._had = keys_of_rows(shard)
        self._clock, self._given = -1, np.zeros(0, np.int64)

    def given_since(self, shard: Any) -> np.ndarray:
        """int64 [n]: the rows of keys that are not those; looked for once for all slots that a step makes."""
        clock = int(shard.steps.read_value())
        if clock != self._clock:
            keys, given = keys_of_rows(shard)
            same = min(len(self._keys), len(keys))  # a table may have grown
            given[:same] &= ~self._had[:same] | (self._keys[:same] != keys[:same])
            self._clock, self._given = clock, np.flatnonzero(given)
        return self._given


def keys_of_rows(shard: Any) -> Tuple[np.ndarray, np.ndarray]:
    """(int64 [V], bool [V]): each row's key, and whether it has one."""
    slots_of_index = shard.index[0].read_value().numpy()  # (key, row), the latter -1 where there is none
    taken = slots_of_index[slots_of_index[:, 1] >= 0]
    rows = int(resource_variable_ops.variable_shape(shard.stamps.handle)[0])
    keys, has_key = np.zeros(rows, np.int64), np.zeros(rows, bool)
    keys[taken[:, 1]], has_key[taken[:, 1]] = taken[:, 0], True
    return keys, has_key


def begin_anew(slot: Any, shard: Any) -> None:
    """Of a slot that has been made, and restored perhaps: rows that were given to keys before begin anew in it."""
    restored, known = getattr(shard, _RESTORED, None), growing_slots.slot_of(slot)
    if restored is None or known is None:
        return
    with tf.init_scope():
        _begin_rows(slot, restored.given_since(shard), known.value)


def begin_others(slots_of_table: Iterable[Any], shard: Any, keys: np.ndarray, had: np.ndarray) -> None:
    """Rows that have other keys than before, or none any more, begin anew in slots that were not restored with them.

    Args:
        slots_of_table: the slots, as long as the table is.
        shard: the table.
        keys, had: what `keys_of_rows` gave before.
    """
    now, has = keys_of_rows(shard)
    same, others = min(len(keys), len(now)), has.copy()
    others[:same] = (has[:same] != had[:same]) | has[:same] & (now[:same] != keys[:same])
    rows = np.flatnonzero(others)
    for slot in slots_of_table:
        value = _beginning_of(slot)
        if value is None:  # as those do that have had no key
            value = _only_number(slot.sparse_read(np.flatnonzero(~had)))
        _begin_rows(slot, rows, value or 0)


def begin_free(slots_of_table: Iterable[Any], shard: Any) -> None:
    """Rows that have no key begin anew in these slots of a table, but for those that begin with no one number."""
    rows = np.flatnonzero(~keys_of_rows(shard)[1])
    for slot in slots_of_table:
        value = _beginning_of(slot)
        if value is not None:
            _begin_rows(slot, rows, value)


def _beginning_of(slot: Any) -> Any:
    """What the rows of a slot begin with; None: that is not one number, or not known."""
    known = growing_slots.slot_of(slot)
    return eager.begins_with(slot) if known is None else known.value


def _only_number(values: Any) -> Any:
    """The number that all of a tensor is; None: there are several, or none."""
    if not int(tf.size(values)):
        return None
    least, most = tf.reduce_min(values).numpy(), tf.reduce_max(values).numpy()
    return least if least == most else None


def _begin_rows(slot: Any, rows: np.ndarray, value: Any) -> None:
    shape = [len(rows)] + slot.shape.as_list()[1:]
    tf.raw_ops.ResourceScatterUpdate(resource=slot.handle, indices=tf.constant(rows, tf.int64),
                                     updates=tf.fill(shape, tf.cast(value, slot.dtype.base_dtype)))


def _is_someones() -> bool:
    """Whether somebody looks at all variables that are made now: TensorFlow makes no slots there.

    A strategy does so too, but in its scope the first step may make them as well.
    """
    return bool(tf.get_default_graph()._variable_creator_stack) and not tf.distribute.has_strategy()


def _lengthen(slot: Any, shard: Any) -> None:
    """Gives a slot that has been restored the rows that its table has got since it was saved.

    Other rows it keeps: where the table is still to be restored, it will have as many.
    """
    if slot is not None and growing_slots.slot_of(slot) is not None:
        with tf.init_scope():
            if int(tf.shape(slot.read_value())[0]) < int(tf.shape(shard.read_value())[0]):
                growing_slots.fit(slot, shard)
