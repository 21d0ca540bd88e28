"""What keys read that have no row: what they read in an evaluation, or a row that the user chooses."""
from typing import Any, Collection, Dict, NamedTuple, Optional

import numpy as np

from sok1x import launch
from sok1x.graph_ops.operations import init_op
from sok1x.graph_ops.stores.table import Table
from sok1x.serving import initial_rows
from sok1x.serving.sources import Source
from sok1x.serving.subgraphs import config_of, function_of
from sok1x.serving.table_data import default_row

INITIAL = "initial"


class Unseen(NamedTuple):
    """Attributes:
        row: float32 [D], what such keys read where `draw` is None.
        draw: of what each such key has a row of its own.
    """

    row: np.ndarray
    draw: Optional[initial_rows.Draw]


def seed_of(graph_def: Any, given: Optional[int]) -> int:
    """The seed of the tables' first rows: what is given, else what the graph's `sok.Init` has been given, else what the
    ranks have joined with, else the default."""
    if given is not None:
        return given
    for node in graph_def.node if graph_def is not None else ():
        if function_of(node) == "operations.init_op.join":
            seed = int(config_of(node, init_op.InitConfig)[0].seed)
            if seed != init_op.DEFAULT_SEED:  # which says nothing where `sok.init` has come before
                return seed
    world = launch.current()
    return init_op.DEFAULT_SEED if world is None else int(world.arguments["seed"])


def check_names(asked: Dict[str, Any], known: Collection[str]) -> None:
    """Raises ValueError where a table is given a row that there is not."""
    for name in asked:
        if name not in known:
            raise ValueError("sok1x.serving.export_saved_model: unseen: got table '{}', expected {}".format(
                name, " or ".join("'{}'".format(one) for one in sorted(set(known))) or "none"))


def of_table(name: str, dim: int, asked: Any, table: Optional[Table], source: Source, seed: int, ranks: int) -> Unseen:
    """What unseen keys of a table read.

    Args:
        name, dim: the table's.
        asked: 'initial', a number or [D]; or a dict of these by table, where others are 'initial'.
        table: what the graph says of it, or None.
        source: the checkpoint.
        seed: of initial rows. ranks: of the evaluation whose rows they are.

    Raises:
        ValueError: their initial rows are no function of their keys, or nobody knows what they are.
    """
    if isinstance(asked, dict):
        asked = asked.get(name, INITIAL)
    if not (isinstance(asked, str) and asked == INITIAL):
        return Unseen(default_row(dim, "a row for table '{}'".format(name), asked), None)
    if table is None:
        raise ValueError("sok1x.serving.export_saved_model: unseen: the checkpoint {} does not say how rows of table "
                         "'{}' begin: export the model with its graph, or choose what unseen keys read, as "
                         "unseen=0.0".format(source.where, name))
    absent = None if table.forgetting is None else table.forgetting.absent
    if absent is not None:
        return Unseen(np.full([dim], absent, np.float32), None)
    if table.by_row:
        return Unseen(_given_row(table, source), None)
    kind, a, b = table.distribution(ranks)
    if kind in initial_rows.RANDOM:
        draw = initial_rows.Draw(initial_rows.stream_of(seed, table.identity), kind, float(a), float(b),
                                 table.initializer.pool)
        return Unseen(np.zeros([dim], np.float32), draw)
    return Unseen(np.full([dim], a if kind == "constant" else 0.0, np.float32), None)


def _given_row(table: Table, source: Source) -> np.ndarray:
    """The one row that all keys of a growing table begin with."""
    start = source.saved_name(table.name) + "/start"
    if table.grows and source.prefix is not None and start in source.dense().shapes:
        rows = source.dense().get_tensor(start)
        if len(rows) == 1:
            return np.asarray(rows[0], np.float32)
    raise ValueError("sok1x.serving.export_saved_model: unseen: rows of table '{0}' begin with those of a matrix that "
                     "its initializer has filled, and which of them a key gets depends on when it comes: choose what "
                     "unseen keys read, as unseen={{'{0}': 0.0}}".format(table.name))
