"""Whether all ranks gave sok.Init equal arguments: the comparison, and the wait for ranks that have not come yet."""
import json
import threading
import time

import numpy as np

from .errors import DEADLINE_EXCEEDED, INVALID_ARGUMENT, LaunchError
from .hosts import rank_list
from .launcher import cluster_words
from .siblings import LOOK_SECONDS

_MISSING = "(not given)"


def encode(arguments):
    """JSON text (bytes) of a dict of arguments; values that JSON does not know go by their repr."""
    return json.dumps(arguments, sort_keys=True, default=repr).encode("utf-8")


def compare(everyones):
    """Compares the arguments of all ranks.

    Args:
        everyones: One dict of arguments for each rank, in rank order.

    Raises:
        LaunchError: INVALID_ARGUMENT naming each argument that differs, with ranks and values. Its rank is the
            first that differs from rank 0.
    """
    differing, first = [], len(everyones)
    for name in sorted({name for arguments in everyones for name in arguments}):
        holders = {}
        for rank, arguments in enumerate(everyones):
            text = json.dumps(arguments[name]) if name in arguments else _MISSING
            holders.setdefault(text, []).append(rank)
        if len(holders) > 1:
            groups = sorted(holders.items(), key=lambda item: item[1])
            first = min(first, groups[1][1][0])
            differing.append("{}: {}".format(name, "; ".join(
                "{} gave {}".format(rank_list(ranks), text) for text, ranks in groups)))
    if differing:
        raise LaunchError(INVALID_ARGUMENT, (
            "sok.Init: the ranks disagree on its arguments. {}. Every rank must give the same values.").format(
                ". ".join(differing)), rank=first)


def compare_texts(texts):
    """Compares what `encode` gave on each rank (list of bytes in rank order). Raises LaunchError as `compare` does."""
    if any(text != texts[0] for text in texts):
        compare([json.loads(text.decode("utf-8")) for text in texts])


class Patience:
    """Warns when a wait at the start lasts longer than `stall` seconds, and says when it has lasted `abort`."""

    def __init__(self, who, stall, abort, warn, clock=time.monotonic, gone=lambda: None):
        self._who, self._stall, self._abort, self._warn, self._clock = who, stall, abort, warn, clock
        self._gone = gone
        self._begin = clock()
        self._warned = self._looked = 0

    def check(self):
        """Warns if it is time to.

        Raises:
            LaunchError: DEADLINE_EXCEEDED once `abort` seconds have passed, or where `gone()` says which ranks will
                never come.
        """
        waited = self._clock() - self._begin
        if waited >= LOOK_SECONDS * (self._looked + 1):
            self._looked = int(waited / LOOK_SECONDS)
            gone = self._gone()
            if gone is not None:
                raise LaunchError(DEADLINE_EXCEEDED, (
                    "sok.Init: not every rank will run it: {}. Every rank must run sok.Init; see why the program ends "
                    "there, or start fewer ranks.").format(gone))
        if self._abort is not None and waited >= self._abort:
            raise LaunchError(DEADLINE_EXCEEDED, (
                "sok.Init: not every rank has run it within {:g} s (SOK1X_ABORT_SECONDS). Every rank must run "
                "sok.Init; see whether one is still starting, has failed, or was not asked to.{}").format(
                    self._abort, cluster_words()))
        if self._stall is not None and waited >= self._stall * (self._warned + 1):
            self._warned = int(waited / self._stall)
            self._warn((
                "{}: sok.Init has waited {:.0f} s for ranks that have not run it yet. Every rank must run sok.Init; "
                "see whether one is still starting, has failed, or was not asked to.{}").format(
                    self._who, waited, cluster_words()))

    def during(self, call, give_up):
        """Runs `call()`, which blocks, and checks beside it; `give_up(error)` is called when patience ends."""
        done = threading.Event()

        def watch():
            while not done.wait(0.2):
                try:
                    self.check()
                except LaunchError as error:
                    give_up(error)
                    return

        watcher = threading.Thread(target=watch, name="sok1x-init-watch", daemon=True)
        watcher.start()
        try:
            return call()
        finally:
            done.set()


def _complete(request, patience):
    """Waits for a nonblocking MPI operation by asking, so that a warning can be given meanwhile."""
    pause = 0.0
    while not request.Test():
        patience.check()
        time.sleep(pause)
        pause = min(0.02, pause + 0.0005)


def duplicate(MPI, comm, patience):
    """A duplicate of `comm` for our own messages (collective). Raises LaunchError when patience ends."""
    copy, request = comm.Idup()
    _complete(request, patience)
    copy.Set_errhandler(MPI.ERRORS_RETURN)
    return copy


def exchange(MPI, comm, payload, patience):
    """Gathers `payload` (bytes) of every rank on every rank (collective).

    Returns:
        A list of bytes in rank order.

    Raises:
        LaunchError: DEADLINE_EXCEEDED when patience ends.
    """
    size = np.array([len(payload)], np.int32)
    sizes = np.zeros(comm.Get_size(), np.int32)
    _complete(comm.Iallgather([size, MPI.INT32_T], [sizes, MPI.INT32_T]), patience)
    ends = np.cumsum(sizes)
    mine = np.frombuffer(payload, np.uint8)
    everyones = np.zeros(int(ends[-1]), np.uint8)
    _complete(comm.Iallgatherv([mine, MPI.BYTE], [everyones, sizes, ends - sizes, MPI.BYTE]), patience)
    return [everyones[end - count:end].tobytes() for count, end in zip(sizes, ends)]
