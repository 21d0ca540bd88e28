"""Rows on their way into a cache and back, against NumPy and dicts."""
import numpy as np
import pytest
from kernel_checks import dirty
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import cache_rows, hash_index, index_rows
from sok1x.cuda_kernels.arrays import Array

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("counting", [True, False])
def test_rows_that_are_asked_for_count_once(seed, counting):
    random = np.random.RandomState(seed)
    for n in (0, 1, 100, size(30000)):
        rows = random.randint(-1, 500, n).astype(np.int32)
        used, frequency = random.randint(-1, 8, 500), random.randint(0, 9, 500)
        asked = np.unique(rows[rows >= 0])
        first = asked[used[asked] != 7]

        def touched():
            u, f, hits = used.copy(), frequency.copy(), np.array(100)
            call(cache_rows.touch, rows, np.array(7), u, f if counting else None, hits)
            return u, f, hits

        u, f, hits = same_bits(touched)
        np.testing.assert_array_equal(u[asked], 7)
        np.testing.assert_array_equal(np.delete(u, asked), np.delete(used, asked))
        np.testing.assert_array_equal(f - frequency, np.isin(np.arange(500), first) if counting else 0)
        assert hits == 100 + len(first)


@pytest.mark.parametrize("n", [0, 1, 2047, 2049, 20000])
def test_homes_are_found_and_rows_given(seed, n):
    random = np.random.RandomState(seed)
    known = random.permutation(1 << 16).astype(np.int64)[:9000] - 2 ** 15
    capacity = hash_index.capacity(len(known))
    every = dirty((capacity, 2), np.int64)
    call(hash_index.clear, every)
    call(index_rows.place, every, known, np.arange(len(known), dtype=np.int32))
    where = {key: home for home, key in enumerate(known.tolist())}
    keys = random.permutation(1 << 16).astype(np.int64)[:n] - 2 ** 15
    rows = np.where(random.rand(n) < 0.3, np.arange(n), -1).astype(np.int32)
    homes = dirty(n, np.int32)
    counted = call(cache_rows.find_homes, keys, rows, every, homes)
    expected = [-3 if row >= 0 else where.get(key, -1) for key, row in zip(keys.tolist(), rows)]
    np.testing.assert_array_equal(homes, np.array(expected, np.int32))
    assert counted == (np.sum(rows < 0), expected.count(-1))

    homes[random.rand(n) < 0.1] = -2  # refused
    coming = np.flatnonzero(homes >= -1)
    free = random.permutation(5000).astype(np.int64)[:100]
    given = np.concatenate([free[::-1], 7000 + np.arange(n)])[:len(coming)].astype(np.int32)
    made = [dirty(n, dtype) for dtype in (np.int64, np.int32, np.int32)]
    got = rows.copy()
    assert call(cache_rows.give, keys, got, homes, free, 7000, *made) == len(coming)
    for array, wanted in zip(made, (keys[coming], given, homes[coming])):
        np.testing.assert_array_equal(array[:len(coming)], wanted)
    rows[coming] = given
    np.testing.assert_array_equal(got, rows)


def test_homes_are_noted_marked_and_picked(seed):
    random = np.random.RandomState(seed)
    rows, homes = random.permutation(900).astype(np.int32)[:400], random.randint(0, 5000, 900)
    where = random.permutation(3000).astype(np.int32)[:400] - 1
    where[:9] = -1
    noted = homes.copy()
    call(cache_rows.set_homes, rows, where, noted)
    homes[rows] = where
    np.testing.assert_array_equal(noted, homes)
    out = dirty(400, np.int32)
    call(cache_rows.homes_of, rows, homes, out)
    np.testing.assert_array_equal(out, where)
    used, out = random.randint(-1, 2, 900), dirty(900, np.int32)
    call(cache_rows.homes_in_use, used, homes, out)
    np.testing.assert_array_equal(out, np.where(used < 0, -1, homes))
    marks = random.randint(0, 9, 3000)
    expected = marks.copy()
    expected[where[where >= 0]] = 77
    call(cache_rows.mark_homes, where, 77, marks)
    np.testing.assert_array_equal(marks, expected)
    where[5:40] = random.randint(-3, 1, 35)  # new, refused, in the cache, and a home
    for new, picked in ((True, where == cache_rows.NEW), (False, where >= 0)):
        out = dirty(400, np.int32)
        call(cache_rows.pick, where, rows, new, out)
        np.testing.assert_array_equal(out, np.where(picked, rows, -1))


