"""Ops announced in bundles against the same ops announced one by one: whatever happens, every announcement gets the
same answer at the same time, so nothing waits in a bundle that would not wait alone."""
import random
import re

import pytest
from launch_simulation import Job, ready

from sok1x.launch.errors import RESOURCE_EXHAUSTED, LaunchError

OPS = 6
GRADIENT = 5      # of op 0
LOOP = 4          # runs twice in a step
PLAN = "\n".join("op {}".format(op) for op in range(OPS))


class Session:
    """One session of one rank: its step, what that has still to announce, and what it waits for."""

    def __init__(self, context, rivals, signature):
        self.context, self.rivals, self.signature = context, rivals, signature
        self.step, self.todo, self.open, self.failed, self.lookup = 0, [], {}, False, None

    def begin(self, chance, step):
        self.step, self.failed, self.lookup = step, False, None
        self.todo = [(op, 0) for op in range(OPS)] + [(LOOP, 1)]
        chance.shuffle(self.todo)

# Seconds, in powers of two: added up they are exact, so that both jobs see a limit reached at the same moment.
PAUSES = 0.0, 0.0, 2.0 ** -10, 2.0 ** -4, 2.0 ** -2

class Pair:
    """The same program in two jobs: `jobs[0]` hears announcements one by one, `jobs[1]` in bundles."""

    def __init__(self, size, chance):
        self.size, self.chance = size, chance
        self.jobs = [Job(size, stall=1.0, abort=60.0, deadlock=10.0) for _ in range(2)]
        self.answered = [[{} for _ in range(size)] for _ in range(2)]  # of each job and rank: ticket -> Decision
        self.heard = [[0] * size for _ in range(2)]
        self.steps = [0] * size
        self.sessions = []
        odd = chance.random() < 0.2  # rank 0 asks for more in its runs than the others
        for rank in range(size):
            numbers = sorted(chance.sample(range(9), 3))
            self.sessions.append([Session(number, numbers[:k], 7 + k + 10 * (odd and rank == 0))
                                  for k, number in enumerate(numbers)])

    def announce(self, rank):
        """Rank `rank` announces some of what its sessions have to."""
        readies, owners = [], []
        for session in self.chance.sample(self.sessions[rank], self.chance.randint(1, len(self.sessions[rank]))):
            if not session.todo and (not session.open or self.chance.random() < 0.2):
                self.steps[rank] += self.chance.randint(1, 3)
                session.begin(self.chance, self.steps[rank])
            for _ in range(min(len(session.todo), self.chance.choice((0, 1, 3, 7)))):
                item = session.todo.pop()
                if item[0] == GRADIENT and session.lookup is None:
                    session.todo.insert(0, item)
                    continue
                readies.append(self.readies(rank, session, *item))
                owners.append((session, item))
        for (single, _), (session, item) in zip(readies, owners):
            session.open[self.jobs[0].ranks[rank].announce(single)] = item
        bundled = [ready for _, ready in readies]
        while bundled:
            count = self.chance.randint(1, len(bundled))
            self.jobs[1].ranks[rank].announce_all(bundled[:count])
            bundled = bundled[count:]

    def readies(self, rank, session, op, iteration):
        """The Ready in either job: they number their decisions independently."""
        error, numbers = None, (rank, session.context, session.step)
        if self.chance.random() < 0.02:
            error = LaunchError(RESOURCE_EXHAUSTED, "full {} {}".format(rank, self.steps[rank]), rank)
        elif self.chance.random() < 0.01:
            numbers += (1,)
        ties = (0, 0) if op != GRADIENT else [self.answered[job][rank][session.lookup].number for job in range(2)]
        return [ready((session.context, op), numbers, error, PLAN, session.step, graphs=2, rivals=session.rivals,
                      instance=(tie, 0, iteration, session.signature)) for tie in ties]

    def withdraw(self, rank):
        """Rank `rank` would take something back."""
        tickets = [ticket for session in self.sessions[rank] for ticket in session.open]
        for ticket in self.chance.sample(tickets, min(len(tickets), self.chance.choice((1, 1, 9)))):
            for job in self.jobs:
                job.ranks[rank].withdraw(ticket)

    def undo(self):
        """Something that all ranks have run lately has failed on all of them."""
        runs = [[decision for decision in job.heard[0] if decision.error is None][-8:] for job in self.jobs]
        if runs[0]:
            ticket = self.chance.choice(runs[0]).ticket
            for job in range(2):
                number = self.answered[job][0][ticket].number
                for rank in range(self.size):
                    self.jobs[job].ranks[rank].undone(number)

    def forget(self, rank):
        """A session of rank `rank` is gone, and nobody runs anything in its like any more."""
        session = self.chance.choice(self.sessions[rank])
        if len(self.sessions[rank]) > 1 and not session.open:
            place = self.sessions[rank].index(session)
            if all(not sessions[place].open for sessions in self.sessions):
                for one, sessions in enumerate(self.sessions):
                    context = sessions.pop(place).context
                    for job in self.jobs:
                        job.ranks[one].forget(context)

    def settle(self, seconds):
        """Time passes; whatever can be decided is, in both jobs. Compares the answers."""
        for job in self.jobs:
            job.settle(seconds)
        for rank in range(self.size):
            for number, job in enumerate(self.jobs):
                fresh = job.heard[rank][self.heard[number][rank]:]
                self.heard[number][rank] += len(fresh)
                self.answered[number][rank].update((decision.ticket, decision) for decision in fresh)
            singly, bundled = (job[rank] for job in self.answered)
            assert singly.keys() == bundled.keys()
            for session in self.sessions[rank]:
                for ticket in [ticket for ticket in session.open if ticket in singly]:
                    self.compare(singly[ticket], bundled[ticket])
                    item = session.open.pop(ticket)
                    if singly[ticket].error is not None:
                        session.failed, session.todo = True, []
                    elif item[0] == 0:
                        session.lookup = ticket
            assert str(self.jobs[0].ranks[rank].job_error) == str(self.jobs[1].ranks[rank].job_error)

    @staticmethod
    def warned(job, rank):
        """The ops that a rank has been warned of when they had waited a second."""
        return set(re.findall(r"op '(\w+)' has waited 1 s", " ".join(job.warnings[rank])))

    @staticmethod
    def compare(one, other):
        assert (one.op, one.name) == (other.op, other.name)
        if one.error is None:
            assert other.error is None and one.headers.tolist() == other.headers.tolist()
        else:
            assert (one.error.code, one.error.message, one.error.rank) == (
                other.error.code, other.error.message, other.error.rank)


