"""Keys that come and go: the index against a Python dict, and how long the searches get."""
import numpy as np
import pytest
from kernel_checks import EXTREMES, dirty
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import hash_index, index_rows

pytestmark = pytest.mark.usefixtures("device")


def empty_index(capacity):
    slots = np.zeros((capacity, 2), np.int64)
    slots[:, 1] = -1
    return slots


def place(slots, keys, rows):
    call(index_rows.place, slots, keys, rows)


def take_out(slots, rows, table_rows):
    keys = dirty(len(rows), np.int64)
    scratch = dirty(index_rows.scratch_bytes(table_rows, len(slots)), np.uint8)
    call(index_rows.take_out, slots, rows, table_rows, scratch, keys)
    return keys


def find(slots, keys):
    rows = dirty(len(keys), np.int32)
    call(hash_index.find, slots, keys, rows)
    return rows


def probes(slots):
    """Of every key the slots that a search for it looks at."""
    there = np.flatnonzero(slots[:, 1] >= 0)
    hashed = slots[there, 0].astype(np.uint64)
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb), (31, 1)):
            hashed = (hashed ^ (hashed >> np.uint64(shift))) * np.uint64(factor)
    return (there - hashed.astype(np.int64)) % len(slots) + 1


def in_turn(capacity, keys, rows):
    """The slots after one key after the other has been put in, by the rule that the index states."""
    slots = empty_index(capacity)
    slots[:, 0] = 7
    for key, row in zip(keys.tolist(), rows.tolist()):
        one = empty_index(capacity)
        one[0] = key, row
        home = (-(probes(one)[0] - 1)) % capacity
        while slots[home, 1] >= 0:
            home = (home + 1) % capacity
        slots[home] = key, row
    return slots


@pytest.mark.parametrize("capacity, loads", [(8, (5, 5)), (64, (20, 22)), (256, (0, 170)), (256, (170, 0))])
def test_keys_are_placed_as_if_they_came_one_after_the_other(seed, capacity, loads):
    random = np.random.RandomState(seed)
    for _ in range(5):
        wanted = sum(loads) if sum(loads) < capacity else capacity - 1
        keys = np.unique(np.concatenate([EXTREMES, random.randint(-10 ** 6, 10 ** 6, 3 * capacity)]))
        keys = random.permutation(keys)[:wanted]
        rows = random.permutation(3 * capacity)[:wanted].astype(np.int32)

        def placed():
            slots = empty_index(capacity)
            for first, last in ((0, loads[0]), (loads[0], wanted)):
                place(slots, keys[first:last].copy(), rows[first:last].copy())
            return slots

        slots, expected = same_bits(placed), in_turn(capacity, keys, rows)
        np.testing.assert_array_equal(slots[:, 1], expected[:, 1])
        np.testing.assert_array_equal(slots[slots[:, 1] >= 0], expected[expected[:, 1] >= 0])


@pytest.mark.parametrize("capacity, times", [(8, 2), (256, 1), (256, 2), (2048, 8)])
def test_keys_move_to_a_larger_index_as_if_they_came_in_the_order_of_their_rows(seed, capacity, times):
    random = np.random.RandomState(seed)
    for load in (0, 0.3, 0.66, 0.95):
        keys = np.unique(np.concatenate([EXTREMES, random.randint(-10 ** 6, 10 ** 6, 3 * capacity)]))
        keys = random.permutation(keys)[:int(load * capacity)]
        rows = random.permutation(2 * capacity)[:len(keys)].astype(np.int32)
        order = rows.argsort()
        old = in_turn(capacity, keys, rows)  # rows came in any order, as where keys have left

        def moved():
            slots = empty_index(times * capacity)
            call(index_rows.move, old, slots)
            return slots

        slots, expected = same_bits(moved), in_turn(times * capacity, keys[order], rows[order])
        np.testing.assert_array_equal(slots[:, 1], expected[:, 1])
        np.testing.assert_array_equal(slots[slots[:, 1] >= 0], expected[expected[:, 1] >= 0])