def test_lean_rows_are_noted_and_taken_once(seed):
    random = np.random.RandomState(seed)
    rows, homes = random.permutation(900).astype(np.int32)[:400], random.randint(0, 5000, 900)
    where, came = random.permutation(3000).astype(np.int32)[:400], random.randint(-1, 2, 400).astype(np.int32)
    call(cache_rows.set_homes, rows, where, homes, came)
    lean = np.zeros(900, bool)
    lean[rows] = came >= 0
    plain = homes % cache_rows.LEAN
    np.testing.assert_array_equal(plain[rows], where)
    np.testing.assert_array_equal(homes, plain + np.where(lean, cache_rows.LEAN, 0))
    out = dirty(400, np.int32)
    call(cache_rows.homes_of, rows, homes, out)
    np.testing.assert_array_equal(out, where)
    assert call(cache_rows.whole_homes_of, rows, homes, out) == np.sum(came < 0)
    np.testing.assert_array_equal(out, np.where(came < 0, where, -1))
    used = random.randint(-1, 2, 900)
    for whole in (True, False):
        out = dirty(800, np.int32)
        call(cache_rows.homes_in_use, used, homes, out, whole)
        np.testing.assert_array_equal(out, np.where((used < 0) | (lean & whole), -1, plain)[:800])

    asked = random.randint(-2, 905, 300).astype(np.int32)  # repeated ones, and some that are none
    took, home = dirty(300, np.int32), dirty(300, np.int32)
    expected = {row for row in asked.tolist() if 0 <= row < 900 and used[row] >= 0 and lean[row]}
    assert call(cache_rows.take_lean, asked, used, homes, took, home) == len(expected)
    assert sorted(took[took >= 0].tolist()) == sorted(expected)
    np.testing.assert_array_equal(took[took >= 0], asked[took >= 0])
    np.testing.assert_array_equal(home, np.where(took >= 0, plain[took], -1))
    lean[list(expected)] = False
    took, home = dirty(800, np.int32), dirty(800, np.int32)
    there = np.flatnonzero(lean[:800] & (used[:800] >= 0))
    assert call(cache_rows.take_lean, None, used, homes, took, home) == len(there)
    np.testing.assert_array_equal(np.flatnonzero(took >= 0), there)
    np.testing.assert_array_equal(home[there], plain[there])
    lean[there] = False
    np.testing.assert_array_equal(homes, plain + np.where(lean, cache_rows.LEAN, 0))


@pytest.mark.parametrize("words, beside", [
    (1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (128, 0), (130, 0), (1, 1), (4, 8), (3, 2), (128, 256), (130, 6)])
def test_rows_move_both_ways(seed, words, beside):
    random, record = np.random.RandomState(seed), words + beside
    for number, (out_n, in_n) in enumerate(((0, 0), (5, 0), (0, 7), (600, 90), (90, 601), (300, 300))):
        at = beside * (number % 2)  # a field of records
        field = slice(at, at + words)
        cached, host = (random.randint(-2 ** 31, 2 ** 31, (900, width)).astype(np.int32) for width in (words, record))
        going, homes = (random.permutation(900).astype(np.int32) for _ in range(2))
        going, homes, sources = going[:out_n], homes[:out_n], homes[900 - in_n:]
        targets = random.permutation(900).astype(np.int32)[:in_n]
        homes[::5] = -1
        sources[::7] = -1
        piece, expected_host, expected_cached = cached[going], host.copy(), cached.copy()
        expected_host[homes[homes >= 0], field] = piece[homes >= 0]
        expected_cached[targets[sources >= 0]] = host[sources[sources >= 0], field]

        def move(piece, homes, host, sources, cached, targets):
            fields = Array(host.pointer + 4 * at, "int32", (900, words), 900 * words, host.gpu,
                           4 * record if beside else 0)
            cache_rows.move(cache_rows.Moves(piece, fields, None, homes),
                            cache_rows.Moves(fields, cached, sources, targets), number % 3 > 0)

        call(move, piece, homes, host, sources, cached, targets)
        np.testing.assert_array_equal(host, expected_host)
        np.testing.assert_array_equal(cached, expected_cached)
