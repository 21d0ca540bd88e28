"""C++'s part on a rank by way of which others talk with rank 0 (graph_ops/groups/relay.h): what comes out is what went
in, in order, in few messages; and nothing waits for what no other rank will ever say."""
import collections
import ctypes
import random

import pytest
from test_launch_meeting import brief

from sok1x.graph_ops.bridge import bridge, library, op_functions
from sok1x.launch import bundles, envelopes, messages, tree

_TELL = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)


class Relay:
    """A Relay of C++ for the ranks `below`, of `size`."""

    def __init__(self, size, below):
        self.loaded = library.load() and op_functions.Library(bridge.PATH).loaded
        self.loaded.sok1x_relay_open.restype = ctypes.c_void_p
        for name in ("hear", "read"):
            getattr(self.loaded, "sok1x_relay_" + name).argtypes = [
                ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int64,
                ctypes.c_int64 if name == "hear" else _TELL]
        self.loaded.sok1x_relay_take.argtypes = [ctypes.c_void_p, ctypes.c_int64, _TELL]
        self.loaded.sok1x_relay_close.argtypes = self.loaded.sok1x_relay_answered.argtypes = [ctypes.c_void_p]
        self.address = self.loaded.sok1x_relay_open(size, bytes(rank in below for rank in range(size)))

    def hear(self, source, data):
        return bool(self.loaded.sok1x_relay_hear(self.address, source, data, len(data), 0))

    def take(self, most=4000):
        taken = []
        self.loaded.sok1x_relay_take(self.address, most, _TELL(
            lambda _, at, length: taken.append(ctypes.string_at(at, length))))
        return taken

    def read(self, source, data):
        """[(rank, message)] of what came from `source`, brief bundles as they are in launch/messages.py."""
        told = []
        assert self.loaded.sok1x_relay_read(self.address, source, data, len(data), _TELL(
            lambda rank, at, length: told.append((rank, ctypes.string_at(at, length))))) == 0
        return [(rank, messages.decode(one)[0] if one[0] < 0xf0 else one) for rank, one in told]

    def close(self):
        self.loaded.sok1x_relay_close(self.address)


def bundle(chance, ops, rank, step, alike=0, ready=0):
    """A Bundle of these ops; alike: of how many things ranks say one, beside when they were ready; 0: anything."""
    width = 2 + ops[0] % 3
    headers, one_of = [], chance.randrange(alike) if alike else 0
    for op in ops:
        numbers = [1 + 2 * ready] + [op + one_of if alike else chance.randrange(-2 ** 40, 2 ** 40)
                                     for _ in range(width - 1)]
        headers.append(b"".join(one.to_bytes(8, "little", signed=True) for one in numbers))
    # What a rank counts by itself starts anywhere, and goes the same way.
    return bundles.bundle(2 ** 40 + 1000 * step + (0 if alike else rank), 3, 10 * step + (0 if alike else 7 * rank), 5,
                          ["op {}".format(op) for op in ops], sum(([op, 1000 + op] for op in ops), []),
                          sum(([step, 0, 0] for _ in ops), []), headers)


class Says:
    """A rank that says bundles as its C++ does: ops once, and after `most` different ones from the beginning."""

    def __init__(self, most=1000):
        self.known, self.most = {}, most

    def of(self, one):
        key = one.places
        said = key in self.known
        if not said and len(self.known) >= self.most:
            self.known.clear()
        return brief(one, self.known.setdefault(key, len(self.known)), said), said


