"""combine for many tables at once, against NumPy sums in the same order."""
import numpy as np
import pytest
from group_arena import Arena, Blocked, Flat, put_all, sizes
from kernel_checks import combine_oracle, dirty
from kernel_devices import SMALL, gpu_only, host_only, on, size, threads

from sok1x.cuda_kernels import backend, group_combine, groups

pytestmark = pytest.mark.usefixtures("device")
DIMS = [1, 2, 3, 4, 6, 8, 12, 16, 31, 33, 64, 100, 128, 130, 257, 300] if not SMALL else [1, 2, 3, 4, 33, 130]


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_combine_member_bytes() == group_combine.COMBINE.itemsize


class Combined:
    """Random members' rows, which of them each key has, and their bags.

    Args:
        bags: of each member, the number of keys of each of its bags.
        ranks: 0: rows and sums lie side by side; otherwise in so many blocks.
        weighted: the part of the members that have weights.
        kinds: 0: rows and sums are float32, 1: sums are float16, 2: both are; of each member, or drawn.
    """

    def __init__(self, random, dims, bags, ranks=0, align=16, weighted=0.0, kinds=None):
        self.arena, self.count, self.dims = Arena(), len(dims), np.array(dims, np.int64)
        self.offsets = [np.concatenate([[0], np.cumsum(one)]).astype(np.int64) for one in bags]
        kinds = random.randint(0, 3, self.count) if kinds is None else kinds
        self.source_half, self.out_half = kinds == 2, kinds > 0
        self.mean = random.randint(0, 2, self.count)
        self.rows = [random.standard_normal((random.choice([1, 5, 200]), dim)).astype(
            np.float16 if half else np.float32) for dim, half in zip(dims, self.source_half)]
        self.inverse = [random.randint(random.choice([0, -2]), len(rows), offsets[-1]).astype(np.int32)
                        for rows, offsets in zip(self.rows, self.offsets)]
        outs = [dirty((len(one), dim), np.float16 if half else np.float32)
                for one, dim, half in zip(bags, dims, self.out_half)]

        def lay(arrays):
            if not ranks or not self.count:
                return Flat(self.arena, random, arrays, align)
            return Blocked(self.arena, random, arrays, ranks, max(4, align))

        self._source, self._out = lay(self.rows), lay(outs)
        self._inverse, self._offsets = put_all(self.arena, self.inverse), put_all(self.arena, self.offsets)
        self.weighted = random.uniform(size=self.count) < weighted
        self.mean[self.weighted] += random.randint(0, 2, self.count)[self.weighted] * self.mean[self.weighted]
        self.or_nothing = self.weighted & (self.mean > 0) & (random.randint(0, 2, self.count) > 0)
        self.weights = [random.choice([0.0, -1.0, 1.0, 0.5, 3.0] if random.randint(2) else [0.0, -1.0, 1.0],
                                      len(one)).astype(np.float32) for one in self.inverse]
        self._weights = put_all(self.arena, self.weights)
        self._scales = [self.arena.out(len(one), np.float32, 4) for one in self.inverse]

    def _combine(self, base):
        members = groups.members(group_combine.COMBINE, self.count)
        self._source.lie(members["source"], base)
        self._out.lie(members["out"], base)
        members["source_half"], members["out_half"] = self.source_half, self.out_half
        members["mean"] = self.mean + 4 * self.or_nothing
        members["dim"], members["n_keys"] = self.dims, [len(one) for one in self.inverse]
        members["n_bags"] = [len(one) - 1 for one in self.offsets]
        members["inverse"] = base + self._inverse.reshape(self.count)
        members["offsets"] = base + self._offsets.reshape(self.count)
        members["weights"] = np.where(self.weighted, base + self._weights.reshape(self.count), 0)
        members["scales"] = np.where(self.weighted & (self.mean > 0), base + np.array(self._scales, np.int64), 0)
        group_combine.combine(members)

    def run(self):
        """(what each member's bags come to, what their rows have been multiplied with)."""
        if isinstance(self._out, Flat):
            found = self.arena.same_bits(self._combine, *self._out.at, *self._scales) if self.count else (
                self.arena.run(self._combine))
            return found[:self.count], found[self.count:]
        out, *scales = self.arena.same_bits(self._combine, self._out.at, *self._scales)
        return self._out.read(out), scales

    def weighted_oracle(self, t):
        """(sums, scales) of a member with weights, float32, in the order of the keys."""
        bags = np.repeat(np.arange(len(self.offsets[t]) - 1), np.diff(self.offsets[t]))
        there = self.inverse[t] >= 0
        sums = np.zeros((len(self.offsets[t]) - 1, self.dims[t]), np.float32)
        rows = self.rows[t].astype(np.float32)[self.inverse[t][there]]
        np.add.at(sums, bags[there], self.weights[t][there, None] * rows)
        if not self.mean[t]:
            return sums, dirty(len(bags))
        divisors = np.zeros(len(sums), np.float32)
        np.add.at(divisors, bags, self.weights[t] ** (2 if self.mean[t] == 2 else 1))
        divisors = np.sqrt(divisors) if self.mean[t] == 2 else divisors
        with np.errstate(all="ignore"):
            divided = np.diff(self.offsets[t]) > 0
            nothing = self.or_nothing[t] & (divisors == 0)
            return (np.where((divided & ~nothing)[:, None], sums / divisors[:, None], np.float32(0)),
                    np.where(nothing[bags], np.float32(0), self.weights[t] / divisors[bags]))

    def check(self):
        for t, (found, scales) in enumerate(zip(*self.run())):
            if self.weighted[t]:
                expected, of_rows = self.weighted_oracle(t)
                with np.errstate(over="ignore"):
                    expected = expected.astype(found.dtype)
                np.testing.assert_array_equal(found, expected, "member {}, dim {}".format(t, self.dims[t]))
                np.testing.assert_array_equal(scales, of_rows, "scales of member {}".format(t))
                continue
            assert scales.tobytes() == dirty(len(scales)).tobytes()
            expected = combine_oracle(self.rows[t].astype(np.float32), None, self.inverse[t], self.offsets[t],
                                      self.mean[t])
            assert found.tobytes() == expected.astype(found.dtype).tobytes(), "member {}, dim {}".format(
                t, self.dims[t])


