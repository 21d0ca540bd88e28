"""Kernels that work on keys and numbers, at 10^6 and 10^8 of them; what comes out is known without sorting.

The kernels of rows are in test_gpu_scale_rows.py.
"""
import functools

import kernel_devices
import numpy as np
import pytest
from kernel_devices import NONSENSE, SMALL, call, deterministic, size
from scale_arrays import ODD, Resident, equal, free_bytes, permuted, place_in_permuted

from sok1x.cuda_kernels import (
    bags,
    combine,
    dense,
    fill,
    hash_index,
    lookup,
    partition,
    row_numbers,
    scan,
    segment_sum,
    sort,
    unique,
)

LARGE = 10 ** 8
pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("n", [10 ** 6, LARGE])]


@pytest.fixture(autouse=True)
def on_a_gpu(n):
    with kernel_devices.on("gpu"):
        if n == LARGE and not SMALL and free_bytes() < 40 << 30:
            pytest.skip("{} GB of GPU memory are free".format(free_bytes() >> 30))
        yield
        kernel_devices.free_memory()


def empty(n, dtype):
    return np.full(n * np.dtype(dtype).itemsize, NONSENSE, np.uint8).view(dtype)


@functools.lru_cache(maxsize=1)
def numbers_of_keys(n):
    """Which of its distinct keys each key of a batch is, in order of first appearance: each third key is new."""
    most = np.arange(n) // 3 + 1
    numbers = (np.random.RandomState(1).random_sample(n) * most).astype(np.int32)
    numbers[::3] = most[::3] - 1
    return numbers


