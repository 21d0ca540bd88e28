"""What summaries say of tables: figures of a rank as a tensor, and what is made of those of one rank or all."""
from typing import Any, Dict, NamedTuple, Optional, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options import given_tables
from sok1x.graph_ops.stores import figures
from sok1x.statistics import table_stats

# What of `table_stats` is in a table's figures, and behind it what is counted while it is used.
STATE = ("rows_in_use", "capacity", "evictions", "hits", "misses")
ALL = STATE + figures.NAMES

_LEVELS = (0.95, 0.80)


class Given(NamedTuple):
    """A table whose figures are wanted: its variable, and whether it has a fixed number of rows that can run out."""

    variable: EmbeddingVariable
    may_be_full: bool

    @property
    def name(self) -> str:
        """The table's."""
        return str(self.variable.table.name)


def given(what: str, table: Any) -> Given:
    """A layer or embedding variable as `Given`.

    Args:
        what: whose argument it is, and its name, for messages.
        table: the layer or variable.

    Returns:
        A `Given`.

    Raises:
        TypeError: it is no table of ours.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x import table_figures
        >>> with tf.Graph().as_default():
        ...     table_figures.given("sok1x.summary: layer", sok.EmbeddingVariable(rows=8, dim=4)).may_be_full
        True
    """
    variable = given_tables.table(what, table)
    described = variable.table
    return Given(variable, described.hashed and not described.grows and described.cache is None)


def of_rank(table: Given) -> tf.Tensor:
    """A table's figures on this rank: float64 [len(ALL)], in the order of `ALL`, when they are read.

    No rank waits for another, and no rows are read.

    Args:
        table: the table.

    Returns:
        The tensor.

    Raises:
        tf.errors.FailedPreconditionError: (when run) a variable has not been initialized.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x import table_figures
        >>> with tf.Graph().as_default():
        ...     table = table_figures.given("sok1x.summary: layer", sok.EmbeddingVariable(rows=8, dim=4))
        ...     table_figures.of_rank(table).shape.as_list()
        [11]
    """
    name = table.name
    with table.variable.graph.as_default(), tf.device("/device:CPU:0"):
        stats = table_stats(table.variable)
        state = tf.stack([tf.cast(getattr(stats, name), tf.float64) for name in STATE])
        read = tf.py_func(lambda: figures.read(name), [], tf.float64, stateful=True)
        read.set_shape([len(figures.NAMES)])
        return tf.concat([state, read], 0)


def scalars(now: np.ndarray, last: np.ndarray, steps: float, has_cache: bool = False) -> Dict[str, float]:
    """What a table's figures say, of one rank or several.

    Args:
        now: float64 [N, len(ALL)], of each rank.
        last: the same at an earlier time.
        steps: how many steps have been made since; 0: nothing is said of what a step brings.
        has_cache: whether the table has rows in a cache.

    Returns:
        {name: value}. rows_in_use: of all ranks; share_of_capacity: of the fullest shard; distinct_share: of the keys
        of a batch. For each step: new_keys, evictions, sent_bytes, received_bytes, cache_hits and cache_misses of all
        ranks together; waiting_ms: for other ranks, the mean over ranks, and waiting_ms_most, of the one that has
        waited longest.

    Example:
        >>> import numpy as np
        >>> from sok1x import table_figures
        >>> last, now = np.zeros([1, 11]), np.array([[50.0, 100, 0, 0, 0, 80, 60, 0, 0, 0, 0]])
        >>> found = table_figures.scalars(now, last, 10)
        >>> found["share_of_capacity"], found["new_keys"], found["distinct_share"]
        (0.5, 5.0, 0.75)
    """
    def of(name: str) -> np.ndarray:
        return now[:, ALL.index(name)]

    def since(name: str) -> np.ndarray:
        return of(name) - last[:, ALL.index(name)]

    found = {"rows_in_use": of("rows_in_use").sum(),
             "share_of_capacity": (of("rows_in_use") / np.maximum(of("capacity"), 1)).max()}
    if since("keys").sum() > 0:
        found["distinct_share"] = since("distinct").sum() / since("keys").sum()
    if steps > 0:
        waited = since("waited") / 1000 / steps
        found.update(
            new_keys=(since("rows_in_use") + since("evictions")).sum() / steps,
            evictions=since("evictions").sum() / steps,
            sent_bytes=since("sent").sum() / steps, received_bytes=since("received").sum() / steps,
            waiting_ms=waited.mean(), waiting_ms_most=waited.max())
        if has_cache:
            found.update(cache_hits=since("hits").sum() / steps, cache_misses=since("misses").sum() / steps)
    return {name: float(value) for name, value in found.items()}


def summary_of(values: Dict[str, Dict[str, float]]) -> tf.Summary:
    """Scalars of tables as a `tf.Summary`: a table's 'rows_in_use' is 'TABLE/rows_in_use'.

    Args:
        values: {table: {name: value}}.

    Returns:
        A tf.Summary.

    Example:
        >>> from sok1x import table_figures
        >>> table_figures.summary_of({"ads": {"rows_in_use": 5.0}}).value[0].tag
        'ads/rows_in_use'
    """
    return tf.Summary(value=[tf.Summary.Value(tag="{}/{}".format(table, name), simple_value=value)
                             for table, of_table in values.items() for name, value in of_table.items()])


class Fullness:
    """Warns, once each, of shards of fixed size that are 80 % and 95 % full.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x import table_figures
        >>> with tf.Graph().as_default():
        ...     table = table_figures.given("sok1x.summary: layer", sok.EmbeddingVariable(rows=100, dim=4))
        >>> fullness = table_figures.Fullness()
        >>> [fullness.look(table, 0, used, 100) for used in (79, 80, 85, 96)]
        [None, 0.8, None, 0.95]
    """

    def __init__(self) -> None:
        self._said: Set[Tuple[str, int, float]] = set()

    def look(self, table: Given, rank: int, used: float, capacity: float) -> Optional[float]:
        """Looks at a shard.

        Args:
            table: its table.
            rank: whose it is.
            used: rows in use.
            capacity: rows that it has.

        Returns:
            The share of which it has warned, or None.
        """
        if not table.may_be_full:
            return None
        for level in _LEVELS:
            if used < level * capacity:
                continue
            if (table.name, rank, level) in self._said:
                return None
            self._said.update((table.name, rank, lower) for lower in _LEVELS if lower <= level)
            tf.logging.warning(
                "sok1x: table '%s' is %d %% full on rank %d: %d of %d rows (max_vocabulary_size_per_gpu) are in use, "
                "and training fails when it is full. Raise max_vocabulary_size_per_gpu, set it to None to let the "
                "table grow, or train on more ranks; a checkpoint can be restored into a larger table.",
                table.name, int(100 * used / capacity), rank, used, capacity)
            return level
        return None

    def look_at_all(self, table: Given, now: np.ndarray) -> None:
        """Looks at the shards of ranks.

        Args:
            table: the table.
            now: float64 [N, len(ALL)]; of this rank alone where N is 1.
        """
        used, capacity = (now[:, ALL.index(name)] for name in ("rows_in_use", "capacity"))
        for number in range(len(now)):
            rank = number if len(now) > 1 else _rank()
            self.look(table, rank, used[number], capacity[number])


def _rank() -> int:
    world = launch.current()
    return 0 if world is None else int(world.rank)
