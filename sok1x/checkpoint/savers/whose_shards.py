"""Whose shards a checkpoint of TensorFlow's alone has: what a rank of several saved for itself, or one rank's all."""
from typing import Any, List

from sok1x import launch
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import former_names
from sok1x.checkpoint.savers import caches, one_rank
from sok1x.checkpoint.savers.held import Held
from sok1x.checkpoint.savers.prefix_saving import Place

OF_ALL = "call sok.CheckpointManager, or a tf.train.Saver of all variables"
TOGETHER = OF_ALL + ", on all ranks with one path"


def are_one_ranks(places: List[Place], world: Any, held: Held) -> bool:
    """Whether a checkpoint of TensorFlow's alone is one rank's whole run, which all ranks restore.

    Args:
        places: where the ranks restore from, in their order.
        world: this rank's.
        held: what is restored.

    Returns:
        False where each rank's is its own of several; or, on one rank, where TensorFlow knows how to read it.

    Raises:
        MismatchError: it is neither, or the ranks' own are of several saves.
    """
    whose = [None if one.mark is None else tuple(one.mark) for one in places]
    for rank, mark in enumerate(whose):
        if mark is not None and mark[:2] != (rank, world.size):
            raise MismatchError((
                "{} has the shards of rank {} of {}, which saved them for itself, and cannot be restored on rank "
                "{} of {}. Restore it on that rank of as many; to go from one number of ranks to another, "
                "{}.").format(places[rank].prefix, mark[0], mark[1], rank, world.size, TOGETHER))
    if world.size == 1:  # what TensorFlow does not know how to read
        prefix, tables = places[0].prefix, held.tables
        one_rank.check_whole(prefix)
        one_rank.check_saved_by_sok1x(prefix, tables)
        return (former_names.are_in(prefix, tables) or one_rank.has_too_many_rows(prefix, tables) or
                held.complaint is None and bool(one_rank.unsaved_memories(prefix, tables, held.name_of)) or
                bool(caches.among(table.variable for table in tables)))
    tokens = [mark[2] for mark in whose if mark is not None]
    if len(tokens) == len(whose):
        expect_one_save(tokens, places)
        return False
    if len({one.prefix for one in places}) > 1:
        raise MismatchError((
            "The ranks restore from paths of their own, {}, and not all of these say whose shards they have: "
            "another sok1x has saved them, or one rank alone. Restore one rank's checkpoint under one path on all "
            "ranks, or on one.").format(by_rank([one.prefix for one in places])))
    return True


def expect_one_save(tokens: List[Any], places: List[Place]) -> None:
    """Raises MismatchError where the ranks restore what is of several saves, by the tokens of these."""
    if len(set(tokens)) > 1:
        raise MismatchError("The ranks restore different checkpoints: {}.".format(
            by_rank([one.prefix for one in places])))


def by_rank(values: List[str]) -> str:
    """What each rank has, for a message."""
    return ", ".join("{}: {}".format(launch.named(rank), value) for rank, value in enumerate(values))
