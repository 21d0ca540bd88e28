"""The op that moves a table's shard between its variables and an object of this process."""
import contextlib
import functools
import inspect
import weakref
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session.tables import TableState
from sok1x.core.eagerly import eager
from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.transfer import shard_transfer

_KEPT_BY = "_sok1x_transfers"  # the attribute of an eager table


class Transfer:
    """One table's `shard_transfer.save` or `.load`, with the placeholder that its token comes by.

    Eagerly it is made when it is needed, and again and again: an eager table's graph gets the op once.

    Args:
        table: the table.
        make: one of the two.
        name: of the op.

    Attributes:
        op, token: what moves the shard, and what it is fed.
    """

    def __init__(self, table: TableState, make: Callable[..., tf.Operation], name: str) -> None:
        self.table = table
        known = _known(table, name)
        if known is not None:
            self.op, self.token = known.op, known.token
            return
        with eager.room(table.variable):
            self.token = eager.placeholder(tf.int64, [], name=name + "_token")
            self.op = make(table.variable.table_variables, table.parts, self.token, name=name)
        if eager.is_on():
            table.variable.__dict__[_KEPT_BY].append(_Known(
                name, table.variable.table, {part: weakref.ref(one) for part, one in table.parts.items()},
                self.op, self.token))


class _Known(NamedTuple):
    """An eager table's op by its name: of which description, and which parts, which it does not keep."""

    name: str
    described: Any
    parts: Dict[str, Any]
    op: Any
    token: Any


def _known(table: TableState, name: str) -> Optional[_Known]:
    if not eager.is_on():
        return None
    kept: List[_Known] = table.variable.__dict__.setdefault(_KEPT_BY, [])
    kept[:] = [one for one in kept if one.described is table.variable.table and
               all(part() is not None for part in one.parts.values())]
    for one in kept:
        if one.name == name and list(one.parts) == list(table.parts) and all(
                one.parts[part]() is variable for part, variable in table.parts.items()):
            return one
    return None


def run_all(session: tf.Session, transfers: Sequence[Transfer], objects: Sequence[Any]) -> None:
    """Moves several shards in one session.run, each to or from its object, in any order.

    TensorFlow prepares a graph for all that a session.run asks for the first time: for each table by itself that is a
    minute where tables are many and the graph is large.

    Raises:
        CheckpointError: the error of an object, or what else went wrong; the other shards may have been moved.
    """
    recorders = [_Recorder(obj) for obj in objects]
    with contextlib.ExitStack() as stack:
        tokens = [stack.enter_context(shard_transfer.offered(recorder)) for recorder in recorders]
        try:
            session.run([transfer.op for transfer in transfers],
                        {transfer.token: token for transfer, token in zip(transfers, tokens)})
        except tf.errors.OpError as error:
            for recorder in recorders:
                if isinstance(recorder.error, CheckpointError):
                    raise recorder.error from None
            raise CheckpointError(tensorflow_versions.own_words(error)) from error


class _Recorder:
    """A sink or source, and the error that it raised: TensorFlow hands on no more than its text."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj
        self.error: Optional[Exception] = None

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._obj, name)
        return functools.partial(self._call, value) if callable(value) else value

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            result = method(*arguments)
        except Exception as error:
            self.error = error
            raise
        return self._items(result) if inspect.isgenerator(result) else result

    def _items(self, items: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from items
        except Exception as error:
            self.error = error
            raise
