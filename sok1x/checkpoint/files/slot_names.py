"""One slot under two names: those that optimizers give their variables in a graph, eagerly, and in Keras' generations.

Adam's slot m of the table of a layer 'ads' is, by Keras' legacy Adam, 'Adam/ads/EmbeddingVariable/m', and eagerly of a
table that grows 'ads/EmbeddingVariable/ads/EmbeddingVariable/m'; by the newer one 'm/ads/EmbeddingVariable' in a graph
and 'Adam/m/ads/EmbeddingVariable' eagerly. tf.train's is 'ads/EmbeddingVariable/Adam' in both, but for tables that
grow. Without the table's name two parts are left: the slot's own name, which must be the same, and scopes around it, of
which one may have fewer.
"""
from typing import Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted
from sok1x.checkpoint.files.shard_names import SLOT


class RenamedSource(TableSource):
    """Gives a table's rows where the checkpoint has the table, or its slots, under other names.

    Args:
        checkpoint, rank, ranks, wanted: as for `TableSource`.
        table: what the checkpoint calls it.
        here: {the checkpoint's name of a part: the model's}, of all parts that are wanted.
    """

    def __init__(self, checkpoint: Checkpoint, table: str, here: Dict[str, str], rank: int, ranks: int,
                 wanted: Wanted) -> None:
        self._here = here
        super().__init__(checkpoint, table, rank, ranks,
                         wanted._replace(parts={then: wanted.parts[part] for then, part in here.items()}))

    def chunks(self) -> Iterator[Tuple[np.ndarray, Dict[str, np.ndarray]]]:
        """As `TableSource.chunks`."""
        for keys, rows in super().chunks():
            yield keys, {self._here[part]: values for part, values in rows.items()}


def matched(here: Dict[str, str], saved: Collection[str], tables: Iterable[str],
            scoped: Mapping[str, str]) -> Dict[str, str]:
    """Finds slots that a checkpoint does not have under their names.

    Args:
        here: {the checkpoint's name of a part, as far as it is known: the model's}.
        saved: the checkpoint's parts.
        tables: what the table is called, here and there.
        scoped: {the model's name of a part: that with the optimizer's scope}, where it has no scope and that is known:
            a slot of another optimizer is none of this one's.

    Returns:
        The same, with the names that the checkpoint has where there is exactly one that fits.
    """
    known = sorted((tuple(table.split("/")) for table in tables), key=len, reverse=True)
    free = [part for part in saved if part.startswith(SLOT) and part not in here]
    found = {}
    for then, part in here.items():
        if then.startswith(SLOT) and then not in saved:
            wanted = _slot(scoped.get(part, then), known)
            fitting = [one for one in free if _fits(_slot(one, known), wanted)]
            if len(fitting) == 1:
                then = fitting[0]
        found[then] = part
    return found if len(found) == len(here) else here


def _slot(part: str, tables: List[Tuple[str, ...]]) -> Optional[Tuple[Tuple[str, ...], str]]:
    """The scopes around a slot's own name, and that; None where it is of no such table."""
    words = tuple(part[len(SLOT):].strip("/").split("/"))
    left = words
    for table in tables:
        at = 0
        while at + len(table) <= len(left):
            if left[at:at + len(table)] == table:
                left = left[:at] + left[at + len(table):]
            else:
                at += 1
    return (left[:-1], left[-1]) if left and left != words else None


def _fits(one: Optional[Tuple[Tuple[str, ...], str]], other: Optional[Tuple[Tuple[str, ...], str]]) -> bool:
    if one is None or other is None or one[1] != other[1]:
        return False
    shorter, longer = sorted((one[0], other[0]), key=len)
    return longer[len(longer) - len(shorter):] == shorter
