"""Whose shards a list of weights has: `get_weights` notes it in an index, and `set_weights` looks.

A lookup asks for a key on the rank to which it belongs: in the shard of another its row would be there, and be found by
nobody. Of keys themselves one cannot tell, for tf.nn.embedding_lookup gives rows to other ranks' keys, too. A place of
an index without a row, of which there always are some, may have any key (cuda_kernels/hash_index.cuh): the note.
"""
from typing import Any, Iterable, List, Optional, Tuple

import numpy as np

from sok1x import launch
from sok1x.core.frameworks import placement_notes

_NOTE = 0x534F4B31 << 32  # and the rank, and how many there are, 16 bits each
_PLACEMENT = 0x534F4B32 << 32  # and one more than `placement_notes.note_of`, in another place, as of several ranks


def noted(tables: Iterable[Any], variables: List[Any], values: List[Any]) -> List[Any]:
    """Values of variables, with a note of whose they are in those of tables' indices.

    Args:
        tables: tables' variables, each with an index.
        variables: those of which `values` are the values.

    Example:
        >>> import numpy as np
        >>> from sok1x.core.frameworks import weights_owner
        >>> weights_owner.noted([], [None], [np.zeros(2)])  # no tables
        [array([0., 0.])]
    """
    world, values = launch.current(), list(values)
    for table in tables if world is not None and world.size < 2 ** 16 else ():
        for place in [place for place, one in enumerate(variables) if one is table.index[0]]:
            free = _free(values[place])
            if len(free):
                values[place] = np.array(values[place])
                values[place][free[-1], 0] = _NOTE | world.rank << 16 | world.size
            if len(free) > 1 and world.size > 1:
                values[place][free[-2], 0] = _PLACEMENT | placement_notes.note_of(table) + 1
    return values


def expect_own(tables: Iterable[Any], pairs: List[Tuple[Any, Any]]) -> List[Tuple[Any, Any]]:
    """Looks at what is to be assigned, and takes notes out of it. What has none, as of an earlier sok1x, is taken.

    Args:
        tables: as of `noted`.
        pairs: (variable, value).

    Returns:
        The pairs to assign. What was computed with, as averages of lists are, is no list of a rank's any more.

    Raises:
        ValueError: weights of another rank, of another number of ranks, or of a table with other rows on each rank.

    Example:
        >>> from sok1x.core.frameworks import weights_owner
        >>> weights_owner.expect_own([], [])
        []
    """
    world, pairs = launch.current(), list(pairs)
    for table in tables:
        for place in [place for place, (one, _) in enumerate(pairs) if one is table.index[0]]:
            index = np.asarray(pairs[place][1])
            if index.dtype != np.int64:
                index = np.array(index)
                index[_free(index), 0] = 0
                pairs[place] = pairs[place][0], index
                continue
            note, placement = _note_of(index, _NOTE), _note_of(index, _PLACEMENT)
            if note is None:
                continue
            rank, size = int(index[note, 0]) >> 16 & 0xFFFF, int(index[note, 0]) & 0xFFFF
            if world is not None and (rank, size) != (world.rank, world.size):
                raise ValueError((
                    "set_weights: table '{}': got what get_weights has given on rank {} of {}, expected that of rank "
                    "{} of {}: each rank has its own rows. For another number of ranks save by "
                    "sok.CheckpointManager").format(table.table.name, rank, size, world.rank, world.size))
            if placement is not None:
                placement_notes.expect(table, (int(index[placement, 0]) & 0xFFFFFFFF) - 1, "what get_weights has given",
                                       ValueError)
            index = np.array(index)
            index[[one for one in (note, placement) if one is not None], 0] = 0
            pairs[place] = pairs[place][0], index
    return pairs


def _free(index: Any) -> np.ndarray:
    """Places of an index, int64 [slots, 2] of keys and rows, that no key has."""
    return np.flatnonzero(index[:, 1] < 0) if index.ndim == 2 else np.zeros(0, np.int64)


def _note_of(index: np.ndarray, mark: int) -> Optional[int]:
    """The place of a note with this mark; None where there is none."""
    free = _free(index)
    found = free[index[free, 0] & ~0xFFFFFFFF == mark]
    return int(found[-1]) if len(found) else None
