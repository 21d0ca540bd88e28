"""What ranks tell each other while they save or restore together, so that all go on or all stop."""
import contextlib
import json
import os
import socket
import stat
from typing import Any, Callable, ContextManager, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError
from sok1x.core.eagerly import eager
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.operations.gather_bytes import gather_bytes

_NUMBER = 8  # bytes of each of the numbers that a message begins with


class _Call:
    """What a thread talks about, how often so far, and whether what begins inside may be a part of it."""

    def __init__(self, what: str, has_parts: bool = True) -> None:
        self.what, self.number, self.has_parts = what, 0, has_parts


class Ranks:
    """Exchanges small values between the ranks' hooks. Made before the graph is finalized; all ranks call alike."""

    def __init__(self, name: str) -> None:
        self._payload = eager.placeholder(tf.uint8, [None], name=name + "_payload")
        self._gathered = gather_bytes(self._payload, name=name)
        self._call = ThreadScope()  # its value is a _Call

    def about(self, what: str) -> ContextManager[None]:
        """Inside, all of this thread's exchanges are about `what`, one call, as 'save m/model.ckpt-5': all ranks must
        be at the same one of the same. A rank that was stopped in the middle, and begins again, is not."""
        return self._entered(_Call(what))

    def about_if_nothing(self, what: str) -> ContextManager[None]:
        """As `about`; inside such a block it is a part of that call. Inside of one of these it is a call of its own,
        as of a signal's handler that saves in the middle of a save: that one counts on from where it was."""
        call = self._call.value
        return contextlib.nullcontext() if call and call.has_parts else self._entered(_Call(what, has_parts=False))

    def _entered(self, call: _Call) -> ContextManager[None]:
        return self._call.entered(call)

    @property
    def rank(self) -> int:
        """This rank."""
        world = launch.current()
        return 0 if world is None else int(world.rank)

    def gather(self, session: Any, payload: np.ndarray) -> List[np.ndarray]:
        """Every rank's bytes, uint8 [n], in the order of the ranks; n may differ.

        Raises:
            CheckpointError: some ranks talk about something else, or are not as far in it.
        """
        call = self._call.value or _Call("")
        call.number += bool(call.what)
        mine = call.what, call.number
        told = [_unpacked(part) for part in self._gather(session, _packed(*mine, payload))]
        for rank, (what, number, _) in enumerate(told):
            if (what, number) != mine:
                at = ["'{}'".format(one) + (" ({})".format(place) if what == call.what else "")
                      for one, place in (mine, (what, number))]
                raise CheckpointError("{} is at {}, and {} at {}: all ranks must do the same with tables, in one "
                                      "order.".format(launch.starting(self.rank), at[0], launch.named(rank), at[1]))
        return [given for _, _, given in told]

    def _gather(self, session: Any, payload: np.ndarray) -> List[np.ndarray]:
        together, lengths = session.run(self._gathered, {self._payload: payload})
        return list(np.split(together, np.cumsum(lengths)[:-1]))

    def exchange(self, session: Any, value: Any) -> List[Any]:
        """What every rank gave: things that JSON can hold, in the order of the ranks."""
        parts = self.gather(session, np.frombuffer(json.dumps(value).encode(), np.uint8))
        return [json.loads(part.tobytes().decode()) for part in parts]

    def expect_same_step(self, session: tf.Session, verb: str, given: Optional[int]) -> None:
        """Before all else: whether all ranks were given one step. For rank 0 goes by its own, and makes a folder.

        Shards say of which step they are, so those of several would be a checkpoint that nobody can restore.

        Args:
            session: as for `exchange`.
            verb: what they were to do, 'save' or 'restore'.
            given: the step; None: the last.

        Raises:
            CheckpointError: they were not, on all ranks.
        """
        steps = self.exchange(session, given)
        if any(step != steps[0] for step in steps):
            raise CheckpointError((
                "The ranks {} different steps: {}. All ranks take part in one checkpoint; nothing was {}d. Give every "
                "rank the same step (a hook's is the global step).").format(verb, ", ".join(
                    "{} {}".format(launch.named(rank), "the last" if step is None else step)
                    for rank, step in enumerate(steps)), verb))

    def agree(self, session: tf.Session, work: Callable[[], Any]) -> List[Any]:
        """Does this rank's work and returns what every rank's gave. If it fails on one rank, it has failed on all.

        Raises:
            CheckpointError: this rank's own error; or else that of the lowest rank that has one, with its number.
        """
        value, failed = None, None  # type: Any, Optional[Exception]
        try:
            value = work()
        except Exception as error:  # whatever it is, the other ranks must hear of it
            failed = error
        try:
            told = self.exchange(session, [_message(failed), value])
        except Exception as error:
            if failed is None:
                raise
            raise failed from failed.__cause__ or error  # nobody has heard of it, so this rank must say it
        if failed is not None:
            raise failed
        for rank, (message, _) in enumerate(told):
            if message is not None:
                raise CheckpointError("{}: {}".format(launch.starting(rank), message))
        return [given for _, given in told]


def expect_seen(folder: str, by_rank_0: str) -> None:
    """Raises CheckpointError where this rank does not see a folder that rank 0 does, or may not look; `by_rank_0`:
    what that did there."""
    try:
        seen = stat.S_ISDIR(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        seen = False
    except OSError as error:
        raise errors.of_read(error, folder, "the folder that {} has {}".format(launch.named(0), by_rank_0)) from None
    if not seen:
        raise CheckpointError((
            "{} does not see the folder {} that {} has {}: it must be on a file system that all ranks share, under "
            "one path").format(socket.gethostname(), folder, launch.named(0), by_rank_0))


def _message(error: Optional[Exception]) -> Optional[str]:
    return None if error is None else str(getattr(error, "message", error))


def _packed(what: str, number: int, payload: np.ndarray) -> np.ndarray:
    """What is said, uint8 [n], behind what it is about."""
    words = what.encode()
    head = len(words).to_bytes(_NUMBER, "little") + number.to_bytes(_NUMBER, "little") + words
    return np.concatenate([np.frombuffer(head, np.uint8), payload])


def _unpacked(told: np.ndarray) -> Tuple[str, int, np.ndarray]:
    length, number = [int.from_bytes(told[at:at + _NUMBER].tobytes(), "little") for at in (0, _NUMBER)]
    end = 2 * _NUMBER + length
    return told[2 * _NUMBER:end].tobytes().decode(), number, told[end:]
