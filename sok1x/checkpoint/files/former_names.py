"""Names that tables and their slots were saved under by earlier releases.

The table of a layer 'ads' is 'ads/EmbeddingVariable', and its slot 'ads/EmbeddingVariable/Adam'. It was
'EmbeddingVariable' and a number, SOK's name of it (its `m_var_name`); so it still is where the layer has no name.
The table of shared feature columns had in Keras' layers the name of the column that came first, which is its
description's `former_name`. Where a checkpoint has nothing under a variable's name, what it has under the former one is
restored.
"""
import contextlib
import os
import tempfile
from typing import Any, Container, Dict, Iterable, Iterator, List

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.files import shard_names, slot_names
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted
from sok1x.checkpoint.session.tables import TableState
from sok1x.core.eagerly import eager
from sok1x.core.graph_keys import GraphKeys, tables_made_here
from sok1x.core.tables import own_sessions


def former(name: str, tables: Iterable[Any]) -> str:
    """The former name of something that belongs to one of these tables, given as variables; else its own.

    The same of a part of a table, 'slot:' and a name.
    """
    whole = name + "/"
    # Of tables whose names begin alike, as 'ads' and 'ads/EmbeddingVariable', it belongs to the longest.
    for table in sorted(tables, key=lambda each: -len(each.table.name)):
        now, then = table.table.name, table.table.saved_name
        at = whole.find(now + "/")
        while at > 0 and whole[at - 1] not in "/:":
            at = whole.find(now + "/", at + 1)
        if at >= 0:
            of_another = now == then or is_anothers(then, table)
            return name if of_another else (whole[:at] + then + whole[at + len(now):])[:-1]
    return name


def is_anothers(then: str, variable: Any) -> bool:
    """Whether another table is called so now, as one that feature columns do not share may be: what is so is its."""
    return any(hasattr(one, "table") and one is not variable and one.table.name == then for one in eager.collected(
        variable.graph, GraphKeys.GLOBAL_EMBEDDING_VARIABLES))


def saved_as(name: str, saved: Container[str], tables: Iterable[Any]) -> str:
    """What something is called in a checkpoint that has these names; its own name where it has neither."""
    if name in saved:
        return name
    then = former(name, tables)
    return then if then in saved else name


def source_of(checkpoint: Checkpoint, table: TableState, rank: int, ranks: int, wanted: Wanted) -> TableSource:
    """What one table's rows for one rank are read from. Raises CheckpointError where they do not fit."""
    name, here = table.name, {part: part for part in wanted.parts}
    if saved_as(name, checkpoint.manifest.tables, [table.variable]) != name:
        name = table.variable.table.saved_name
        here = {former(part, [table.variable]): part for part in here}
    scoped = {part: shard_names.SLOT + known for part, variable in table.parts.items()
              for known in [eager.scoped_name_of(variable)] if known is not None}
    here = slot_names.matched(here, checkpoint.table(name).parts, {name, table.name}, scoped)
    if all(then == part for then, part in here.items()):
        return TableSource(checkpoint, name, rank, ranks, wanted)
    return slot_names.RenamedSource(checkpoint, name, here, rank, ranks, wanted)


def are_in(prefix: str, tables: List[TableState]) -> bool:
    """Whether one of these tables is under a former name in a checkpoint that TensorFlow wrote on one rank."""
    saved = tf.train.NewCheckpointReader(prefix).get_variable_to_shape_map()
    return any(saved_as(table.name, saved, [table.variable]) != table.name for table in tables)


def of_graph(names: Iterable[str]) -> Dict[str, str]:
    """{name: former name} of those dense variables of the default graph that have one: a table's count of steps."""
    tables = tables_made_here()
    found = {name: former(name, tables) for name in names}
    return {name: then for name, then in found.items() if then != name}


@contextlib.contextmanager
def translated(prefix: str, names: Dict[str, str]) -> Iterator[str]:
    """A checkpoint of dense variables as TensorFlow's Saver expects it.

    Args:
        prefix: the checkpoint. names: as from `of_graph`.

    Returns:
        The prefix; where a variable is under its former name, that of a temporary copy without tables.
    """
    reader = tf.train.NewCheckpointReader(prefix)
    saved = reader.get_variable_to_shape_map()
    there = {name: then for name, then in names.items() if name not in saved and then in saved}
    if not there:
        yield prefix
        return
    of_tables = tuple("/" + then.rpartition("/")[0] + "/" for then in there.values())
    there.update((name, name) for name in saved if not any(table in "/" + name + "/" for table in of_tables))
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        copy = os.path.join(folder, "variables")
        wanted = sorted(there)
        values = [reader.get_tensor(there[name]) for name in wanted]
        given = [tf.placeholder(value.dtype) for value in values]
        with tf.device("/cpu:0"):
            save = tf.raw_ops.SaveV2(prefix=copy, tensor_names=wanted, shape_and_slices=[""] * len(wanted),
                                     tensors=given)
        with tf.Session(config=own_sessions.config()) as session:
            session.run(save, dict(zip(given, values)))
        yield copy
