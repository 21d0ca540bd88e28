"""Bags: offsets, order, sum and mean, and their gradient, against NumPy loops in the same order."""
import numpy as np
import pytest
from kernel_checks import DIMS, check_sums, combine_oracle, dirty
from kernel_devices import SMALL, call, rounds, same_bits, size

from sok1x.cuda_kernels import combine, segment_sum

pytestmark = pytest.mark.usefixtures("device")


def random_offsets(random, n_bags, longest=9):
    lengths = random.randint(0, longest + 1, n_bags)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def run_combine(source, rows, inverse, offsets, mean):
    out = dirty((len(offsets) - 1, source.shape[1]))
    call(combine.combine, source, rows, inverse, offsets, mean, out)
    return out


def run_gradient(grad, offsets, inverse, mean, num_segments):
    out = dirty((num_segments, grad.shape[1]))
    call(segment_sum.bag_segment_sum, grad, offsets, inverse, mean, out)
    return out


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("mean", [False, True])
def test_combine_and_its_gradient(seed, dim, mean):
    random = np.random.RandomState(seed)
    n_bags = 90 if dim > 1000 or SMALL else 800
    source = random.standard_normal((301, dim)).astype(np.float32)
    offsets = random_offsets(random, n_bags)
    n = offsets[-1]
    rows = random.randint(-1, 301, 150).astype(np.int32)
    for table_rows, inverse in ((rows, random.randint(0, 150, n)), (None, random.randint(-1, 301, n))):
        inverse = inverse.astype(np.int32)
        got = same_bits(lambda: run_combine(source, table_rows, inverse, offsets, mean))
        np.testing.assert_array_equal(got, combine_oracle(source, table_rows, inverse, offsets, mean))

    grad = random.standard_normal((n_bags, dim)).astype(np.float32)
    lengths = np.diff(offsets)
    bags = np.repeat(np.arange(n_bags), lengths)
    terms = grad[bags] * (np.float32(1) / lengths[bags, None].astype(np.float32) if mean else np.float32(1))
    expected = np.zeros((310, dim), np.float32)
    for k in range(n):
        if inverse[k] >= 0:
            expected[inverse[k]] += terms[k]
    check_sums(lambda: run_gradient(grad, offsets, inverse, mean, 310), expected, terms, inverse)


@pytest.mark.parametrize("mean", [False, True])
def test_bags_without_keys_are_zero(mean):
    source = np.ones((3, 5), np.float32)
    nothing = np.zeros(0, np.int32)
    for n_bags in (0, 1, 4):
        out = run_combine(source, None, nothing, np.zeros(n_bags + 1, np.int64), mean)
        np.testing.assert_array_equal(out, np.zeros((n_bags, 5)))
        gradient = run_gradient(np.ones((n_bags, 5), np.float32), np.zeros(n_bags + 1, np.int64), nothing, mean, 3)
        np.testing.assert_array_equal(gradient, np.zeros((3, 5)))


def test_one_bag_with_all_keys(seed):
    random = np.random.RandomState(seed)
    source = random.standard_normal((50, 48)).astype(np.float32)
    inverse = random.randint(0, 50, 20000).astype(np.int32)
    offsets = np.array([0, 0, 20000, 20000], np.int64)
    got = same_bits(lambda: run_combine(source, None, inverse, offsets, True))
    np.testing.assert_array_equal(got, combine_oracle(source, None, inverse, offsets, True))


def test_a_key_without_row_counts_in_the_mean():
    source = np.full((1, 4), 6, np.float32)
    out = run_combine(source, np.array([0, -1], np.int32), np.array([0, 1, 1], np.int32), np.array([0, 3]), True)
    np.testing.assert_array_equal(out, np.full((1, 4), 2, np.float32))


