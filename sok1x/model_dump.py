"""The rows of tables that changed since a time, of all ranks on each of them: SOK 2.x's incremental dump."""
import collections
import datetime
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from sok1x.checkpoint.session import restored_sessions
from sok1x.checkpoint.session.talk import Talk, talk
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options import given_tables
from sok1x.core.tables import sessions
from sok1x.graph_ops.bridge import joined
from sok1x.graph_ops.stores.step_times import EVERY

__all__ = ["incremental_model_dump"]

_FUNCTION = "sok1x.incremental_model_dump"
_PIECE = 64 << 20  # bytes of each rank that are exchanged at a time
_1970 = datetime.datetime(1970, 1, 1)


class _Dump(NamedTuple):
    """Of one table: keys [n], their rows [n, D], keys that have left, and whether these are all."""

    keys: np.ndarray
    values: np.ndarray
    evicted: np.ndarray
    complete: bool


def incremental_model_dump(variables: Any, utc_datetime: Any, sess: Any = None, evicted: bool = False) -> Any:
    """The keys and rows of all ranks that changed since a time; all ranks call it together, each gets all.

    A row has changed as for `sok.incremental_dump`. The time becomes a step of the table's clock, on each rank by its
    own clock: of each table moments are known at which no step was in flight, one for each second of training, and one
    where training has paused for a quarter of a second. So rows may be given that had changed up to about a second
    before; every row that changed later is. (Where the clock has been set, and more so back, meanwhile: of a time that
    it has shown twice the first counts.) Of hours that are long past fewer moments are known. (In eager execution a
    step counts as in flight for as long as anybody has its gradients, as a loop's variable, and for a quarter of a
    second more.) Rows that lookups inserted without training the table since count as changed until the next step that
    trains it. Before the table was initialized or restored in this process nothing is known: since then every row in
    use has changed. Whoever dumps again and again takes the time before each dump, for the next.

    It runs ops that every table has had from the start, so graphs may be finalized. Memory: the result on each rank.

    Args:
        variables: a list of tables of one graph, or one: each a `sok.Variable`, a `sok.DynamicVariable`, a layer or its
            embedding variable.
        utc_datetime: since when: a `datetime.datetime`, in UTC where it has no time zone; or a list, one for each.
        sess: where to run: a `tf.Session`, a `MonitoredTrainingSession` or a hook's `run_context.session`. By default
            the default session, or the one that `sok.InitHook` has seen last.
        evicted: whether the keys that have left are wanted, too; on all ranks the same.

    Returns:
        (keys, values): lists with, for each table, keys [n] of its key dtype, those of rank 0 first, and values [n, D].
        With `evicted` (keys, values, gone, complete): gone, for each table the keys int64 [m] that have left since and
        have no row now (none of a table that does not forget); complete, for each whether these are all. Where they are
        not, as `sok.evicted_keys` says, and since before the table was initialized, loaded or restored, what has left
        is known from a dump of all rows alone. (Who asks since 1970 has had none.)

    Raises:
        TypeError: no tables, or no time.
        ValueError: tables of several graphs, not as many times as tables, or a session of another graph.
        RuntimeError: no session was found.
        sok1x.checkpoint.errors.CheckpointError: another rank has failed, or does something else.
        tf.errors.FailedPreconditionError: before `sok.Init`.

    Example:
        >>> import datetime
        >>> import time
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.DynamicVariable(dimension=2, initializer="13", var_type="hbm")
        ...     ids = tf.placeholder(tf.int64, [None])
        ...     loss = tf.reduce_sum(sok.all2all_dense_embedding(items, ids))
        ...     step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(step, {ids: [7, 8]})
        ...     since = datetime.datetime.utcnow()
        ...     time.sleep(0.3)
        ...     _ = session.run(step, {ids: [8, 9]})
        ...     keys, values = sok.incremental_model_dump([items], since, session)
        >>> keys[0].tolist(), values[0].tolist()
        ([8, 9], [[12.0, 12.0], [12.5, 12.5]])
    """
    tables = given_tables.tables(_FUNCTION + ": variables", variables)
    times = _times(utc_datetime, len(tables))
    joined.world()
    session = sessions.session_of(_FUNCTION, tables[0].graph, sess) if tables else None
    ranks = talk()
    mine: List[_Dump] = []
    with ranks.about("{} of {}{}".format(_FUNCTION, ", ".join("'{}'".format(table.table.name) for table in tables),
                                         " with evicted=True" if evicted else "")):

        def dump() -> List[Tuple[int, int, bool]]:
            restored_sessions.complete(session, None)
            mine.extend(_run(session, tables, times, evicted))
            return [(len(one.keys), len(one.evicted), bool(one.complete)) for one in mine]

        told = ranks.agree(session, dump)
        every: List[_Dump] = []
        ranks.agree(session, lambda: every.extend(map(_room, mine, zip(*told))))
        for table, one, room, of_ranks in zip(tables, mine, every, zip(*told)):
            _gather(ranks, table.table.name, one, room, of_ranks)
    keys, values, gone, complete = ([one[place] for one in every] for place in range(4))
    return (keys, values, gone, complete) if evicted else (keys, values)