@pytest.mark.parametrize("capacity", [8, 32, 1024])
@pytest.mark.parametrize("load", [0.3, 0.67, 0.95])
def test_what_stays_is_where_it_would_be_had_the_others_never_come(seed, capacity, load):
    random = np.random.RandomState(seed)
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        n = int(load * capacity)
        keys = random.permutation(np.unique(random.randint(-10 ** 12, 10 ** 12, 3 * capacity)))[:n]
        rows = random.permutation(2 * n).astype(np.int32)[:n]
        full = in_turn(capacity, keys, rows)
        leaves = random.permutation(n) < share * n
        order = np.argsort(rows[leaves])

        def swept():
            slots = full.copy()
            return slots, take_out(slots, rows[leaves][order], 2 * n)

        slots, out = same_bits(swept)
        np.testing.assert_array_equal(out, keys[leaves][order])
        expected = in_turn(capacity, keys[~leaves], rows[~leaves])
        np.testing.assert_array_equal(slots[:, 1], expected[:, 1])
        np.testing.assert_array_equal(slots[slots[:, 1] >= 0], expected[expected[:, 1] >= 0])
        np.testing.assert_array_equal(find(slots, keys), np.where(leaves, -1, rows))


@pytest.mark.parametrize("load", [0.5, 0.97])
def test_the_pieces_of_a_large_index_close_up_as_one(seed, load):
    random = np.random.RandomState(seed)
    capacity = 1 << 14
    n = int(load * capacity)
    keys = random.permutation(np.unique(random.randint(-10 ** 12, 10 ** 12, 2 * capacity)))[:n]
    rows, leaves = random.permutation(n).astype(np.int32), random.random_sample(n) < 0.1
    full, expected = empty_index(capacity), empty_index(capacity)
    place(full, keys, rows)
    place(expected, keys[~leaves], rows[~leaves])
    order = np.argsort(rows[leaves])

    def swept():
        slots = full.copy()
        return slots, take_out(slots, rows[leaves][order], n)

    slots, out = same_bits(swept)
    np.testing.assert_array_equal(out, keys[leaves][order])
    np.testing.assert_array_equal(slots[:, 1], expected[:, 1])
    np.testing.assert_array_equal(slots[slots[:, 1] >= 0], expected[expected[:, 1] >= 0])


def turn_over(random, rows_in_all, changes, per_round):
    """Full of rows, many of which leave and come anew again and again. Yields (slots, {row: key} as an array)."""
    slots = empty_index(hash_index.capacity(rows_in_all))
    keys = np.arange(rows_in_all, dtype=np.int64) * 977
    place(slots, keys.copy(), np.arange(rows_in_all, dtype=np.int32))
    next_key = rows_in_all
    yield slots, keys
    for _ in range(changes // per_round):
        rows = np.sort(random.permutation(rows_in_all)[:per_round]).astype(np.int32)
        np.testing.assert_array_equal(take_out(slots, rows, rows_in_all), keys[rows])
        keys[rows] = np.arange(next_key, next_key + per_round) * 977
        next_key += per_round
        place(slots, keys[rows], rows)
        yield slots, keys


def check_searches(random, rows_in_all, changes, per_round):
    """After any number of changes searches are as long as in an index that has seen none."""
    first = longest = None
    for number, (slots, keys) in enumerate(turn_over(random, rows_in_all, changes, per_round)):
        if number % 20 == 0 or number == changes // per_round:
            lengths = probes(slots)
            assert len(lengths) == rows_in_all
            if first is None:
                first, longest = lengths.mean(), lengths.max()
            assert lengths.mean() < 1.1 * first and lengths.max() < 4 * longest, (number, lengths.mean(), first)
            asked = random.randint(0, rows_in_all, 1000)
            np.testing.assert_array_equal(find(slots, keys[asked]), asked)
    return first, lengths.mean()


def test_finding_does_not_decay(seed):
    check_searches(np.random.RandomState(seed), size(20000), 40 * size(20000), size(20000) // 4)


@pytest.mark.slow
def test_finding_does_not_decay_after_a_hundred_million_changes(seed):
    rows, changes = 1 << 20, 10 ** 8
    first, last = check_searches(np.random.RandomState(seed), rows, changes, rows // 16)
    print("slots looked at in a search: {:.3f} at first, {:.3f} after {} changes".format(first, last, changes))
