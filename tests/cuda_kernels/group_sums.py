"""Terms of sums by segment for many tables, and what their sums are: what tests of group kernels that sum share."""
import numpy as np
from group_arena import Arena, Blocked, Flat, put_all, sizes
from kernel_checks import dirty
from kernel_devices import SMALL, deterministic, on_gpu

from sok1x.cuda_kernels import group_sum, groups

DIMS = [1, 2, 3, 4, 6, 8, 16, 31, 33, 64, 100, 128, 130, 257, 300] if not SMALL else [1, 2, 3, 4, 33, 130]


def oracle(values, ids, num_segments):
    out = np.zeros((num_segments, values.shape[1]), np.float32)
    kept = ids >= 0
    np.add.at(out, ids[kept], values[kept].astype(np.float32))
    return out


class Sums:
    """Random members' terms, float32 or float16, their segments, and where sums are asked for.

    Args:
        bags: of each member None, or the number of items of each bag, as many as `segments` in all.
    """

    def __init__(self, random, dims, segments, num_segments, ranks=0, align=16, half_sums=True, bags=None):
        self.arena, self.count = Arena(), len(dims)
        self.dims, self.segments = np.array(dims, np.int64), [ids.astype(np.int32) for ids in segments]
        self.num_segments = np.array(num_segments, np.int64)
        self.half = random.uniform(size=self.count) < 0.4
        self.bags = [None] * self.count if bags is None else bags
        self.offsets = [np.zeros(0, np.int64) if one is None else np.concatenate([[0], np.cumsum(one)]).astype(np.int64)
                        for one in self.bags]
        self.mean = [int(one is not None and random.rand() < 0.5) for one in self.bags]
        self.scaled = [one is not None and random.rand() < 0.4 for one in self.bags]
        self.scales = [random.choice([0.0, -1.5, 0.3], len(ids)).astype(np.float32) for ids in segments]
        self.values = [random.standard_normal((len(ids if one is None else one), dim)).astype(
            np.float16 if half else np.float32) for ids, one, dim, half in zip(segments, self.bags, dims, self.half)]
        self.wants_half = (random.uniform(size=self.count) < 0.4) & half_sums
        sums = [dirty((n, dim)) for n, dim in zip(self.num_segments, dims)]
        halves = [dirty((n, dim), np.float16) for n, dim in zip(self.num_segments, dims)]

        self._random, self._ranks, self._align = random, ranks, align
        self.lie_values, self.lie_sums, self.lie_half = self.lay(self.values), self.lay(sums), self.lay(halves)
        self.ids, self._offsets = put_all(self.arena, self.segments), put_all(self.arena, self.offsets)
        self._scales = put_all(self.arena, self.scales)

    def lay(self, arrays):
        """Puts arrays of all members, side by side or in blocks of ranks."""
        if not self._ranks or not self.count:
            return Flat(self.arena, self._random, arrays, self._align)
        return Blocked(self.arena, self._random, arrays, self._ranks, max(4, self._align))

    def terms(self, t):
        """What is added up of a member, float32 [n, dim]."""
        if self.bags[t] is None:
            return self.values[t].astype(np.float32)
        rows = np.repeat(self.values[t].astype(np.float32), self.bags[t], axis=0)
        if self.scaled[t]:
            rows *= self.scales[t][:, None]
        elif self.mean[t]:
            rows *= np.repeat(np.float32(1) / np.maximum(self.bags[t], 1).astype(np.float32), self.bags[t])[:, None]
        return rows

    def members(self, base):
        """The records, SUM [T], for the arena's memory at `base`."""
        members = groups.members(group_sum.SUM, self.count)
        self.lie_values.lie(members["values"], base)
        self.lie_sums.lie(members["sums"], base)
        self.lie_half.lie(members["half"], base)
        members["half"]["base"][~self.wants_half] = 0
        members["values_half"], members["dim"], members["n"] = self.half, self.dims, [len(i) for i in self.segments]
        members["num_segments"], members["segments"] = self.num_segments, base + self.ids
        members["n_bags"], members["mean"] = [0 if one is None else len(one) for one in self.bags], self.mean
        members["offsets"] = [0 if one is None else base + at for one, at in zip(self.bags, self._offsets)]
        members["scales"] = [base + at if scaled else 0 for scaled, at in zip(self.scaled, self._scales)]
        return members

    def run(self):
        """(sums, their halves) of the members; those halves that were not asked for are nonsense."""
        places = [at for lie in (self.lie_sums, self.lie_half)
                  for at in (lie.at if isinstance(lie, Flat) else [lie.at])]
        found = self.arena.run(lambda base: group_sum.segment_sum(self.members(base)), *places)
        if isinstance(self.lie_sums, Flat):
            return list(found[:self.count]), list(found[self.count:])
        return self.lie_sums.read(found[0]), self.lie_half.read(found[1])

    def check(self):
        """Any order on a GPU, unless it is deterministic; see kernel_checks.check_sums."""
        exact = [oracle(*one) for one in zip(map(self.terms, range(self.count)), self.segments, self.num_segments)]
        if not on_gpu():
            self._compare(exact, lambda a, b, t: a.tobytes() == b.tobytes())
            return
        with deterministic():
            self._compare(exact, lambda a, b, t: a.tobytes() == b.tobytes())
        for _ in range(2):
            self._compare(exact, self._close)

    def _compare(self, expected, same):
        sums, halves = self.run()
        for t in range(self.count):
            assert same(sums[t], expected[t], t), "member {}, dim {}, {} segments".format(
                t, self.dims[t], self.num_segments[t])
            narrow = sums[t].astype(np.float16) if self.wants_half[t] else dirty(sums[t].shape, np.float16)
            assert halves[t].tobytes() == narrow.tobytes(), "halves of member {}".format(t)

    def _close(self, found, expected, t):
        kept = self.segments[t] >= 0
        absolute = np.zeros(expected.shape)
        np.add.at(absolute, self.segments[t][kept], np.abs(self.terms(t)[kept].astype(np.float64)))
        additions = np.bincount(self.segments[t][kept], minlength=len(expected))[:, None]
        # Each of a segment's additions rounds by at most 2**-24 of what is added up so far, here and in the oracle.
        return (np.abs(found - expected.astype(np.float64)) <= 2.02 * 2.0 ** -24 * additions * absolute).all()


def random_members(random, count, most):
    """Dims, segments and their numbers: in order of first appearance, random with gaps, all equal, all left out."""
    dims, segments, num_segments = [], [], []
    for n in sizes(random, count, most):
        kind = random.choice(["first seen", "gaps", "equal", "left out"], p=[0.4, 0.4, 0.1, 0.1])
        many = {"first seen": n, "gaps": 2 * n + 3, "equal": 5, "left out": random.choice([0, 1, 40])}[kind]
        ids = {"first seen": np.minimum(random.randint(0, n + 1, n), np.arange(n) // 2),
               "gaps": random.randint(-1, many, n), "equal": np.full(n, 4), "left out": np.full(n, -1)}[kind]
        dims.append(random.choice(DIMS))
        segments.append(ids)
        num_segments.append(many)
    return dims, segments, num_segments


def random_bags(random, n):
    """Numbers of items, n in all, of bags of which some, also the first and the last, may be empty."""
    cuts = np.sort(random.randint(0, n + 1, random.choice([0, n // 4, 2 * n])))
    return np.diff(np.concatenate([[0], cuts, [n]]))
