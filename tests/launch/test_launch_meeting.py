"""C++'s part in what rank 0 decides (graph_ops/groups/meeting.h) against the leader alone: whatever happens, every
announcement gets the same answer at the same time; and its messages against what they are to say."""
import ctypes
import itertools
import random

import pytest
from launch_simulation import Job, ready
from test_launch_together import GRADIENT, PAUSES, PLAN, Pair

from sok1x.graph_ops.bridge import bridge, lane_ranks, library, op_functions
from sok1x.launch import messages
from sok1x.launch.bundles import PLACE, RUN, Bundle

WAITS, DECIDED, PYTHON = range(3)
_TELL = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)


def number(value):
    """A number as brief messages have it: zigzag, in groups of seven bits, the lowest first."""
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    bits, data = value * 2 if value >= 0 else -value * 2 - 1, b""
    while bits >= 128:
        data, bits = data + bytes([bits % 128 + 128]), bits // 128
    return data + bytes([bits])


def changes(values):
    """Numbers; of zeros how many follow the first."""
    data, at = b"", 0
    while at < len(values):
        data += number(values[at])
        at += 1
        if values[at - 1] == 0:
            zeros = len(list(itertools.takewhile(lambda one: one == 0, values[at:])))
            data, at = data + number(zeros), at + zeros
    return data


def rows(table):
    """A table of numbers: the first row, then each as what it differs in from the one before, once for all alike."""
    if not table[0]:
        return b""
    more = [[one - other for one, other in zip(row, before)] for before, row in zip(table, table[1:])]
    return changes(table[0]) + b"".join(
        number(len(list(alike))) + changes(row) for row, alike in itertools.groupby(more))


def brief(bundle, ops, said):
    """The brief form of a Bundle whose headers have one width."""
    data = bytes([0xf0]) + number(ops) + number(int(said))
    if not said:
        names = "\0".join(bundle.names).encode()
        data += (number(bundle.context) + number(bundle.signature) + number(bundle.count) + number(len(bundle.places))
                 + bundle.places + number(len(names)) + names)
    width = bundle.numbers_in_headers()[0]
    headers = [[int.from_bytes(piece[at:at + 8], "little", signed=True) for at in range(0, 8 * width, 8)]
               for piece in bundle.pieces_of_headers()]
    runs = [list(RUN.unpack(run)) for run in run_pieces(bundle)]
    data += number(bundle.ticket) + number(bundle.step) + rows(runs) + number(width)
    # When the ops were ready, above the mark's first bit, is said once where all have the same.
    readies = {header[0] >> 1 for header in headers} if width else {0}
    ready = readies.pop() if len(readies) == 1 else 0
    return data + number(ready) + rows([[header[0] - 2 * ready] + header[1:] if width else [] for header in headers])


def run_pieces(bundle):
    return [bundle.runs[at:at + RUN.size] for at in range(0, len(bundle.runs), RUN.size)]


class Decides:
    """Puts C++ before the leader of a Job, as LaneRanks does."""

    def __init__(self, job):
        self.loaded = library.load() and op_functions.Library(bridge.PATH).loaded
        self.loaded.sok1x_meeting_open.restype = ctypes.c_void_p
        self.loaded.sok1x_meeting_hear.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int64,
                                                   _TELL]
        self.loaded.sok1x_meeting_take.argtypes = [ctypes.c_void_p, _TELL]
        self.loaded.sok1x_meeting_close.argtypes = [ctypes.c_void_p]
        self.channel = job.ranks[0]._channel
        self.leader, self.transport, self.clock, self.size = self.channel.leader, job.transports[0], job.clock, job.size
        self.meeting = lane_ranks.Meeting(self.loaded, job.size, self.loaded.sok1x_meeting_open(job.size))
        self.leader.lane = self
        self.plainly, self.tick = self.leader.hear, self.leader.tick
        self.leader.hear, self.leader.tick = self.hear, self.ticked
        self.known = [{} for _ in range(job.size)]  # of each rank: what it has said of ops -> its number
        self.waits, self.outcomes = [], [0, 0, 0]
        self.agree, self.give_up, self.undo = self.meeting.agree, self.meeting.give_up, self.meeting.undo

    def close(self):
        self.loaded.sok1x_meeting_close(self.meeting.address)

    def disagree(self):
        self.hand_over()
        self.meeting.disagree()

    def hand_over(self):
        self.waits = []
        self.tell_leader(self.called(self.loaded.sok1x_meeting_take, self.meeting.address)[1])

    def tell_leader(self, told):
        for rank, data in told:
            bundle, = messages.decode(data)
            self.plainly(rank, bundle)

    def called(self, function, *arguments):
        told = []
        outcome = function(*arguments, _TELL(lambda rank, at, size: told.append((rank, ctypes.string_at(at, size)))))
        return outcome, told

    def ticked(self):
        if self.waits and self.clock() - self.waits[0] > 0.05:
            self.hand_over()
        self.tick()

    def hear(self, rank, message):
        if not isinstance(message, Bundle) or not self.leader.idle or len(set(message.numbers_in_headers())) > 1:
            self.hand_over()
            self.plainly(rank, message)
            return
        ops = message._replace(ticket=0, step=0, runs=b"", widths=b"", headers=b"")
        said = ops in self.known[rank]
        data = brief(message, self.known[rank].setdefault(ops, len(self.known[rank])), said)
        outcome, told = self.called(self.loaded.sok1x_meeting_hear, self.meeting.address, rank, data, len(data))
        self.outcomes[outcome] += 1
        if outcome == WAITS:
            self.waits.append(self.clock())
        elif outcome == PYTHON:
            self.waits = []
            self.tell_leader(told)
        else:
            del self.waits[:self.size - 1]
            for rank, data in told[1:]:
                self.transport.send(rank, data)
            word, = messages.decode(told[0][1])
            self.channel._hear(word)


