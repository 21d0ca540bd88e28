"""Kernels that read or write rows, on tables of 10^6 rows and of more than 2^31 floats, on sampled rows."""
import kernel_devices
import numpy as np
import pytest
from kernel_devices import SMALL, call, deterministic
from scale_arrays import (
    Resident,
    equal,
    filled,
    free_bytes,
    initial,
    permuted,
    place_in_permuted,
    sample_rows,
    shrunk,
)

from sok1x.cuda_kernels import adam, combine, gather, row_init, scatter, segment_sum, update

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("n,dim", [(10 ** 6, 20), (2200000, 1025), (20 * 10 ** 6, 128)])]
F = np.float32


@pytest.fixture(autouse=True)
def on_a_gpu(n, dim):
    """Four tables at most."""
    with kernel_devices.on("gpu"):
        if not SMALL and free_bytes() < 4 * n * dim * 4 + (6 << 30):
            pytest.skip("{} GB of GPU memory are free".format(free_bytes() >> 30))
        yield
        kernel_devices.free_memory()


def test_initial_rows(n, dim, seed):
    n = shrunk(n)
    rows = sample_rows(n, dim, seed)
    with filled(n, dim, 1) as table:
        equal(table.rows(rows), initial(rows, dim, 1))
    keys = permuted(n) - n // 2
    only = np.where(np.arange(n) % 3 == 0, 5, -1).astype(np.int32)
    with Resident((n, dim)) as table:
        before = table.read(0, 1)
        call(row_init.initial_rows, 1, 2, keys, "uniform", -1, 1, only, table)
        equal(table.rows(rows), np.where(rows[:, None] % 3 == 0, before, initial(keys[rows], dim, 2)))


def test_gather(n, dim, seed):
    n = shrunk(n)
    index = permuted(n).astype(np.int32)
    index[::7] = -1
    sample = sample_rows(n, dim, seed)
    expected = np.where(index[sample, None] < 0, F(0), initial(index[sample], dim, 1))
    with filled(n, dim, 1) as table, Resident((n, dim)) as out:
        call(gather.gather, table, index, out)
        equal(out.rows(sample), expected, "gather")
    inverse = np.arange(n, dtype=np.int32)[::-1].copy()
    with filled(n, dim, 1) as table, Resident((n, dim)) as out:
        call(gather.gather_through, table, index[::-1].copy(), inverse, out)
        equal(out.rows(sample), expected, "gather_through")


def test_combine(n, dim, seed):
    n = shrunk(n)
    rows = permuted(n).astype(np.int32)
    inverse = np.concatenate([np.arange(n), np.arange(n)[::-1]]).astype(np.int32)
    inverse[::11] = -1
    offsets = np.minimum(np.arange(n + 1, dtype=np.int64) * 2, 2 * n - 2)  # the last bag is empty
    sample = sample_rows(n, dim, seed)
    expected = np.zeros((len(sample), dim), F)
    for key in (0, 1):
        of_key = inverse[2 * sample + key]
        there = (of_key >= 0) & (sample < n - 1)
        expected[there] += initial(rows[of_key[there]], dim, 1)
    with filled(n, dim, 1) as table, Resident((n, dim)) as out:
        call(combine.combine, table, rows, inverse[:2 * n - 2], offsets, False, out)
        equal(out.rows(sample), expected, "sum")
        call(combine.combine, table, rows, inverse[:2 * n - 2], offsets, True, out)
        equal(out.rows(sample), expected / F(2), "mean")
        lengths = np.arange(n) % 4
        call(combine.divide, table, np.concatenate([[0], np.cumsum(lengths)]), table)
        lengths = lengths[sample, None].astype(F)
        equal(table.rows(sample), np.where(lengths > 0, initial(sample, dim, 1) / np.maximum(lengths, 1), F(0)))


