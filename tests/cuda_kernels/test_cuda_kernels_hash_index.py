"""find and insert against a Python dict."""
import numpy as np
import pytest
from kernel_checks import EXTREMES, dirty, edge_keys, first_appearance
from kernel_devices import call, host_only, on_gpu, rounds, same_bits, size

from sok1x.cuda_kernels import hash_index

pytestmark = pytest.mark.usefixtures("device")


class Index(object):
    """An index in NumPy arrays; the keys of empty slots are nonsense on purpose."""

    def __init__(self, capacity, nonsense=0):
        self.capacity = capacity
        self.slots = np.full((capacity, 2), nonsense, np.int64)
        self.rows = self.slots[:, 1]
        self.rows[:] = -1
        self.used = 0

    def find(self, keys):
        rows = dirty(len(keys), np.int32)
        missing = call(hash_index.find, self.slots, keys, rows)
        assert missing == (rows == -1).sum()
        return rows

    def insert(self, keys, rows):
        """On a GPU new keys must be distinct: they are made so first."""
        distinct, given = keys, rows
        if on_gpu():
            distinct, inverse = first_appearance(keys)
            given = np.empty(len(distinct), np.int32)
            given[inverse[::-1]] = rows[::-1]
        inserted = call(hash_index.insert, self.slots, distinct, given, self.used)
        self.used += inserted
        if on_gpu():
            rows[:] = np.where(rows == -1, given[inverse], rows)
        return inserted


@pytest.mark.parametrize("rows", list(range(0, 20)) + [100, 682, 683, 1 << 20, 1398101, 1398102, (1 << 31) - 1])
def test_capacity_is_a_power_of_two_with_room_to_spare(rows):
    capacity = hash_index.capacity(rows)
    assert capacity & (capacity - 1) == 0
    assert capacity > rows and rows <= 0.67 * capacity
    assert capacity == 8 or rows > 0.33 * capacity


@pytest.mark.parametrize("nonsense", [0, -1, int(EXTREMES[0])])
def test_rows_are_numbered_in_order_of_first_appearance(seed, nonsense):
    random = np.random.RandomState(seed)
    for name, keys in edge_keys(random).items():
        index = Index(hash_index.capacity(len(set(keys))), nonsense)
        known = {}
        for batch in np.array_split(keys, 3):
            expected = np.array([known.get(key, -1) for key in batch.tolist()], np.int32)
            rows = same_bits(lambda: index.find(batch))
            np.testing.assert_array_equal(rows, expected, err_msg=name)
            before = len(known)
            expected = [known.setdefault(key, len(known)) for key in batch.tolist()]
            assert index.insert(batch, rows) == len(known) - before
            np.testing.assert_array_equal(rows, expected, err_msg=name)
        np.testing.assert_array_equal(same_bits(lambda: index.find(keys)), [known[key] for key in keys.tolist()])
        assert (index.rows >= 0).sum() == len(known)


def test_rows_given_are_left_alone_and_not_inserted():
    index = Index(8)
    rows = np.array([-1, 5, -1], np.int32)
    assert index.insert(np.array([10, 11, 12], np.int64), rows) == 2
    np.testing.assert_array_equal(rows, [0, 5, 1])
    np.testing.assert_array_equal(index.find(np.array([11, 12, 10], np.int64)), [-1, 1, 0])


def test_new_rows_start_at_next_row():
    index = Index(16)
    index.used = 7
    rows = np.full(4, -1, np.int32)
    index.insert(np.array([3, 1, 3, 2], np.int64), rows)
    np.testing.assert_array_equal(rows, [7, 8, 7, 9])


@pytest.mark.parametrize("capacity", [1, 8, 64, 1024])
def test_index_exactly_full_still_finds_and_misses(seed, capacity):
    random = np.random.RandomState(seed)
    index = Index(capacity)
    keys = np.unique(np.concatenate([EXTREMES, random.randint(-10 ** 9, 10 ** 9, 3 * capacity)]))
    keys = random.permutation(keys)
    rows = np.full(capacity, -1, np.int32)
    assert index.insert(keys[:capacity], rows) == capacity
    np.testing.assert_array_equal(rows, np.arange(capacity))
    np.testing.assert_array_equal(same_bits(lambda: index.find(keys[:capacity])), np.arange(capacity))
    np.testing.assert_array_equal(index.find(keys[capacity:]), np.full(len(keys) - capacity, -1))
    if not on_gpu():  # a key that is known, and was not looked up, needs no room
        rows = np.full(1, -1, np.int32)
        assert index.insert(keys[:1], rows) == 0
        assert rows[0] == 0


