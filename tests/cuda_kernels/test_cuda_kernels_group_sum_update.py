"""Sums of gradients and an optimizer's step in one pass, against the kernels that do one after the other."""
import numpy as np
import pytest
from group_arena import Flat, put_all
from group_sums import Sums, random_bags, random_members
from kernel_checks import dirty
from kernel_devices import call, deterministic, host_only, on, on_gpu, size, threads

from sok1x.cuda_kernels import adam, group_sum_update, group_update, groups, segment_sum, update

pytestmark = pytest.mark.usefixtures("device")
STEPS = ["descend", "lazy_adam"]
CHUNK = segment_sum.CHUNK


class Moved:
    """Members' terms, and tables whose rows are moved by their sums; some rows lie outside their tables.

    Numbers are such that sums are exact, so that a GPU's order does not matter.
    """

    def __init__(self, random, step, dims, segments, num_segments, ranks=0, align=16, bags=None):
        self.step, self.sums = step, Sums(random, dims, segments, num_segments, ranks, align, False, bags)
        sums, arena, self.count = self.sums, self.sums.arena, len(dims)
        for values in sums.values:
            values[...] = random.randint(-40, 40, values.shape) / 8
        sums.lie_values = sums.lay(sums.values)
        sums.lie_sums = Flat(arena, random, [dirty((n, dim)) for n, dim in zip(num_segments, dims)])
        if on_gpu():  # a third of a number is not exact
            sums.mean = [0] * self.count
        scales = [random.choice([0.0, -1.5, 0.25], len(ids)).astype(np.float32) for ids in sums.segments]
        sums.scales, sums._scales = scales, put_all(arena, scales)
        self.table_rows = [n + random.randint(1, 50) for n in num_segments]
        self.rows = [random.permutation(of + 4)[:n].astype(np.int32) - 2
                     for of, n in zip(self.table_rows, num_segments)]
        self.tables = [random.normal(size=(of, dim)).astype(np.float32) for of, dim in zip(self.table_rows, dims)]
        self.slots = [[random.uniform(0, 2, size=one.shape).astype(np.float32) for one in self.tables] for _ in "mv"]
        self.scalars = [[np.array([x], np.float32) for x in (0.05 * (t + 1), 0.9, 0.99, 1e-7, 0.7, 0.8)]
                        for t in range(self.count)]
        self.powers = random.uniform(size=self.count) < 0.5
        self._rows, self._tables = put_all(arena, self.rows), put_all(arena, self.tables)
        self._slots = [put_all(arena, of) for of in self.slots]
        self._scalars = np.array([put_all(arena, of) for of in self.scalars]).reshape(self.count, 6)

    def _move(self, base):
        sums, updates = self.sums.members(base), groups.members(group_update.UPDATE, self.count)
        updates["values"], updates["dim"] = sums["sums"]["base"], sums["dim"]
        updates["n"], updates["rows"] = sums["num_segments"], base + self._rows
        updates["table"], updates["table_rows"] = base + self._tables, self.table_rows
        updates["slot0"], updates["slot1"] = [base + at for at in self._slots]
        for i in range(1 if self.step == "descend" else 6):
            updates["scalar{}".format(i)] = np.where(self.powers | (i < 4), base + self._scalars[:, i], 0)
        getattr(group_sum_update, self.step)(sums, updates)

    def run(self):
        """[T] of (table, m, v) or of (table,), after the step."""
        changed = [self._tables] + ([] if self.step == "descend" else self._slots)
        places = [int(at) for of in changed for at in of]
        found = self.sums.arena.run(self._move, *places, *self.sums.lie_sums.at)
        return [found[t:len(places):self.count] for t in range(self.count)]

    def expected(self):
        made = []
        for t in range(self.count):
            gradients = np.zeros((self.sums.num_segments[t], self.sums.dims[t]), np.float32)
            kept = self.sums.segments[t] >= 0
            np.add.at(gradients, self.sums.segments[t][kept], self.sums.terms(t)[kept])
            alone = [self.tables[t].copy(), self.slots[0][t].copy(), self.slots[1][t].copy()]
            if self.step == "descend":
                call(update.descend, gradients, self.rows[t], self.scalars[t][0], alone[0])
                alone = alone[:1]
            else:
                scalars = self.scalars[t][:6 if self.powers[t] else 4]
                call(adam.lazy_adam, gradients, self.rows[t], scalars, *alone)
            made.append(alone)
        return made

    def check(self):
        expected = self.expected()
        self.compare(expected)
        if on_gpu():
            with deterministic():
                self.compare(expected)

    def compare(self, expected):
        for t, (found, wanted) in enumerate(zip(self.run(), expected)):
            for name, one, other in zip(("table", "m", "v"), found, wanted):
                assert one.tobytes() == other.tobytes(), "{} of member {}, dim {}: {} numbers differ".format(
                    name, t, self.sums.dims[t], (one != other).sum())