def random_bags(random, count, most):
    """Numbers of keys: short bags and empty ones, none, one long bag between empty ones."""
    kinds = {"short": lambda n: random.randint(0, 10, n), "empty": lambda n: np.zeros(n, np.int64),
             "one": lambda n: np.ones(n, np.int64), "long": lambda n: np.array([0, 0, 5 * n, 0, 3])}
    return [kinds[random.choice(sorted(kinds))](n) for n in sizes(random, count, most)]


@pytest.mark.parametrize("ranks, align", [(0, 16), (0, 4), (1, 1), (3, 1), (8, 16)])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 33])
def test_random_members(seed, count, ranks, align):
    random = np.random.RandomState(seed)
    Combined(random, random.choice(DIMS, count), random_bags(random, count, size(300)), ranks, align).check()


@pytest.mark.parametrize("ranks, align, weighted", [(0, 16, 0.5), (0, 4, 1.0), (3, 1, 0.5)])
def test_members_with_weights(seed, ranks, align, weighted):
    random = np.random.RandomState(seed)
    Combined(random, DIMS, random_bags(random, len(DIMS), size(100)), ranks, align, weighted).check()


def test_bags_whose_weights_add_up_to_zero(seed):
    """Rows that are not finite too: where zeros are wanted in place of a division by zero, none of them is heard of."""
    random = np.random.RandomState(seed)
    combined = Combined(random, DIMS, [np.array([2, 1, 3, 0, 2, 1])] * len(DIMS), weighted=1.0)
    combined.mean[:] = np.arange(len(DIMS)) % 2 + 1
    combined.or_nothing[:] = np.arange(len(DIMS)) % 4 < 2
    for weights, rows in zip(combined.weights, combined.rows):
        weights[:] = [0, 0, 0, 2, -2, 0, 1, 1, 5]
        rows[random.randint(len(rows))] = random.choice([np.nan, np.inf])
    combined.check()


@pytest.mark.parametrize("ranks", [0, 2])
def test_all_dims_side_by_side(seed, ranks):
    random = np.random.RandomState(seed)
    Combined(random, DIMS, [random.randint(0, 6, 70) for _ in DIMS], ranks).check()


@pytest.mark.parametrize("keys", ["as many as bags at most", "more"])
def test_float32_rows_in_fours_side_by_side(seed, keys):
    """What has kernels of its own on a GPU: one where few bags have more than one key, one where many have."""
    random = np.random.RandomState(seed)
    dims = np.array([dim for dim in DIMS if dim % 4 == 0])
    lengths, count = ([0, 0, 1, 1, 1, 2], size(500)) if keys != "more" else (range(9), size(90))
    bags = [random.choice(lengths, count) for _ in dims]
    if keys != "more":
        bags[0] = np.ones(size(333), np.int64)
        bags[-1][:3] = [0, len(bags[-1]) // 4, 2]  # one is long, and half of the rest are empty
        bags[-1][3:] = random.permutation(len(bags[-1]) - 3) % 2
    combined = Combined(random, dims, bags, kinds=np.zeros(len(dims), np.int64))
    few = sum(one.sum() for one in bags) <= sum(map(len, bags))
    assert few == (keys != "more")
    for rows in combined.rows:
        rows[0] = -0.0
    combined.check()


def test_a_member_that_is_shared_out_over_threads(seed):
    random = np.random.RandomState(seed)
    combined = Combined(random, [16, 3, 64], [random.randint(0, 9, size(20000)), [4], random.randint(0, 9, 900)])
    combined.check()
    with on("host"):
        for count in (1, 2, 3):
            with threads(count):
                combined.check()


@gpu_only
def test_offsets_that_prove_faulty_later_do_no_harm(seed):
    """Keys of no batch are read, and nothing but the sums is written."""
    random = np.random.RandomState(seed)
    combined = Combined(random, [8, 33], [random.randint(0, 9, 50), random.randint(0, 9, 50)])
    for t, at in enumerate(combined._offsets):
        array = combined.arena._first[at]
        array[random.randint(0, 51, 20)] = random.choice([-1, 2 ** 62, -2 ** 62, len(combined.inverse[t]) + 9], 20)
    combined.arena.run(combined._combine, *combined._out.at)
