"""Which exchange bags go by, as ranks that tell only what they wish for choose it: the same as with all sizes told."""
import collections
import ctypes

import numpy as np

from sok1x.graph_ops.exchanges import choice, sizes


class _SumsUp:
    """A communicator, and its world: of ranks that have these numbers."""

    short_headers = True

    def __init__(self, numbers):
        self.size, self.numbers, self.communicator = len(numbers), numbers, self

    def all_reduce(self, pointer, n, dtype):
        assert (n, dtype) == (1, "int64")
        number = ctypes.c_int64.from_address(pointer)
        assert number.value in self.numbers
        number.value = sum(self.numbers)


def test_what_ranks_wish_for_is_what_all_choose(seed):
    """From wishes, and their surpluses where these differ: the same as from all sizes."""
    random = np.random.RandomState(seed)
    seen = collections.Counter()
    for _ in range(400):
        ranks, moved = random.randint(2, 9), 2 * random.randint(1, 65)
        bags, keys = random.randint(0, 100, ranks), random.randint(0, 2000, ranks)
        # About where both move as many bytes, on all ranks or on none by far.
        crossing = (16 * keys + ranks * bags * 2 * moved) // (8 + 2 * moved)
        distinct = np.maximum(0, crossing + random.randint(-3, 4, ranks) + random.choice([-9, 0, 9]))
        trains = random.rand(ranks) < random.choice([0, 1, 0.9])
        whole = np.array([[train, *of_rank] + [0] * ranks for train, of_rank in zip(trains, zip(bags, keys, distinct))])
        surpluses = [sizes.surplus(moved, ranks, *map(int, of_rank)) for of_rank in zip(bags, keys, distinct)]
        short = np.array([[train, sizes.wish("auto", train, moved, ranks, *map(int, of_rank))]
                          for train, of_rank in zip(trains, zip(bags, keys, distinct))])
        world = _SumsUp(surpluses)
        found = choice.to_run(world, "auto", moved, short)
        settled = found or choice.settle(world, surpluses[random.randint(ranks)])
        if trains.all() or not trains.any():  # else it fails on all ranks, whatever is chosen
            assert settled is choice.choose("auto", moved, whole), (moved, whole)
        seen[settled.number, found is None] += 1
        assert (sizes.wish("all2all", True, moved, ranks, 0, 0, 9),
                sizes.wish("auto", True, moved, ranks, 0, 0, 9)) == (0, 1)
    assert len(seen) == 4, seen
