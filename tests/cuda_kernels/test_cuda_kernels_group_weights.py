"""Gradients of the weights of many tables' bags at once, against NumPy in float64."""
import numpy as np
import pytest
from group_arena import Arena, put_all
from kernel_devices import host_only

from sok1x.cuda_kernels import backend, group_weights, groups

pytestmark = pytest.mark.usefixtures("device")
DIMS = [1, 3, 8, 33, 130]


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_weights_member_bytes() == group_weights.WEIGHTS.itemsize


class Member:
    """Random bags with weights; `expected` float64 [n], and `bound` [n] of what rounding may come to."""

    def __init__(self, random, dim, mean, ordered, or_nothing):
        counts = random.randint(0, 6, 40)
        self.dim, self.mean, self.n = dim, mean + 4 * or_nothing, counts.sum()
        self.offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        dtypes = random.choice([np.float16, np.float32], 2)
        self.gradient = random.standard_normal((40, dim)).astype(dtypes[0])
        self.rows = random.standard_normal((self.n, dim)).astype(dtypes[1])
        self.order = np.zeros(0, np.int32) if ordered else random.permutation(self.n).astype(np.int32)
        self.weights = random.uniform(0.5, 2.0, self.n).astype(np.float32) * random.choice([1, 1, 0], self.n)
        self.weights = self.weights.astype(np.float32)
        places = np.arange(self.n) if ordered else self.order
        if or_nothing:  # those of every third bag add up to zero
            self.weights[places[np.arange(40).repeat(counts) % 3 == 0]] = 0
        bags, weights = np.repeat(np.arange(40), counts), self.weights[places].astype(np.float64)
        product = (self.gradient.astype(np.float64)[bags] * self.rows).sum(1)
        if mean:
            total = np.bincount(bags, weights ** mean, 40)
            divisor = (total if mean == 1 else np.sqrt(total))[bags]
            with np.errstate(all="ignore"):
                less = np.bincount(bags, weights * product, 40)[bags] / divisor
                product = (product - less * (weights / divisor if mean == 2 else 1)) / divisor
            if or_nothing:
                product[divisor == 0] = 0
        self.expected = np.zeros(self.n)
        self.expected[places] = product


@pytest.mark.parametrize("ordered", [True, False])
def test_random_members(seed, ordered):
    random = np.random.RandomState(seed)
    made = [Member(random, dim, mean, ordered, or_nothing) for dim in DIMS
            for mean, or_nothing in ((0, False), (1, False), (2, False), (1, True), (2, True))]
    arena = Arena()
    at = {name: put_all(arena, [getattr(one, name) for one in made])
          for name in ("gradient", "rows", "offsets", "order", "weights")}
    outs = [arena.out(one.n, np.float32, 4) for one in made]

    def run(base):
        members = groups.members(group_weights.WEIGHTS, len(made))
        for name, pointers in at.items():
            members[name] = base + pointers
        if ordered:
            members["order"] = 0
        for name in ("gradient", "rows"):
            members[name + "_half"] = [getattr(one, name).dtype == np.float16 for one in made]
        members["dim"], members["n"] = [one.dim for one in made], [one.n for one in made]
        members["n_bags"], members["mean"] = 40, [one.mean for one in made]
        members["out"] = base + np.array(outs)
        group_weights.weights(members)

    for one, found in zip(made, arena.same_bits(run, *outs)):
        np.testing.assert_allclose(found, one.expected, rtol=2e-4, atol=2e-4, err_msg="dim {} mean {}".format(
            one.dim, one.mean))