@pytest.mark.parametrize("size", [2, 3])
def test_bundles_get_the_answers_that_single_ops_get(size, seed):
    failed = runs = together = 0
    for program in range(6):
        chance = random.Random("{} {}".format(seed, program))
        pair = Pair(size, chance)
        for _ in range(150):
            kind, rank = chance.random(), chance.randrange(size)
            if kind < 0.8:
                pair.announce(rank)
            elif kind < 0.84:
                pair.withdraw(rank)
            elif kind < 0.87:
                pair.undo()
            elif kind < 0.875:
                pair.forget(rank)
            pair.settle(chance.choice(PAUSES))
        pair.settle(PAUSES[-2])
        singly, bundled = pair.jobs
        assert all(job.batches(rank) == job.batches(0) for rank in range(size) for job in pair.jobs)
        # Of which ops, not when: one of which several runs wait is warned of again sooner or later.
        assert all(pair.warned(singly, rank) == pair.warned(bundled, rank) for rank in range(size))
        runs += sum(decision.error is None for decision in bundled.heard[0])
        together += sum(len(members) for _, members in bundled.batches(0) if len(members) > 1)
        failed += bundled.ranks[0].job_error is not None
        assert bundled.wires.sent <= singly.wires.sent
        for job in pair.jobs:
            for rank in chance.sample(range(size), size):
                job.ranks[rank].leaving.begin()
            job.settle(0.1)
        pair.settle(3.0)
    print("{} runs, {} of them in batches; {} of 6 jobs failed".format(runs, together, failed))
    assert runs > 100 and together > 20 and failed < 6
