"""What the kernel tests share: edge keys, oracles of sums in any order, an independent Philox."""
import numpy as np
from kernel_devices import NONSENSE, SMALL, deterministic, on_gpu, same_bits, size

DIMS = (1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 128, 1024, 1025) if not SMALL else (1, 2, 4, 33, 128, 1025)
INT64 = np.iinfo(np.int64)
EXTREMES = np.array([INT64.min, -1, 0, INT64.max, INT64.min + 1, 1, INT64.max - 1], np.int64)


def dirty(shape, dtype=np.float32):
    """An output array full of nonsense, so that a place not written is seen."""
    return np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, NONSENSE, np.uint8).view(dtype).reshape(shape)


def edge_keys(random):
    """Named key arrays, int64."""
    return {
        "none": np.zeros(0, np.int64),
        "one": np.array([7], np.int64),
        "all equal": np.full(3000, -5, np.int64),
        "all distinct": random.permutation(size(70000)).astype(np.int64) - 9000,
        "extremes": EXTREMES[random.randint(0, len(EXTREMES), 1000)],
        "power law": (1000003 * random.random_sample(size(53248)) ** 3).astype(np.int64),
        "whole range": random.randint(INT64.min, INT64.max, 20000, np.int64)[random.randint(0, 20000, size(30000))],
        "high bits only": random.randint(0, 5000, size(40000)).astype(np.int64) << 44,
        "batch of a slot": np.arange(31, dtype=np.int64) * 1024,
    }


def first_appearance(keys):
    """Distinct keys in the order in which they first appear, and the inverse, by np.unique."""
    values, index, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(index, kind="stable")
    number = np.empty(len(values), np.int32)
    number[order] = np.arange(len(values), dtype=np.int32)
    return values[order], number[inverse].astype(np.int32)


def check_sums(run, in_order, terms, ids):
    """Checks sums of rows by segment: on a GPU they may be in any order, unless it is deterministic.

    Args:
        run: gives the sums, float32 [segments, dim].
        in_order: the sums with every segment's terms added in their order, float32 [segments, dim].
        terms: float32 [n, dim].
        ids: int [n], each term's segment; those with a negative one are left out.
    """
    if not on_gpu():
        np.testing.assert_array_equal(same_bits(run), in_order)
        return
    with deterministic():
        np.testing.assert_array_equal(same_bits(run), in_order)
    terms, ids = terms[ids >= 0].astype(np.float64), ids[ids >= 0]
    exact, absolute = np.zeros(in_order.shape), np.zeros(in_order.shape)
    np.add.at(exact, ids, terms)
    np.add.at(absolute, ids, np.abs(terms))
    # Each of a segment's additions rounds by at most 2**-24 of what is added up so far.
    roundings = np.bincount(ids, minlength=len(in_order))[:, None]
    for _ in range(2):
        assert (np.abs(run() - exact) <= 1.01 * 2.0 ** -24 * roundings * absolute).all()


def philox4x32_10(counter, key):
    """Philox4x32-10 from its paper's definition, in uint64 arithmetic: counter [n, 4], key [n or 1, 2]."""
    low = np.uint64(0xffffffff)
    c = [np.asarray(counter)[:, i].astype(np.uint64) for i in range(4)]
    k = [np.asarray(key)[:, i].astype(np.uint64) for i in range(2)]
    for _ in range(10):
        left, right = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(right >> np.uint64(32)) ^ c[1] ^ k[0], right & low, (left >> np.uint64(32)) ^ c[3] ^ k[1], left & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c, axis=1).astype(np.uint32)


def mix64(value):
    """The hash that spreads seeds and table numbers, in Python's integers."""
    mask = (1 << 64) - 1
    value &= mask
    value = ((value ^ (value >> 30)) * 0xbf58476d1ce4e5b9) & mask
    value = ((value ^ (value >> 27)) * 0x94d049bb133111eb) & mask
    return value ^ (value >> 31)


def combine_oracle(source, rows, inverse, offsets, mean):
    """Bags of rows in key order, in float32."""
    out = np.zeros((len(offsets) - 1, source.shape[1]), np.float32)
    for b in range(len(out)):
        for k in range(offsets[b], offsets[b + 1]):
            row = rows[inverse[k]] if rows is not None and inverse[k] >= 0 else inverse[k]
            if row >= 0:
                out[b] += source[row]
        if mean and offsets[b + 1] > offsets[b]:
            out[b] /= np.float32(offsets[b + 1] - offsets[b])
    return out