@pytest.mark.parametrize("in_order", [False, True])
def test_segment_sum(n, dim, in_order, seed):
    """Two sources, or none, a segment: a sum of two is the same in any order."""
    n = shrunk(n)
    numbers = permuted(n)
    ids = (numbers // 2 * 2).astype(np.int32)
    sample = sample_rows(n, dim, seed)
    first, second = [initial(place_in_permuted(sample // 2 * 2 + i, n), dim, 1) for i in (0, 1)]
    with filled(n, dim, 1) as values, Resident((n, dim)) as out:
        with deterministic(in_order):
            call(segment_sum.segment_sum, values, ids, out)
        equal(out.rows(sample), np.where(sample[:, None] % 2 == 0, first + second, F(0)))


@pytest.mark.parametrize("in_order", [False, True])
def test_bag_segment_sum(n, dim, in_order, seed):
    """Two keys a bag, two keys a segment."""
    n = shrunk(n)
    ids = (permuted(2 * n) // 2).astype(np.int32)
    sample = sample_rows(n, dim, seed)
    first, second = [initial(place_in_permuted(2 * sample + i, 2 * n) // 2, dim, 1) for i in (0, 1)]
    with filled(n, dim, 1) as grad, Resident((n, dim)) as out:
        with deterministic(in_order):
            call(segment_sum.bag_segment_sum, grad, 2 * np.arange(n + 1), ids, True, out)
        equal(out.rows(sample), F(0.5) * first + F(0.5) * second)


def test_descend(n, dim, seed):
    n = shrunk(n)
    half = n // 2
    sample = sample_rows(n, dim, seed)
    source = place_in_permuted(sample, n)
    moved = initial(sample, dim, 1) - F(0.3) * initial(source, dim, 2)
    with filled(n, dim, 1) as table, filled(half, dim, 2) as values:
        call(update.descend, values, permuted(n, 0, half).astype(np.int32), np.array(0.3, F), table)
        equal(table.rows(sample), np.where(source[:, None] < half, moved, initial(sample, dim, 1)))


def test_scatter(n, dim, seed):
    """Every row that is written is written twice: the last wins."""
    n = shrunk(n)
    half = n // 2
    rows = np.tile(permuted(n, 0, half // 2), 2).astype(np.int32)
    sample = sample_rows(n, dim, seed)
    source = place_in_permuted(sample, n)
    with filled(half, dim, 2) as values, filled(n, dim, 1) as table:
        call(scatter.scatter, values, rows, table)
        equal(table.rows(sample), np.where(source[:, None] < half // 2, initial(source + half // 2, dim, 2),
                                           initial(sample, dim, 1)))


@pytest.mark.parametrize("lazy", [True, False])
def test_adam(n, dim, lazy, seed):
    n = shrunk(n)
    half = n // 2
    rows = permuted(n, 0, half).astype(np.int32)
    scalars = [np.array(value, F) for value in (0.05, 0.9, 0.999, 1e-3, 0.5, 0.25)]
    rate, beta1, beta2, epsilon, power1, power2 = [F(value) for value in scalars]
    sample = sample_rows(n, dim, seed)
    source = place_in_permuted(sample, n)[:, None]
    gradient = np.where(source < half, initial(source[:, 0], dim, 4), F(0))
    table, m, v = [initial(sample, dim, number) for number in (1, 2, 3)]
    new_m = beta1 * m + (F(1) - beta1) * gradient
    new_v = beta2 * v + (F(1) - beta2) * (gradient * gradient)
    with np.errstate(invalid="ignore"):  # here v may be negative
        moved = table - rate * np.sqrt(F(1) - power2) / (F(1) - power1) * new_m / (np.sqrt(new_v) + epsilon)
    changed = (source < half) | (not lazy)
    expected = [np.where(changed, new, old) for new, old in ((moved, table), (new_m, m), (new_v, v))]
    with filled(n, dim, 1) as table, filled(n, dim, 2) as m, filled(n, dim, 3) as v, filled(half, dim, 4) as values:
        if lazy:
            call(adam.lazy_adam, values, rows, scalars, table, m, v)
        else:
            call(adam.adam, values, rows, scalars, np.empty(n, np.int32), table, m, v)
        for name, array, values in zip(("table", "m", "v"), (table, m, v), expected):
            np.testing.assert_array_equal(array.rows(sample), values, name)