def whole_step(pair, chance):
    """All ranks announce the same, one after the other, if they have nothing else to do in that session."""
    place = chance.randrange(len(pair.sessions[0]))
    sessions = [of_rank[place] for of_rank in pair.sessions]
    if any(session.todo or session.open for session in sessions):
        return
    for rank, session in enumerate(sessions):
        pair.steps[rank] += 1
        session.begin(chance, pair.steps[rank])
        session.todo = []
    ops = sorted(chance.sample(range(GRADIENT), chance.choice((2, GRADIENT))))
    for part in [ops] + [[GRADIENT]] * (0 in ops):
        for rank in chance.sample(range(pair.size), pair.size):
            if part == [GRADIENT] and sessions[rank].lookup is None:
                continue
            readies = [pair.readies(rank, sessions[rank], op, 0) for op in part]
            for (single, _), op in zip(readies, part):
                sessions[rank].open[pair.jobs[0].ranks[rank].announce(single)] = op, 0
            pair.jobs[1].ranks[rank].announce_all([bundled for _, bundled in readies])
            if chance.random() < 0.5:
                pair.settle(0.0)
        pair.settle(0.0)


@pytest.mark.parametrize("size", [2, 3])
def test_c_decides_what_the_leader_would(size, seed):
    decided = python = 0
    for program in range(80):
        if program >= 8 and min(decided, python) > 20:
            break
        chance = random.Random("{} {}".format(seed, program))
        pair = Pair(size, chance)
        decides = Decides(pair.jobs[1])
        for _ in range(150):
            kind, rank = chance.random(), chance.randrange(size)
            if kind < 0.8:
                whole_step(pair, chance)
            elif kind < 0.85:
                pair.announce(rank)
            elif kind < 0.87:
                pair.withdraw(rank)
            elif kind < 0.89:
                pair.undo()
            elif kind < 0.895:
                pair.forget(rank)
            pair.settle(chance.choice(PAUSES))
        pair.settle(PAUSES[-2])
        assert all(job.batches(rank) == job.batches(0) for rank in range(size) for job in pair.jobs)
        decided, python = decided + decides.outcomes[DECIDED], python + decides.outcomes[PYTHON]
        decides.close()
    print("{} bundles decided in C++, {} times it was the leader's".format(decided, python))
    assert decided > 20 and python > 20


def test_whole_steps_need_the_leader_once(seed):
    """Steps in which all ranks announce the same: their lookups together, then their gradients."""
    chance = random.Random(seed)
    job = Job(2)
    decides = Decides(job)
    lookup = [0, 0]
    for step in range(1, 12):
        for part in ([0, 1, 2], [5]):
            for rank in chance.sample(range(2), 2):
                readies = [_ready(op, rank, step, lookup[rank] if op == 5 else 0) for op in part]
                job.ranks[rank].announce_all(readies)
                if chance.random() < 0.5:
                    job.settle()
            before = [len(job.heard[rank]) for rank in range(2)]
            job.settle()
            assert all(len(heard) >= 3 for heard in job.heard), before
            for rank in range(2):
                runs = job.heard[rank][-len(part):]
                assert [decision.op.index for decision in runs] == part
                assert [decision.headers.tolist() for decision in runs] == [
                    [[one, step, op] for one in range(2)] for op in part]
                lookup[rank] = runs[0].number
    assert job.batches(0) == job.batches(1)
    assert decides.outcomes[DECIDED] >= 18, decides.outcomes
    decides.close()


def _ready(op, rank, step, tie):
    return ready((rank + 3, op), (rank, step, op), plan=PLAN, step=step, instance=(tie, 0, 0, 40))


def test_places_are_what_is_compared():
    """That a place is as long as C++ takes it to be, and a run as this file does."""
    assert PLACE.size == 16 and RUN.size == 24
