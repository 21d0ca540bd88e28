"""Partial sums of many tables' bags added up, against NumPy."""
import numpy as np
import pytest
from group_arena import Arena, put_all, sizes
from kernel_devices import host_only

from sok1x.cuda_kernels import backend, group_parts, groups

pytestmark = pytest.mark.usefixtures("device")
DIMS = [1, 3, 4, 32, 33, 130, 300]


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_parts_member_bytes() == group_parts.PARTS.itemsize


class Member:
    """Random parts [P, bags, D], which lie anywhere, and what they come to, in the order of the parts."""

    def __init__(self, random, dim, n_parts, bags, half, mean):
        dtype = np.float16 if half else np.float32
        self.parts = random.standard_normal((n_parts, bags, dim)).astype(dtype)
        self.parts[random.uniform(size=self.parts.shape) < 0.1] = -0.0
        lengths = random.randint(0, 4, bags)
        self.dim, self.half, self.mean, self.bags = dim, half, mean, bags
        self.offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        total = self.parts[0].astype(np.float32)
        for part in self.parts[1:]:
            total = total + part.astype(np.float32)
        if mean:
            total = total / np.maximum(lengths, 1)[:, None].astype(np.float32)
            total[lengths == 0] = 0
        self.expected = total.astype(dtype)


@pytest.mark.parametrize("count, align", [(1, 16), (26, 16), (26, 8), (26, 4), (26, 2)])
def test_random_members(seed, count, align):
    """Of both types, with means and without, one part and several, and rows that are aligned or not."""
    random, arena = np.random.RandomState(seed), Arena()
    made = [Member(random, int(random.choice(DIMS)), int(random.choice([1, 2, 3, 8])), int(bags),
                   bool(random.randint(2)) or align == 2, bool(random.randint(2)))
            for bags in sizes(random, count, 500)]
    parts = [put_all(arena, list(one.parts), align) for one in made]
    first = parts[0][0]  # some lie before it
    at = put_all(arena, [places - first for places in parts])
    offsets, outs = put_all(arena, [one.offsets for one in made]), [
        arena.out(one.expected.shape, one.expected.dtype, align) for one in made]

    def run(base):
        members = groups.members(group_parts.PARTS, count)
        members["base"], members["at"], members["out"] = base + first, base + at, base + np.array(outs)
        members["n_parts"], members["half"] = [len(one.parts) for one in made], [one.half for one in made]
        members["dim"], members["n_bags"] = [one.dim for one in made], [one.bags for one in made]
        members["offsets"] = [base + place if one.mean else 0 for one, place in zip(made, offsets)]
        group_parts.sum_parts(members)

    for one, found in zip(made, arena.same_bits(run, *outs)):
        assert found.tobytes() == one.expected.tobytes(), (one.dim, one.half, one.mean, one.parts.shape)


def test_sums_are_made_in_32_bits():
    """2048 + 1 is 2048 in float16."""
    arena = Arena()
    at = [arena.put(np.full((1, 4), value, np.float16)) for value in (2048, 1, 1, 1)]
    places, out = arena.put(np.array(at, np.int64)), arena.out((1, 4), np.float16)

    def run(base):
        members = groups.members(group_parts.PARTS, 1)
        for field, value in (("base", base), ("at", base + places), ("n_parts", 4), ("half", 1), ("dim", 4),
                             ("n_bags", 1), ("out", base + out)):
            members[field] = value
        group_parts.sum_parts(members)
    found, = arena.run(run, out)
    np.testing.assert_array_equal(found, np.full((1, 4), 2052))  # 2051 is a tie
