"""SIGKILL at random moments of a save, of all ranks or of one: the last complete checkpoint is found and loads."""
import concurrent.futures
import os
import random
import signal
import sys
import time

import counted_model
import pytest
from ranks import environment, python
from talking import Talking

from sok1x.checkpoint.files import folders

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_kill.py")
CALLS = 300  # of the file system, in about three saves


class Job:
    """What a job said; `saved` is the last number of trainings that it has told to be in a checkpoint."""

    def __init__(self, process):
        self._process = process
        self.pids, self.restored, self.saved, self.times, self.over = {}, {}, None, [], False

    def hear(self, until=lambda job: False):
        """Listens until something is so, or the job is over."""
        while not self.over and not until(self):
            words = self._process.hear()
            if words[:1] == ["pid"]:
                self.pids[int(words[1])] = int(words[2])
            elif words[:1] == ["restored"]:
                self.restored[int(words[1])] = int(words[2])
            elif words[:2] == ["saved", "0"]:
                self.saved = int(words[2])
                self.times.append(time.monotonic())
            elif words[:1] in ([], ["ended"]):
                self.over = True

    def kill(self, ranks, random):
        """Kills some ranks at a random moment of a save, and waits for the end of all."""
        self.hear(until=lambda job: len(job.times) == 3)
        assert not self.over, "the job ended by itself"
        # Nearly all the time is a save's: the tables are small, and every training is followed by a save.
        time.sleep(random.uniform(0, self.times[2] - self.times[0]))
        for rank in ranks:
            os.kill(self.pids[rank], signal.SIGKILL)
        self.hear()


class Chain:
    """Jobs that save to one folder, one after the other, each of which is killed."""

    def __init__(self, folder, ranks, random):
        self.random, self._folder, self._ranks = random, folder, ranks
        self._expected = 0
        self.rounds = self.inside = 0

    def check(self, job):
        """Looks at what a job found at its start, and at what it left."""
        assert job.restored == dict.fromkeys(range(self._ranks), self._expected)
        complete = [counted_model.check_checkpoint(found, self.random.choice([1, 2, 3]))
                    for found in folders.complete(self._folder)]
        assert complete == sorted(complete, reverse=True) and complete
        found = complete[0]
        # The save that was killed may have come to its end, and nobody was told. Of two ranks mpiexec tells.
        least = self._expected if job.saved is None else job.saved
        assert least <= found <= least + self._ranks
        self._expected = found
        self.rounds += 1
        self.inside += bool(counted_model.leftovers(self._folder))


def jobs_of_one_rank(folder, keys, seed, operations, moments):
    """Kills jobs at calls of the file system, and jobs at moments by the clock."""
    chain = Chain(folder, 1, random.Random(seed))
    with Talking(sys.executable, PROGRAM, "serve") as process:
        for operation in operations:
            process.say(folder, keys, 4, operation)
            job = Job(process)
            job.hear()
            chain.check(job)
        for _ in range(moments):
            process.say(folder, keys, 4)
            job = Job(process)
            job.kill([0], chain.random)
            chain.check(job)
    return chain


def jobs_of_two_ranks(folder, keys, seed, rounds):
    """Kills one rank, the other one, or both, in turn; mpiexec ends what is left.

    About every second moment is inside of a save: where none of so many was, more follow.
    """
    chain, program = Chain(folder, 2, random.Random(seed)), python(PROGRAM, environment())
    while chain.rounds < (rounds if chain.inside else 10 * rounds):
        number = chain.rounds
        with Talking("mpiexec", "--oversubscribe", "-np", "2", *program, folder, keys, 16) as process:
            job = Job(process)
            job.kill([[0], [1], [0, 1]][number % 3], chain.random)
            assert process.end() != 0
        chain.check(job)
    return chain


def at_once(*chains):
    """Runs two chains at a time, each (function, arguments...): a round mostly waits."""
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        done = [both.submit(*chain) for chain in chains]
    done = [chain.result() for chain in done]
    return sum(chain.rounds for chain in done), sum(chain.inside for chain in done)


@pytest.mark.parametrize("moments", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_of_all_ranks(moments, tmp_path, seed):
    numbers = random.Random(seed)
    # One of every twenty calls or so, or of forty, that all parts of a save have their share; and what gives and
    # takes names.
    share = CALLS // (14 if moments > 10 else 7)
    calls = ["any:{}".format(numbers.randrange(first, first + share)) for first in range(0, CALLS, share)]
    calls += ["rename:{}".format(number) for number in range(6)]
    calls += ["rmdir:0", "rmdir:1", "unlink:{}".format(numbers.randrange(20)), "mkdir:2", "fsync:30", "open:40"]
    numbers.shuffle(calls)
    rounds, inside = at_once((jobs_of_one_rank, str(tmp_path / "small"), 60, seed, calls[::2], moments),
                             (jobs_of_one_rank, str(tmp_path / "larger"), 5000, seed + 1, calls[1::2], moments))
    assert rounds >= len(calls) + 2 * moments and inside >= len(calls) // 2, "hardly a save was interrupted"


def test_of_one_rank_of_two(tmp_path, seed):
    rounds, inside = at_once((jobs_of_two_ranks, str(tmp_path / "small"), 60, seed, 4),
                             (jobs_of_two_ranks, str(tmp_path / "larger"), 5000, seed + 1, 4))
    assert rounds >= 8 and inside >= 2, "no save was interrupted"


@pytest.mark.slow
def test_of_one_rank_of_two_many_times(tmp_path, seed):
    rounds, inside = at_once((jobs_of_two_ranks, str(tmp_path / "small"), 60, seed, 30),
                             (jobs_of_two_ranks, str(tmp_path / "larger"), 5000, seed + 1, 30))
    assert rounds >= 60 and inside >= 20, "hardly a save was interrupted"