@pytest.mark.parametrize("dim", [1, 3, 32, 33])
def test_divide_also_in_place(seed, dim):
    random = np.random.RandomState(seed)
    offsets = random_offsets(random, 5000)
    values = random.standard_normal((5000, dim)).astype(np.float32)
    lengths = np.diff(offsets)[:, None].astype(np.float32)
    expected = np.where(lengths > 0, values / np.maximum(lengths, 1), np.float32(0))

    def apart():
        out = dirty(values.shape)
        call(combine.divide, values, offsets, out)
        return out

    def in_place():
        out = values.copy()
        call(combine.divide, out, offsets, out)
        return out

    np.testing.assert_array_equal(same_bits(apart), expected)
    np.testing.assert_array_equal(same_bits(in_place), expected)


@pytest.mark.parametrize("stride", [1, 2])
def test_bag_offsets_and_sort_order(seed, stride):
    random = np.random.RandomState(seed)
    for n, n_bags in ((0, 0), (0, 5), (1, 1), (1, 9), (10, 3), (5000, size(20000)),
                      (size(60000), 7000), (size(60000), 1)):
        bags = random.randint(0, max(n_bags, 1), n).astype(np.int64)
        if n and n_bags > 4:
            bags = np.clip(bags, 2, n_bags - 2)  # the first and last bags are empty
        ordered = np.sort(bags)
        expected = np.searchsorted(ordered, np.arange(n_bags + 1))
        spread = np.full((n, stride), -77, np.int64)

        def offsets_of(these):
            spread[:, 0] = these
            offsets = dirty(n_bags + 1, np.int64)
            state = call(combine.bag_offsets, spread, offsets)
            return state, offsets

        state, offsets = same_bits(lambda: offsets_of(ordered))
        assert state == 0
        np.testing.assert_array_equal(offsets, expected)
        if (np.diff(bags) < 0).any():
            assert offsets_of(bags)[0] == 1
        spread[:, 0] = bags
        order, offsets = dirty(n, np.int32), dirty(n_bags + 1, np.int64)
        call(combine.sort_order, spread, offsets, order)
        np.testing.assert_array_equal(offsets, expected)
        np.testing.assert_array_equal(order, np.argsort(bags, kind="stable"))


def test_one_step_back_anywhere_is_unsorted():
    for place in (0, 1, 9999, 19998):
        bags = np.arange(20000, dtype=np.int64)
        bags[[place, place + 1]] = bags[[place + 1, place]]
        offsets = dirty(20001, np.int64)
        assert call(combine.bag_offsets, bags, offsets) == 1


def test_bags_out_of_range_name_the_first_and_write_nothing_outside(seed):
    random = np.random.RandomState(seed)
    for _ in range(rounds(200)):
        n, n_bags = random.randint(1, size(40000) if _ == 0 else 60), random.randint(0, 30)
        bags = random.randint(0, max(1, n_bags), n).astype(np.int64)
        if random.randint(2):
            bags.sort()
        for place in random.randint(0, n, 3):
            bags[place] = random.choice([-1, n_bags, np.iinfo(np.int64).min, np.iinfo(np.int64).max, n_bags + 5])
        guarded = dirty(n_bags + 1 + 128, np.int64)
        middle = guarded[64:64 + n_bags + 1]
        state = call(combine.bag_offsets, bags, middle)
        assert state == 2 + np.nonzero((bags < 0) | (bags >= n_bags))[0][0]
        untouched = dirty(64, np.int64)
        np.testing.assert_array_equal(guarded[:64], untouched)
        np.testing.assert_array_equal(guarded[-64:], untouched)


def test_nan_and_inf_stay_in_their_bag():
    source = np.ones((3, 33), np.float32)
    source[1], source[2] = np.nan, np.inf
    out = run_combine(source, None, np.array([0, 0, 1, 0, 2, 0], np.int32), np.array([0, 2, 4, 5, 6]), True)
    assert (out[[0, 3]] == 1).all() and np.isnan(out[1]).all() and np.isinf(out[2]).all()