@pytest.mark.parametrize("ranks, align", [(0, 16), (0, 4), (1, 1), (3, 1), (8, 16)])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 33])
@pytest.mark.parametrize("step", STEPS)
def test_as_one_after_the_other(seed, step, count, ranks, align):
    random = np.random.RandomState(seed)
    members = random_members(random, count, size(600) if count > 1 else size(3000))
    Moved(random, step, *members, ranks=ranks, align=align).check()


@pytest.mark.parametrize("count", [1, 2, 7, 33])
@pytest.mark.parametrize("step", STEPS)
def test_bags_beside_rows(seed, step, count):
    random = np.random.RandomState(seed)
    dims, segments, num_segments = random_members(random, count, size(600) if count > 1 else size(3000))
    bags = [random_bags(random, len(ids)) if random.rand() < 0.7 else None for ids in segments]
    bags[-1] = random_bags(random, len(segments[-1]))
    Moved(random, step, dims, segments, num_segments, random.choice([0, 3]), bags=bags).check()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dim", [1, 4, 33, 128])
def test_segments_about_as_long_as_a_chunk(seed, step, dim):
    """Those of a GPU that are added up by one team, by two, by many; at, across and between borders of chunks."""
    random = np.random.RandomState(seed)
    lengths = [[CHUNK] * 3, [CHUNK + 1] * 3, [1, CHUNK + 1, 1, CHUNK, CHUNK - 1, 2], [5 * CHUNK + 3, 1, 7 * CHUNK],
               [1] * (3 * CHUNK), [0, CHUNK + 1, 0, 0, 40 * CHUNK, 0], [CHUNK + 1, CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1]]
    ids = [np.repeat(np.arange(len(one)), one) for one in lengths]
    ids += [random.permutation(one) for one in ids]
    Moved(random, step, [dim] * len(ids), ids, [len(one) for one in lengths] * 2).check()


@host_only
@pytest.mark.parametrize("step", STEPS)
def test_one_member_is_shared_out_over_threads(seed, step):
    random = np.random.RandomState(seed)
    segments = [random.randint(-1, 9000, size(20000)), random.randint(0, 2, 9000)]
    moved = Moved(random, step, [16, 16], segments, [9000, 3])
    expected = moved.expected()
    for count in (1, 2, 3, 4):
        with threads(count):
            moved.compare(expected)


@host_only
def test_small_numbers_are_summed_as_they_are_and_flushed_by_adam_alone(seed):
    """Adam takes what is below the least normal float for 0; sums do not: 2,000 such terms make one that counts."""
    random = np.random.RandomState(seed)
    moved = Moved(random, "lazy_adam", [8], [np.zeros(2000, np.int64)], [2])
    moved.sums.values[0] = np.full((2000, 8), 1e-39, np.float32)  # whichever type was drawn
    moved.sums.half[0] = False
    moved.sums.lie_values = moved.sums.lay(moved.sums.values)
    moved.compare(moved.expected())


def test_nan_stays_in_its_row(seed):
    random = np.random.RandomState(seed)
    for step in STEPS:
        moved = Moved(random, step, [20], [np.array([0, 1, 1, 2])], [3])
        moved.sums.values[0][1] = np.nan
        moved.sums.lie_values = moved.sums.lay(moved.sums.values)
        moved.rows[0][...] = [0, 1, 2]
        moved._rows = put_all(moved.sums.arena, moved.rows)
        found = moved.run()[0][0]
        assert np.isnan(found[1]).all() and not np.isnan(found[[0, 2]]).any()


def test_a_gpu_and_the_host_agree(seed):
    random = np.random.RandomState(seed)
    members = random_members(random, 9, size(400))
    for step in STEPS:
        moved = Moved(random, step, *members)
        with on("host"):
            expected = moved.run()
        moved.compare(expected)
