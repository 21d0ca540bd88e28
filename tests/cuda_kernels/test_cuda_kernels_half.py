"""Kernels that read or write 16-bit floats, against NumPy's rounding of what the 32-bit forms give."""
import numpy as np
import pytest
from kernel_checks import DIMS, check_sums, combine_oracle, dirty
from kernel_devices import SMALL, call, same_bits, size

from sok1x.cuda_kernels import combine, gather, hash_index, lookup, row_init, segment_sum

pytestmark = pytest.mark.usefixtures("device")

# In float16 some of these are subnormal, zero, Inf, or a tie between two numbers.
EDGES = np.array([0, -0.0, 65504, 65519.996, 65520, -7e4, np.inf, -np.inf, np.nan, 2.0 ** -14, 2.0 ** -15, 2.0 ** -24,
                  2.0 ** -25, 1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11, -1e-30], np.float32)


def table_of(random, rows, dim):
    table = (random.standard_normal((rows, dim)) * 10.0 ** random.randint(-6, 5, (rows, dim))).astype(np.float32)
    table[random.uniform(size=table.shape) < 0.02] = random.choice(EDGES)
    return table


def halves(values):
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


def take(table, rows):
    return np.where((rows >= 0)[:, None], table[np.maximum(rows, 0)], table.dtype.type(0))


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("n", [0, 1, 3, 17, 3001])
def test_gather(seed, dim, n):
    random = np.random.RandomState(seed)
    table = table_of(random, 701, dim)
    index = random.randint(-1, 701, n).astype(np.int32)
    rows = random.randint(-1, 701, 350).astype(np.int32)
    inverse = random.randint(0, 350, n).astype(np.int32)
    narrow = halves(table)

    def run():
        to_half, half, through = (dirty((n, dim), np.float16) for _ in range(3))
        call(gather.gather, table, index, to_half)
        call(gather.gather, narrow, index, half)
        call(gather.gather_through, table, rows, inverse, through)
        return to_half, half, through

    to_half, half, through = same_bits(run)
    np.testing.assert_array_equal(to_half, take(narrow, index))
    np.testing.assert_array_equal(half, take(narrow, index))
    np.testing.assert_array_equal(through, take(narrow, rows[inverse]))
    assert (np.signbit(half) == np.signbit(take(narrow, index)))[~np.isnan(half)].all()


@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
def test_look_up(seed, key_type):
    random = np.random.RandomState(seed)
    for dim in (1, 3, 16, 33):
        stored = random.permutation(3000).astype(np.int64)
        table, n = table_of(random, stored.size, dim), size(9000)
        capacity = hash_index.capacity(stored.size)
        index, given = np.empty((capacity, 2), np.int64), np.full(stored.size, -1, np.int32)
        call(hash_index.clear, index)
        call(hash_index.insert, index, stored, given, 0)
        keys = random.randint(0, 4000, n).astype(key_type)
        row_of = np.full(4000, -1, np.int32)
        row_of[stored] = np.arange(stored.size)
        rows, out = np.empty(n, np.int32), dirty((n, dim), np.float16)
        missing = call(lookup.look_up, keys, index, table, rows, out)
        np.testing.assert_array_equal(rows, row_of[keys.astype(np.int64)])
        assert missing == (rows < 0).sum() > 0
        np.testing.assert_array_equal(out[rows >= 0], halves(table)[rows[rows >= 0]])


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("mean", [False, True])
def test_combine_and_its_gradient(seed, dim, mean):
    random = np.random.RandomState(seed)
    n_bags = 60 if dim > 1000 or SMALL else 500
    source = random.standard_normal((301, dim)).astype(np.float32)
    lengths = random.randint(0, 10, n_bags)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = offsets[-1]
    rows = random.randint(-1, 301, 150).astype(np.int32)
    for table_rows, inverse in ((rows, random.randint(0, 150, n)), (None, random.randint(-1, 301, n))):
        inverse = inverse.astype(np.int32)
        for table in (source, halves(source)):
            def run():
                out = dirty((n_bags, dim), np.float16)
                call(combine.combine, table, table_rows, inverse, offsets, mean, out)
                return out
            expected = halves(combine_oracle(table.astype(np.float32), table_rows, inverse, offsets, mean))
            np.testing.assert_array_equal(same_bits(run), expected)

    grad = halves(random.standard_normal((n_bags, dim)))
    terms = np.repeat(grad.astype(np.float32), lengths, axis=0)
    if mean:
        terms *= np.repeat(np.float32(1) / np.maximum(lengths, 1).astype(np.float32), lengths)[:, None]
    expected = np.zeros((310, dim), np.float32)
    np.add.at(expected, inverse[inverse >= 0], terms[inverse >= 0])  # one by one, in key order

    def gradient():
        out = dirty((310, dim))
        call(segment_sum.bag_segment_sum, grad, offsets, inverse, mean, out)
        return out

    check_sums(gradient, expected, terms, inverse)


def test_sums_are_made_in_32_bits():
    """2048 + 1 is 2048 in float16."""
    source = np.concatenate([np.full((1, 4), 2048), np.ones((3, 4))]).astype(np.float16)
    out, offsets = dirty((1, 4), np.float16), np.array([0, 4], np.int64)
    each = np.arange(4, dtype=np.int32)
    call(combine.combine, source, None, each, offsets, False, out)
    np.testing.assert_array_equal(out, np.full((1, 4), 2052))  # 2051 is a tie
    sums = dirty((1, 4))
    call(segment_sum.segment_sum, source, np.zeros(4, np.int32), sums)
    np.testing.assert_array_equal(sums, np.full((1, 4), 2051))


@pytest.mark.parametrize("dim", [1, 3, 32, 33])
def test_divide_also_in_place(seed, dim):
    random = np.random.RandomState(seed)
    lengths = random.randint(0, 9, 3000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = halves(random.standard_normal((3000, dim)) * 100)
    expected = halves(np.where(lengths[:, None] > 0, values.astype(np.float32) / np.maximum(lengths, 1)[:, None].astype(
        np.float32), np.float32(0)))

    def apart():
        out = dirty(values.shape, np.float16)
        call(combine.divide, values, offsets, out)
        return out

    def in_place():
        out = values.copy()
        call(combine.divide, out, offsets, out)
        return out

    np.testing.assert_array_equal(same_bits(apart), expected)
    np.testing.assert_array_equal(same_bits(in_place), expected)


@pytest.mark.parametrize("kind,a,b", [("zeros", 0, 0), ("constant", 2.7, 0), ("uniform", -0.05, 0.05),
                                      ("normal", 1, 0.5), ("truncated_normal", -1, 2)])
@pytest.mark.parametrize("dim", [1, 4, 31, 64])
def test_initial_rows(seed, kind, a, b, dim):
    random = np.random.RandomState(seed)
    keys = random.randint(-2 ** 62, 2 ** 62, 500)
    only = random.randint(-1, 2, 500).astype(np.int32)

    def rows(which, dtype):
        out = dirty((500, dim), dtype)
        call(row_init.initial_rows, seed, 3, keys, kind, a, b, which, out)
        return out

    expected = halves(rows(None, "float32"))
    np.testing.assert_array_equal(same_bits(lambda: rows(None, "float16")), expected)
    some = rows(only, "float16")
    np.testing.assert_array_equal(some[only < 0], expected[only < 0])
    assert some[only >= 0].tobytes() == dirty((int((only >= 0).sum()), dim), np.float16).tobytes()
