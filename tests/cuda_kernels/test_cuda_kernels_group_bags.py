"""Offsets and longest bags of many tables at once, against NumPy."""
import numpy as np
import pytest
from group_arena import Arena, int64, put_all, sizes
from kernel_checks import dirty
from kernel_devices import SMALL, host_only, size

from sok1x.cuda_kernels import backend, bags, group_bags, groups

pytestmark = pytest.mark.usefixtures("device")


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_bags_member_bytes() == group_bags.BAGS.itemsize


def read_counts(counts):
    """(bool [T]: whose items are in range and sorted; int64 [T]: keys of the longest bag, if they are)."""
    outside, unsorted, longest = counts
    return (outside == 0) & (unsorted == 0), longest >> bags.BITS


class Batches:
    """Members' bag numbers [n], which lie `stride` numbers apart."""

    def __init__(self, numbers, n_bags, strides, absent=(), most=0):
        self.arena, self.count, self.numbers, self.n_bags, self.most = Arena(), len(numbers), numbers, n_bags, most
        self.strides, self.absent = strides, absent
        spread = [np.full((len(one), stride), -77, np.int64) for one, stride in zip(numbers, strides)]
        for apart, one in zip(spread, numbers):
            apart[:, 0] = one
        self._bags = put_all(self.arena, spread, 8)
        self._offsets = [self.arena.out(n + 1, np.int64, 8) for n in n_bags]
        self._counts = self.arena.out((3, self.count), np.int64, 8)

    def _find(self, base):
        members = groups.members(group_bags.BAGS, self.count)
        members["bags"], members["stride"] = base + self._bags.reshape(self.count), self.strides
        members["n"], members["n_bags"] = [len(one) for one in self.numbers], self.n_bags
        members["most"] = self.most
        members["offsets"] = base + np.array(self._offsets, np.int64)
        members["offsets"][list(self.absent)] = 0
        group_bags.offsets(members, int64(base + self._counts, 3, self.count))

    def run(self):
        """(offsets of each member, bool: good, longest)."""
        *offsets, counts = self.arena.same_bits(self._find, *self._offsets, self._counts) if self.count else (
            self.arena.same_bits(self._find, self._counts))
        return (offsets, *read_counts(counts))


def check(batches):
    """Of sorted batches."""
    offsets, good, longest = batches.run()
    for t, (numbers, n_bags) in enumerate(zip(batches.numbers, batches.n_bags)):
        if t in batches.absent:
            assert good[t] and longest[t] == 0
            assert offsets[t].tobytes() == dirty(n_bags + 1, np.int64).tobytes()
            continue
        expected = np.searchsorted(numbers, np.arange(n_bags + 1))
        assert good[t] and offsets[t].tolist() == expected.tolist()
        looked_for = n_bags and len(numbers) > np.broadcast_to(batches.most, batches.count)[t]
        assert longest[t] == (np.diff(expected).max() if looked_for else 0)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 33, 100])
def test_sorted_batches(seed, count):
    random = np.random.RandomState(seed)
    numbers, n_bags = [], []
    for n in sizes(random, count, size(5000) if count < 3 else 500):
        many = int(random.choice([1, 2, 31, 32, 33, n + 1, 3 * n + 1]))
        n_bags.append(many if n or random.rand() < 0.7 else 0)
        first = random.randint(0, many)  # the bags before are empty
        numbers.append(np.sort(random.randint(first, many, n)))
    absent = np.flatnonzero(random.rand(count) < 0.1).tolist()
    most = random.choice([0, 1, 33, 2 ** 31 - 1], count)
    check(Batches(numbers, n_bags, random.choice([1, 2], count), absent, most))


def test_bags_of_one_key_but_for_one_place(seed):
    """A bag that is empty, or has two keys, anywhere among many that have one; or a number that is wrong."""
    random = np.random.RandomState(seed)
    n = 100 if SMALL else 400
    places = random.randint(1, n, 12)
    numbers, n_bags = [np.arange(n), np.arange(n) + 3], [n, n + 70]
    for place in places:
        for step in (1, -1, 100):
            numbers.append(np.arange(n) + step * (np.arange(n) >= place))
            n_bags.append(numbers[-1][-1] + 1 + random.randint(0, 3))
    check(Batches(numbers, n_bags, random.choice([1, 2], len(numbers)), most=2 ** 31 - 1))
    wrong = []
    for place in places:
        for value in (-1, n, place - 2, np.iinfo(np.int64).min, np.iinfo(np.int64).max):
            wrong.append(np.where(np.arange(n) == place, value, np.arange(n)))
    batches = Batches(wrong, [n] * len(wrong), [2] * len(wrong), most=2 ** 31 - 1)
    *_, counts = batches.arena.run(batches._find, *batches._offsets, batches._counts)
    assert not read_counts(counts)[0].any()


def test_batches_that_are_not_as_they_must_be(seed):
    """Beside good ones, whose offsets are as ever: numbers out of range, or out of order, at either end or between."""
    random = np.random.RandomState(seed)
    n = 40 if SMALL else 700
    good = np.sort(random.randint(0, 50, n))
    numbers, expected = [good], [True]
    for place in (0, 1, n // 2, n - 1):
        for wrong in (-1, 50, np.iinfo(np.int64).min, np.iinfo(np.int64).max):
            numbers.append(np.concatenate([good[:place], [wrong], good[place + 1:]]))
            expected.append(False)
        numbers.append(good)
        expected.append(True)
        if place:
            swapped = np.arange(n) // 20  # in range, in order but for two
            swapped[[0, place]] = [swapped[-1], 0]
            numbers.append(swapped)
            expected.append(False)
    batches = Batches(numbers, [50] * len(numbers), [2] * len(numbers))
    base = batches.arena.run(batches._find, *batches._offsets, batches._counts)
    *offsets, counts = base
    is_good, longest = read_counts(counts)
    assert is_good.tolist() == expected
    for t in np.flatnonzero(is_good):
        assert offsets[t].tolist() == np.searchsorted(good, np.arange(51)).tolist()
        assert longest[t] == np.bincount(good).max()


class Splits(Batches):
    """Members whose offsets are given."""

    def __init__(self, splits, lengths):
        super().__init__([np.zeros(n, np.int64) for n in lengths], [len(one) - 1 for one in splits], [1] * len(splits),
                         most=2 ** 31)
        self._splits = put_all(self.arena, splits, 8)

    def _find(self, base):
        members = groups.members(group_bags.BAGS, self.count)
        members["splits"] = base + self._splits.reshape(self.count)
        members["n"], members["n_bags"], members["most"] = [len(one) for one in self.numbers], self.n_bags, self.most
        members["offsets"] = base + np.array(self._offsets, np.int64)
        group_bags.offsets(members, int64(base + self._counts, 3, self.count))


def test_offsets_that_are_given(seed):
    random = np.random.RandomState(seed)
    lengths = [0, 1, 7, 300, 40, 40, 40, 40]
    cuts = [np.sort(random.randint(0, n + 1, random.randint(0, 2 * n + 2))) for n in lengths]
    splits = [np.concatenate([[0], one, [n]]).astype(np.int64) for one, n in zip(cuts, lengths)]
    splits[4] = np.array([0])  # no bags for 40 items
    splits[5][0], splits[6][-1] = 1, 39
    splits[7] = np.array([0, 9, 8, 40])
    splits[0] = np.array([0])
    offsets, good, _ = Splits(splits, lengths).run()
    assert good.tolist() == [True] * 4 + [False] * 4
    for found, expected in zip(offsets[:4], splits):
        assert found.tolist() == expected.tolist()