@pytest.mark.parametrize("most", [4000, 200])
def test_what_comes_out_is_what_went_in(most, seed):
    """Two relays, one behind the other, and rank 0, which reads what comes: each rank's messages in their order."""
    chance = random.Random(seed)
    far, near, root = Relay(8, {3, 4, 5}), Relay(8, {2, 3, 4, 5, 6}), Relay(8, set(range(8)))
    ranks = {rank: Says(chance.choice((7, 1000))) for rank in (2, 3, 4, 5, 6)}
    said, heard, merged = collections.defaultdict(list), [], 0
    for step in range(1, 200):
        part = sorted(chance.sample(range(12), chance.randint(1, 6)))
        alike, clock = chance.choice((0, 0, 1, 1, 2)), chance.random() < 0.5
        for rank in chance.sample(list(ranks), len(ranks)):
            if chance.random() < 0.1:
                data = messages.encode(messages.Gone(step))
                said[rank].append(messages.Gone(step))
            else:
                mine = part if chance.random() < 0.9 else sorted(chance.sample(range(12), 3))
                one = bundle(chance, mine, rank, step, alike, chance.randrange(2 ** 50) if clock else 0)
                data = ranks[rank].of(one)[0]
                said[rank].append(one)
            if rank in (3, 4, 5):
                if far.hear(rank, data) or chance.random() < 0.1:
                    for message in far.take(most):
                        near.hear(3, message)
            else:
                near.hear(rank, data)
            if chance.random() < 0.3:
                for message in near.take(most):
                    heard += root.read(2, message)
                    merged += sum(rank == -1 for rank, _ in envelopes.read_up(message))
        if chance.random() < 0.5:
            near.loaded.sok1x_relay_answered(near.address)
    for message in far.take(most):
        near.hear(3, message)
    for message in near.take(most):
        heard += root.read(2, message)
    for rank in ranks:
        assert [one for source, one in heard if source == rank] == said[rank]
    assert merged > 20
    for relay in (far, near, root):
        relay.close()


def test_what_all_say_alike_is_said_once_whenever_they_were_ready(seed):
    chance = random.Random(seed)
    relay, ranks = Relay(40, set(range(1, 40))), [Says() for _ in range(40)]
    ops = list(range(26))
    sizes = []
    for step in range(1, 5):
        clock = step > 2
        goes = []
        for rank in range(1, 40):
            ready = chance.randrange(2 ** 30) if clock else 0
            data, said = ranks[rank].of(bundle(chance, ops, rank, step, True, ready))
            goes.append(relay.hear(rank, data))
            if step == 1:
                assert goes[-1] and not said, "what nobody knows yet goes on at once, as it is"
        taken = relay.take()
        if step > 1:
            assert goes == [False] * 38 + [True] and len(taken) == 1
            sizes.append(len(taken[0]))
        relay.loaded.sok1x_relay_answered(relay.address)
    assert sizes[0] < 250 and max(sizes) < sizes[0] + 39 * 12, sizes
    relay.close()


def test_what_rank_0_hears_and_tells_does_not_grow():
    """Of lookups and gradients that all ranks say alike: with the number of tables, nor, in a tree, of ranks."""
    loaded = library.load() and op_functions.Library(bridge.PATH).loaded
    for ranks, tables in ((16, 1), (64, 1), (64, 26)):
        parents = tree.deep([rank // 8 for rank in range(ranks)], 3)
        # By key, by bag, also where ranks wish for different exchanges of one table; gradients of both.
        for width, tied, says in ((2, 0, 0), (3, 0, 0), (3, 0, 2), (3, 1, 0), (4, 1, 0)):
            costs, sizes = (ctypes.c_double * 4)(), (ctypes.c_int64 * 4)()
            assert loaded.sok1x_leader_cost(ranks, tables, width, tied, says, 3, (ctypes.c_int64 * ranks)(*parents),
                                            costs, sizes) == 0
            messages_in, bytes_in, words, bytes_of_word = sizes
            assert messages_in == words == 3, sizes[:]
            assert bytes_in < 3 * 60 + 3 * ranks * (says == 2), (ranks, tables, width, sizes[:])
            assert bytes_of_word < 50 + 2 * ranks * (says == 2), (ranks, tables, width, sizes[:])


def test_nothing_waits_for_what_others_have_said_in_other_company():
    chance = random.Random(0)
    relay, ranks = Relay(3, {1, 2}), [Says() for _ in range(3)]

    def hear(rank, ops, step):
        return relay.hear(rank, ranks[rank].of(bundle(chance, ops, rank, step))[0])

    for rank in (1, 2):
        for ops in ([0, 1, 2, 3], [0, 1], [2, 3]):
            hear(rank, ops, 1)
    relay.take()
    assert not hear(1, [0, 1, 2, 3], 2)
    assert hear(2, [0, 1], 2), "rank 0 can pair two of them"
    relay.take()
    assert hear(2, [2, 3], 2), "and then the others"
    relay.take()
    relay.loaded.sok1x_relay_answered(relay.address)
    # A rank that is late is not kept waiting for those that were in time.
    assert not hear(1, [0, 1], 3)
    assert len(relay.take()) == 1
    assert hear(2, [0, 1], 3)
    assert len(relay.take()) == 1 and relay.take() == []
    # The next round is a new one.
    assert not hear(2, [0, 1], 4) and hear(1, [0, 1], 4)
    relay.close()