def _times(given: Any, count: int) -> List[int]:
    """Microseconds since 1970, for each table."""
    times = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given] * count
    if len(times) != count:
        raise ValueError("{}: utc_datetime: got {} times for {} tables, expected one for each, or one for all".format(
            _FUNCTION, len(times), count))
    for time in times:
        if not isinstance(time, datetime.datetime):
            raise TypeError("{}: utc_datetime: got {!r} of type {}, expected a datetime.datetime, in UTC where it has "
                            "no time zone, as datetime.datetime.utcnow() gives it".format(
                                _FUNCTION, time, type(time).__name__))
    plain = [time if time.tzinfo is None else time.astimezone(datetime.timezone.utc).replace(tzinfo=None)
             for time in times]
    return [max(0, (time - _1970) // datetime.timedelta(microseconds=1)) for time in plain]


def _run(session: Any, tables: List[EmbeddingVariable], times: List[int], evicted: bool) -> List[_Dump]:
    """This rank's. Each table's ops are fed one time in a run: one that is given again is dumped once more."""
    rounds: Dict[int, List[int]] = {}  # places of tables that differ
    times_given: Dict[int, int] = collections.Counter()
    for place, table in enumerate(tables):
        rounds.setdefault(times_given[id(table)], []).append(place)
        times_given[id(table)] += 1
    found: Dict[int, _Dump] = {}
    for places in rounds.values():
        found.update(zip(places, _run_once(session, [tables[place] for place in places],
                                           [times[place] for place in places], evicted)))
    return [found[place] for place in range(len(tables))]


def _run_once(session: Any, tables: List[EmbeddingVariable], times: List[int], evicted: bool) -> List[_Dump]:
    """Of tables that differ."""
    steps = session.run([table.step_at[1] for table in tables],
                        {table.step_at[0]: time for table, time in zip(tables, times)})
    since = {table.changed[0]: step for table, step in zip(tables, steps)}
    # What has left first: a key that leaves meanwhile is then in neither, and one that comes back in both.
    nothing = np.zeros(0, np.int64), True
    answers = iter(session.run([table.evicted[1:] for table in tables if evicted and table.evicted is not None], since))
    gone = [next(answers) if evicted and table.evicted is not None else nothing for table in tables]
    changed = session.run([table.changed[1:] for table in tables], since)
    return [_Dump(keys, values, left, bool(complete) and (step != EVERY or time == 0))
            for (keys, values), (left, complete), step, time in zip(changed, gone, steps, times)]


def _room(mine: _Dump, told: Sequence[Any]) -> _Dump:
    """For what all ranks have of a table: on one rank its own. told: each rank's (rows, evicted keys, whether these are
    all)."""
    if len(told) == 1:
        return mine
    rows, gone = sum(count for count, _, _ in told), sum(count for _, count, _ in told)
    return _Dump(np.empty(rows, mine.keys.dtype), np.empty((rows,) + mine.values.shape[1:], mine.values.dtype),
                 np.empty(gone, mine.evicted.dtype), all(complete for _, _, complete in told))


def _gather(ranks: Talk, name: str, mine: _Dump, room: _Dump, told: Sequence[Any]) -> None:
    """Fills the room for a table, by its name, with all ranks' keys and rows. told: as for `_room`."""
    if len(told) == 1:
        return
    rows, gone = [count for count, _, _ in told], [count for _, count, _ in told]
    for part, given, every, lengths in (("keys", mine.keys, room.keys, rows), ("rows", mine.values, room.values, rows),
                                        ("keys that have left", mine.evicted, room.evicted, gone)):
        _gather_array(ranks, "{}: the {} of '{}'".format(_FUNCTION, part, name), given, every, lengths)


def _gather_array(ranks: Talk, what: str, mine: np.ndarray, every: np.ndarray, lengths: List[int]) -> None:
    """Fills `every` with all ranks' arrays [lengths[rank], ...], one after the other."""
    row_bytes = mine.dtype.itemsize * int(np.prod(mine.shape[1:], dtype=np.int64))
    out, given = every.reshape(-1).view(np.uint8), np.ascontiguousarray(mine).reshape(-1).view(np.uint8)
    begins = np.cumsum([0] + lengths) * row_bytes
    for first in range(0, max(lengths) * row_bytes, _PIECE):
        with ranks.about("{}, from byte {} on".format(what, first)):
            parts = ranks.gather(None, given[first:first + _PIECE])
        for begin, part in zip(begins, parts):
            out[begin + first:begin + first + len(part)] = part
