"""When each row of a table last changed: what incremental dumps are made of.

Beside a table's rows lie two variables: `stamps`, int64 [V], the step at which each row last changed, and `clock`
(in the graph `steps`), int64 [], the last step at which the table changed at all. A change that is made while the
graph's global step is g has step g + 1, which is what the global step will be when the change is there. A graph
without a global step counts for each table the `session.run` calls that change it. (int64: TensorFlow 1.15 has no int32
variables on a GPU.)

The op that prepares a lookup's gradient stamps the gradient's rows: whichever optimizer applies it, these rows change.
It is not the one that makes the gradient, so that the stamps' cache misses cost nothing where TensorFlow computes the
loss meanwhile. Rows that a lookup inserts are stamped then, for they are new whether a gradient follows or not: by what
the graph's tables have been told of the global step last, by that op or, where an optimizer trains none of them, by
`tell_step`, or, when a restore has set it, by `tell_outside`. What changes rows otherwise runs stamps.py's `mark`.
"""
import contextlib
import threading
import weakref
from typing import Any, Iterator, List, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import stamps
from sok1x.graph_ops.bridge import told_step
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside, outermost
from sok1x.graph_ops.stores import step_times
from sok1x.graph_ops.stores.clock_numbers import RUN, counted
from sok1x.graph_ops.stores.table import Table


class _Thread(threading.local):
    stamped: Tuple[Set[str], ...] = ()  # what `stamping` has given and is not over


_thread = _Thread()
_counting: Any = weakref.WeakSet()  # graphs in which ops that stamp rows were made when there was no global step
_stepping: Any = weakref.WeakSet()  # and those in which such ops have it, who may be the same
_tellers: Any = weakref.WeakKeyDictionary()  # graph -> the names of what `make_teller` has made there, and was given

TOLD = -2 ** 62  # a time for step_at.py: tables have been told of the global step, which has been set in no step


@contextlib.contextmanager
def stamping() -> Iterator[Set[str]]:
    """The names of the tables of which ops that stamp rows are made inside, by this thread: grows meanwhile."""
    before, names = _thread.stamped, set()  # type: Tuple[Set[str], ...], Set[str]
    _thread.stamped = before + (names,)
    try:
        yield names
    finally:
        _thread.stamped = before


def step_inputs(table: Table) -> Tuple[bool, List[tf.Tensor]]:
    """(`global_step` of the config, host inputs) by which an op that stamps rows knows the step: built where the op is.

    Args:
      table: the rows'.
    """
    for names in _thread.stamped:
        names.add(table.name)
    step = _global_step()
    if not is_eager_outside():
        graph = outermost(tf.get_default_graph())
        (_counting if step is None else _stepping).add(graph)
        if step is not None:
            told_step.hear(graph)
    return step is not None, [] if step is None else [step]


def _global_step() -> Optional[tf.Tensor]:
    """The value of the graph's global step, or None where it has none."""
    found = None if is_eager_outside() else global_step_of(tf.get_default_graph())
    return None if found is None else tf.convert_to_tensor(found)


def global_step_of(graph: tf.Graph) -> Any:
    """A graph's global step, or None.

    Not `tf.train.get_global_step`: that takes any tensor of this name, one that must be fed too.
    """
    found = graph.get_collection(tf.GraphKeys.GLOBAL_STEP) or [
        variable for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        if variable.name == "global_step:0"]
    if not found or not found[0].dtype.base_dtype.is_integer or found[0].shape.rank not in (0, None):
        return None
    return found[0]


def is_global_step(variable: Any) -> bool:
    """Whether a variable is the default graph's global step."""
    return global_step_of(tf.get_default_graph()) is variable


def tell_step() -> tf.Operation:
    """An op for a run that moves the graph's global step, which there is, without a gradient of a table: by this its
    tables hear of it. To be run before it moves."""
    graph = outermost(tf.get_default_graph())
    if not _counts(graph):
        told_step.hear(graph)
    return told_step.tell(graph, _global_step())


def make_teller(hears: Optional[Tuple[tf.Tensor, tf.Tensor]] = None) -> None:
    """Makes what `tell_outside` runs in the default graph, or that around its functions: once in each.

    Args:
      hears: of a table that forgets, what runs then: a time to feed, and the step of `step_at`.
    """
    with tf.init_scope(), tf.device("/cpu:0"):
        graph = tf.get_default_graph()
        if graph not in _tellers:
            step = tf.placeholder(tf.int64, [], name="restored_step")
            _tellers[graph] = step.name, told_step.tell(graph, step, name="tell_restored_step").name, []
        if hears is not None:
            _tellers[graph][2].append([tensor.name for tensor in hears])


