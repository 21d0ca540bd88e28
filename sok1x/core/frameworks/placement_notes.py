"""How a table's rows are dealt out, noted where a rank's shard is kept as it is: by key, or all on one rank.

Where such a shard comes into a table whose rows are dealt out otherwise, lookups look for keys on ranks that do not
have them, and find nothing. Keys themselves do not tell, for tf.nn.embedding_lookup gives rows to other ranks' keys,
too. So it is noted: in what `get_weights` gives (weights_owner.py), and in the checkpoints of `tf.train.Checkpoint`s,
and of `tf.train.Saver`s with paths of their own (NAME; its neighbours there are checkpoint/savers/one_rank.py's). What
has no note, as of an earlier sok1x, is taken.
"""
import json
from typing import Any, Dict, Optional, Type

from sok1x import launch
from sok1x.graph_ops.stores.placement import Placement

NAME = "sok1x/placements"  # a string in a checkpoint: JSON, {what the table's rows are called there: as of `note_of`}
_BY_KEY = -1


def note_of(table: Any) -> int:
    """How the rows of a table, given as its variable, are dealt out: -1 by key, else the rank that has all."""
    rank = table.table.placement.rank
    return _BY_KEY if rank is None else int(rank)


def text_of(tables: Dict[str, Any]) -> str:
    """What a checkpoint has under NAME.

    Args:
        tables: variables of tables, by the names of their rows there.

    Example:
        >>> from sok1x.core.frameworks import placement_notes
        >>> placement_notes.text_of({})
        '{}'
    """
    return json.dumps({name: note_of(table) for name, table in tables.items()}, sort_keys=True)


def in_checkpoint(reader: Any) -> Dict[str, int]:
    """The notes of a checkpoint, by the names of tables' rows; an earlier sok1x has made none.

    Args:
        reader: as of tf.train.NewCheckpointReader.
    """
    if not reader.has_tensor(NAME):
        return {}
    found: Dict[str, int] = json.loads(reader.get_tensor(NAME))
    return found


def expect(table: Any, note: Optional[int], source: str, error: Type[Exception]) -> None:
    """Refuses rows that were dealt out otherwise than a table's are.

    Args:
        table: the table's variable.
        note: how they were dealt out; None: not known.
        source: where they come from, for people.
        error: the class of what is raised then.
    """
    world, here = launch.current(), note_of(table)
    if note is None or note == here or world is None or world.size == 1:
        return
    raise error((
        "table '{}' on rank {}: got rows that were dealt out otherwise ({}) from {}, expected them {}, as the table is "
        "here (`mode`, `target_gpu`): lookups would not find them. The table is as it was. Give it the `mode` or "
        "`target_gpu` that those were saved with; what sok.CheckpointManager or sok.dump saves then is dealt out anew "
        "where it is restored").format(table.table.name, world.rank, _label(note), source, _label(here)))


def _label(note: int) -> str:
    return Placement(None if note == _BY_KEY else note).label()