@pytest.mark.parametrize("capacity", [1, 8, 64, 1024])
@pytest.mark.parametrize("used", [0, 0.5, 1])
@host_only
def test_one_key_too_many_is_an_error_that_leaves_the_index_as_it_was(seed, capacity, used):
    random = np.random.RandomState(seed)
    for _ in range(20):
        index = Index(capacity)
        keys = random.permutation(3 * capacity + 3).astype(np.int64) * 977
        old = keys[:int(capacity * used)]
        index.insert(old, np.full(len(old), -1, np.int32))
        free = capacity - len(old)
        # New keys repeated and mixed with old ones that the caller did not look up.
        asked = np.concatenate([keys[len(old):len(old) + free + 1], keys[len(old):len(old) + free // 2], old])
        asked = random.permutation(asked)
        rows, before = np.full(len(asked), -1, np.int32), (index.rows.copy(), index.find(keys))
        with pytest.raises(OverflowError, match="{} slots, {} rows in use".format(capacity, len(old))):
            index.insert(asked, rows)
        np.testing.assert_array_equal(index.rows, before[0])
        np.testing.assert_array_equal(index.find(keys), before[1])
        assert (rows[np.isin(asked, old, invert=True)] == -1).all()
        # What fits is still taken afterwards.
        fits = keys[len(old):len(old) + free]
        assert index.insert(fits, np.full(free, -1, np.int32)) == free


@pytest.mark.parametrize("capacity", [1, 8, 64, 1024])
@pytest.mark.parametrize("used", [0, 0.5, 1])
def test_one_distinct_key_too_many(seed, capacity, used):
    random = np.random.RandomState(seed)
    for _ in range(rounds(20)):
        index = Index(capacity)
        keys = random.permutation(3 * capacity + 3).astype(np.int64) * 977
        old = keys[:int(capacity * used)]
        index.insert(old, np.full(len(old), -1, np.int32))
        free = capacity - len(old)
        asked = random.permutation(keys[:len(old) + free + 1])
        rows, before = index.find(asked), index.slots.copy()
        found = rows.copy()
        with pytest.raises(OverflowError, match="{} slots, {} rows in use".format(capacity, len(old))):
            index.insert(asked, rows)
        np.testing.assert_array_equal(rows, found)
        np.testing.assert_array_equal(index.rows, before[:, 1])
        np.testing.assert_array_equal(index.slots[index.rows >= 0], before[index.rows >= 0])
        fits = keys[:len(old) + free]
        assert index.insert(fits, index.find(fits)) == free
        np.testing.assert_array_equal(np.sort(index.find(fits)), np.arange(capacity))


@pytest.mark.parametrize("stride", [1, 2 ** 40])
def test_present_and_absent_keys_at_every_load(seed, stride):
    """Up to 95 % of the slots in use, where probe sequences are long; absent keys are as near as can be."""
    random = np.random.RandomState(seed)
    index = Index(1 << (17 if size(10 ** 6) == 10 ** 6 else 14))
    keys = random.permutation(4 * index.capacity).astype(np.int64) * stride
    for load in (0.25, 0.5, 0.75, 0.9, 0.95):
        there = int(load * index.capacity)
        new = keys[index.used:there]
        rows = np.full(len(new), -1, np.int32)
        first = index.used
        assert index.insert(new, rows) == len(new)
        np.testing.assert_array_equal(rows, np.arange(first, there))
        expected = np.where(np.arange(len(keys)) < there, np.arange(len(keys)), -1)
        order = random.permutation(len(keys))
        np.testing.assert_array_equal(same_bits(lambda: index.find(keys[order])), expected[order])
        assert (index.rows >= 0).sum() == there


def test_shard_of_v_rows_fills_to_the_last_row():
    for rows_of_shard in (1, 5, 6, 1000, 4096):
        index = Index(hash_index.capacity(rows_of_shard))
        keys = np.arange(rows_of_shard, dtype=np.int64) * 2 ** 40
        rows = np.full(rows_of_shard, -1, np.int32)
        assert index.insert(keys, rows) == rows_of_shard
        np.testing.assert_array_equal(index.find(keys), np.arange(rows_of_shard))