def tell_outside(session: Any) -> None:
    """Tells the tables of a session's graph how far its global step is, which has been set in no step."""
    made = _tellers.get(session.graph)
    step = 0 if made is None else step_outside(session.graph, session)
    if step:
        told_step.hear(session.graph)
        with told_step.set_outside(session.graph, step - 1):
            session.run(made[1], {made[0]: step - 2})  # as the last run before would have
        for time, found in made[2]:
            with contextlib.suppress(tf.errors.FailedPreconditionError):  # the table has no values yet
                session.run(found, {time: TOLD})


def step_outside(graph: tf.Graph, session: Any) -> int:
    """The step of what changes now, in no step of a program's, by the graph's global step; 0 where nothing says it, or
    tables do not go by it: it has been made later than what trains them."""
    found = None if _counts(graph) else global_step_of(graph)
    try:
        return 0 if found is None else int(session.run(found)) + 1
    except (tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError):  # it has no value, or must be fed
        return 0


def _counts(graph: tf.Graph) -> bool:
    """Whether no table of a graph goes by its global step. Where some do and some do not, the step that the first ones
    have is the later one as a rule: a row with too late a stamp is dumped again, one with too early a stamp never."""
    return graph in _counting and graph not in _stepping


def stamp(store: Any, global_step: bool, rows: Optional[Any], tells: bool = False) -> None:
    """Stamps rows that change in this run.

    Args:
      store: with stamps and clock, locked exclusively.
      global_step: as `step_inputs` gave it; the host inputs that go with it are the request's last.
      rows: `Array` int32 [n], those outside the table are left out; None: all rows.
      tells: whether the graph's other tables go by this step too, where lookups insert rows in this run.
    """
    table = store.table
    store.about_to_change(rows)
    values, clock = store.stamps, store.clock
    ahead, step = next_step(store.request, table, global_step, tells)
    step_times.before_stamps(store, ahead, step)
    step_times.stamps_now(table.name, store.request)
    if ahead:
        stamps.advance(clock, ahead, 0)
    if rows is not None:
        stamps.stamp_rows(rows, step, clock, values.front(store.capacity))
    else:
        stamps.advance(clock, 0, step)
        store.stamp_every(0, 0)


def next_step(request: Any, table: Table, global_step: bool, tells: bool) -> Tuple[int, int]:
    """(steps by which the table's clock moves on, the least that it shows then) where rows change in this run.

    Args:
      global_step, tells: as for `stamp`.
    """
    step, ahead = 0, moves_ahead(request, [table.name], global_step)[0]
    if global_step:
        step = int(request.host_inputs[-1].numpy()) + 1
        if tells:
            tell(request, step)
    return ahead, step


def moves_ahead(request: Any, tables: List[str], global_step: bool) -> List[int]:
    """For each table, by name, the first number of `next_step`; they count as changed in this run from now on."""
    ahead = []
    for last in map(counted, tables):
        ahead.append(0 if global_step or last[RUN] == request.step else 1)
        last[RUN] = request.step
    return ahead


def tell(request: Any, step: int) -> None:
    """The graph's other tables go by this step too, where lookups insert rows in this run."""
    told = told_step.of(request)
    if told is not None:
        told.set(request.step, step)


def last_step(store: Any) -> int:
    """The last step that a store's table or, as far as they have told, others of its graph have shown."""
    told = told_step.of(store.request)
    return max(int(store.clock.read()), 0 if told is None else told.get()[1])


def stamp_new(store: Any, first: int, count: int) -> None:
    """Stamps rows that a lookup has just inserted: `store` as for `stamp`.

    A lookup does not know the global step. It is the table's last step if a gradient of this run has set that, else one
    later; and likewise for the other tables of its graph, of which some may be trained more often.
    """
    ahead, at_least = step_of_new(store.request, store.table.name)
    stamps.stamp_range(ahead, at_least, store.clock, store.stamps.some(first, count))


def step_of_new(request: Any, table: str) -> Tuple[int, int]:
    """(steps after the clock's, the least step) of rows that a lookup inserts: see `stamp_new`. table: its name."""
    told = told_step.of(request)
    run, step = (0, 0) if told is None else told.get()
    return after_last(request, table), step if run == request.step else step + 1


def after_last(request: Any, table: str) -> int:
    """How much later than its last step a table, by its name, changes in a run of which the step is not known."""
    return 0 if counted(table)[RUN] == request.step else 1