@functools.lru_cache(maxsize=1)
def power_law_segments(n):
    """Segments for n sources, int32: n // 10 of them; the first has half a percent of all, many have none, -1 too."""
    segments = (np.random.RandomState(2).random_sample(n) ** 3 * (n // 10)).astype(np.int32)
    segments[::11] = -1
    return segments


def sums_by_segment(segments, terms, num_segments):
    """Exact for whole numbers."""
    return np.bincount(segments + 1, terms, num_segments + 1)[1:].astype(np.float32)


@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
def test_unique(n, key_type):
    numbers = numbers_of_keys(size(n))
    n = len(numbers)
    keys = (numbers * ODD).astype(key_type)
    values, inverse = empty(n, np.int64), empty(n, np.int32)
    with Resident(call(unique.scratch_bytes, n), np.uint8) as scratch:
        count = call(unique.unique, keys, values, inverse, scratch)
    assert count == (n + 2) // 3
    equal(inverse, numbers, "inverse")
    equal(values[:count], (np.arange(count) * ODD).astype(key_type).astype(np.int64), "values")


def test_unique_of_equal_keys(n):
    n = size(n)
    values, inverse = empty(n, np.int64), empty(n, np.int32)
    with Resident(call(unique.scratch_bytes, n), np.uint8) as scratch:
        assert call(unique.unique, np.full(n, -7), values, inverse, scratch) == 1
    assert values[0] == -7 and not inverse.any()


@pytest.mark.parametrize("parts", [2, 8, 300])
def test_partition(n, parts):
    """Owners repeat with a period, so that those of one owner are some columns of a matrix."""
    period = 4099 if not SMALL else 409
    pattern = np.random.RandomState(3).randint(0, parts, period)
    blocks = size(n) // period
    n = blocks * period
    keys = (np.arange(n) * ODD >> 12) * parts + np.tile(pattern, blocks)
    counts, grouped, position = empty(parts, np.int64), empty(n, np.int64), empty(n, np.int32)
    call(partition.partition, keys, counts, grouped, position)
    equal(counts, np.bincount(pattern, minlength=parts) * blocks, "counts")
    for part in range(parts) if parts < 10 else (0, 1, 7, 150, parts - 1):
        start = counts[:part].sum()
        end = start + counts[part]
        own = pattern == part
        equal(grouped[start:end], keys.reshape(blocks, period)[:, own].ravel(), "grouped")
        equal(position.reshape(blocks, period)[:, own].ravel(), np.arange(start, end), "position")


def test_permute_and_remap(n):
    n = size(n)
    position = permuted(n).astype(np.int32)
    out = empty(n, np.int64)
    call(partition.permute, np.arange(n) * ODD, position, out)
    equal(out, place_in_permuted(np.arange(n), n) * ODD, "permute")
    inverse = np.arange(n, dtype=np.int32)[::-1].copy()
    call(partition.remap, inverse, position)
    equal(inverse, position[::-1], "remap")


def test_sort(n):
    n = size(n)
    sorted_keys, places = empty(n, np.uint32), empty(n, np.int32)
    call(sort.order, permuted(n).astype(np.uint32), n, sorted_keys, places)
    equal(sorted_keys, np.arange(n), "keys")
    equal(places, place_in_permuted(np.arange(n), n), "places")


def test_running_sum(n):
    n = size(n)
    values = (np.arange(n) % 37).astype(np.int32)
    out = empty(n + 1, np.int32)
    call(lambda values, out: scan.running_sum(values, out, scan.state(n)), values, out)
    assert out[0] == 0
    equal(out[1:], np.cumsum(values), "sum")


def test_hash_index(n):
    """Filled up to 95 %: find, insert, look_up."""
    capacity = 1 << (27 if n == LARGE else 20) if not SMALL else 1 << 13
    n = int(0.95 * capacity)
    rows = empty(n, np.int32)
    absent = (n + np.arange(n // 8)) * ODD
    with Resident((capacity, 2), np.int64) as index, Resident(n, np.int64, np.arange(n) * ODD) as keys:
        call(hash_index.clear, index)
        assert call(hash_index.find, index, keys, rows) == n
        assert (rows == -1).all()
        half = n // 2
        rows[half:] = 5  # left alone by the first insertion
        assert call(hash_index.insert, index, keys, rows, 0) == half
        assert call(hash_index.find, index, keys, rows) == n - half
        assert call(hash_index.insert, index, keys, rows, half) == n - half
        equal(rows, np.arange(n), "rows given")
        rows = empty(n, np.int32)
        assert call(hash_index.find, index, keys, rows) == 0
        equal(rows, np.arange(n), "rows found")
        table = (np.arange(n) % 1000003).astype(np.float32)
        rows, out = empty(n, np.int32), empty(n, np.float32)
        assert call(lookup.look_up, keys, index, table, rows, out) == 0
        equal(rows, np.arange(n), "rows looked up")
        equal(out, table, "values looked up")
        rows = empty(len(absent), np.int32)
        assert call(hash_index.find, index, absent, rows) == len(absent)
        assert (rows == -1).all()
        assert call(lookup.look_up, absent, index, table, rows, None) == len(absent)


@pytest.mark.parametrize("dim,in_order", [(1, False), (4, False), (2, True)])
def test_segment_sum(n, dim, in_order):
    """Small whole numbers, whose sums are exact in any order."""
    segments = power_law_segments(size(n))
    n, num_segments = len(segments), size(n) // 10
    values = (np.arange(n * dim) % 7).astype(np.float32).reshape(n, dim)
    out = empty(num_segments * dim, np.float32).reshape(num_segments, dim)
    with deterministic(in_order):
        call(segment_sum.segment_sum, values, segments, out)
    for c in range(dim):
        equal(out[:, c], sums_by_segment(segments, values[:, c], num_segments), "column {}".format(c))


def test_segment_sum_of_one_segment(n):
    n = size(n)
    values = np.zeros((n, 2), np.float32)
    values[::20], values[5::20, 1] = 1, 0.5  # sums of halves are exact up to 2^23
    out = empty(6, np.float32).reshape(3, 2)
    call(segment_sum.segment_sum, values, np.ones(n, np.int32), out)
    equal(out, [[0, 0], values.sum(axis=0, dtype=np.float64), [0, 0]])


@pytest.mark.parametrize("in_order", [False, True])
def test_bag_segment_sum(n, in_order):
    """Bags of 1, 2 and 4 keys: the weights of a mean are exact."""
    segments = power_law_segments(size(n))
    n, num_segments = len(segments), size(n) // 10
    lengths = np.array([1, 2, 4, 0])[np.arange(n * 4 // 7 + 4) % 4]
    offsets = np.minimum(np.concatenate([[0], np.cumsum(lengths)]), n)
    lengths = np.diff(offsets)
    weights = np.where(lengths == 3, 0, 1 / np.maximum(lengths, 1))  # the last bag may have been cut
    grad = ((np.arange(len(lengths)) % 5) * (weights > 0)).astype(np.float32)
    out = empty(num_segments, np.float32)
    with deterministic(in_order):
        call(segment_sum.bag_segment_sum, grad, offsets, segments, True, out)
    equal(out, sums_by_segment(segments, np.repeat(grad * weights, lengths), num_segments))


def test_offsets_and_order_of_bags(n):
    """Bags of 0, 2, 10 and 4 items."""
    n_bags = size(n) // 4
    offsets = np.concatenate([[0], np.cumsum(np.tile([0, 2, 10, 4], n_bags // 4 + 1)[:n_bags])])
    n = offsets[-1]
    items = np.zeros((n, 2), np.int64)
    items[:, 0] = np.repeat(np.arange(n_bags), np.diff(offsets))
    out = empty(n_bags + 1, np.int64)
    assert call(combine.bag_offsets, items, out) == 0
    equal(out, offsets, "offsets")
    items[[n // 2, n // 2 + 20], 0] = items[[n // 2 + 20, n // 2], 0]
    assert call(combine.bag_offsets, items, out) == 1
    items[n // 3, 0] = n_bags
    assert call(combine.bag_offsets, items, out) == 2 + n // 3


def test_sorting_of_bags(n):
    n = size(n) // 4 * 4
    numbers = permuted(n) // 4
    order, offsets = empty(n, np.int32), empty(n // 4 + 1, np.int64)
    call(combine.sort_order, numbers, offsets, order)
    equal(offsets, np.arange(n // 4 + 1) * 4, "offsets")
    equal(order, np.sort(place_in_permuted(np.arange(n), n).reshape(-1, 4), axis=1).ravel(), "order")


def test_facts_about_bags(n):
    n_bags = size(n) // 2
    lengths = np.arange(n_bags) % 5
    lengths[[n_bags - 5, n_bags - 3]] = 1000
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    assert call(bags.longest, offsets) == (1000, n_bags - 5)
    out = empty(offsets[-1], np.int64)
    call(bags.of_keys, offsets, 2 ** 33, out)
    equal(out, np.repeat(2 ** 33 + np.arange(n_bags), lengths))


def test_rows_that_are_missing(n):
    n = size(n)
    rows = permuted(n).astype(np.int32)
    absent = rows % 5 == 0
    rows[absent] = -1
    out, number = empty(n, np.int32), empty(n, np.int32)
    call(row_numbers.number_missing, rows, 9, 9 + n // 10, out)
    given = 8 + np.cumsum(absent)
    equal(out, np.where(absent, np.where(given < 9 + n // 10, given, -1), rows), "number_missing")
    count = call(row_numbers.compact, rows, out, number)
    equal(out[:count], rows[~absent], "kept")
    equal(number, np.where(absent, -1, np.cumsum(~absent) - 1), "number")


def test_small_steps(n):
    n = size(n)
    index, keys = permuted(n).astype(np.int32), np.arange(n) * 20 + 7
    rows, wide = empty(n, np.int32), empty(n, np.int64)
    call(row_numbers.direct, keys, 20, rows)
    equal(rows, np.arange(n), "direct")
    looked_up = empty(n, np.int32)
    call(row_numbers.look_up, rows, index, looked_up)
    equal(looked_up, index, "look_up")
    call(row_numbers.look_up_int64, keys, index, wide)
    equal(wide, index * np.int64(20) + 7, "look_up_int64")
    call(row_numbers.narrow, keys // 20, looked_up)
    equal(looked_up, np.arange(n), "narrow")
    call(row_numbers.collect_new, keys, index, n // 2, wide)
    equal(wide[:n - n // 2], place_in_permuted(np.arange(n // 2, n), n) * 20 + 7, "collect_new")
    assert call(row_numbers.first_out_of_range, keys, 20 * (n - 3)) == n - 3
    call(fill.fill_int64, wide, -3)
    assert (wide == -3).all()
    call(unique.widen, index, wide)
    equal(wide, index, "widen")


def test_dense(n):
    n = size(n)
    halves = (np.arange(n) % 31744).astype(np.uint16).view(np.float16)
    wide, copied, narrow = empty(n, np.float32), empty(n, np.float32), empty(n, np.float16)
    call(dense.widen_half, halves, wide)
    equal(wide, halves.astype(np.float32), "widen_half")
    call(dense.copy, wide, copied)
    equal(copied, wide, "copy")
    call(dense.narrow_half, wide, narrow)
    equal(narrow.view(np.uint16), halves.view(np.uint16), "narrow_half")
    call(dense.divide, copied, 3)
    equal(copied, wide / np.float32(3), "divide")
