"""The rows with the lowest scores against NumPy's stable sort."""
import numpy as np
import pytest
from kernel_checks import dirty
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import lowest_scores
from sok1x.cuda_kernels.lowest_scores import MOST, Candidates


def scores_of(random, kind, n):
    return {
        "ticks": lambda: random.randint(0, max(1, n // 3), n),
        "all equal": lambda: np.full(n, 12345678901),
        "all distinct": lambda: random.permutation(n),
        "power law": lambda: (1e6 * random.random_sample(n) ** 9).astype(np.int64),
        "whole range": lambda: random.randint(0, MOST, n, np.int64),
        "two, far apart": lambda: np.where(random.random_sample(n) < 0.5, 3, MOST),
    }[kind]().astype(np.int64)


def expected_rows(scores, may_leave, wanted):
    rows = np.flatnonzero(may_leave)
    return np.sort(rows[np.argsort(scores[rows], kind="stable")[:wanted]])


def chosen(scores, used, oldest, most, wanted):
    """All steps on one device, whose memory is there for all of them."""
    rows = dirty(wanted, np.int32)
    digits = dirty(1 << lowest_scores.BITS, np.int64)
    counted = []

    def choose(candidates, digits, rows):
        counted.extend(lowest_scores.count(candidates))
        if counted[0] > wanted > 0:
            below, ties = lowest_scores.threshold(candidates, *counted[1:], wanted, digits)
            lowest_scores.list_lowest(candidates, below, ties, rows)
        elif counted[0] == wanted:
            lowest_scores.list_lowest(candidates, MOST + 1, 0, rows)

    call(choose, Candidates(scores, used, oldest, most), digits, rows)
    return counted, rows


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("kind", ["ticks", "all equal", "all distinct", "power law", "whole range", "two, far apart"])
def test_the_lowest_leave_and_of_equal_ones_the_first(seed, kind):
    random = np.random.RandomState(seed)
    for n in (1, 2, 2048, 2049, size(50000)):
        scores, used = scores_of(random, kind, n), random.randint(-1, 10, n)
        for oldest, most in ((10, MOST), (6, MOST), (10, int(np.median(scores)))):
            may_leave = (used >= 0) & (used < oldest) & (scores <= most)
            there = int(may_leave.sum())
            for wanted in sorted({0, 1, there // 16, there // 2, max(0, there - 1), there}):
                if wanted > there:
                    continue
                counted, rows = same_bits(lambda: chosen(scores, used, oldest, most, wanted))
                expected = expected_rows(scores, may_leave, wanted)
                assert counted[0] == there
                if there:
                    assert tuple(counted[1:]) == (scores[may_leave].min(), scores[may_leave].max())
                np.testing.assert_array_equal(rows, expected)


@pytest.mark.usefixtures("device")
def test_no_row_may_leave(seed):
    random = np.random.RandomState(seed)
    scores, used = random.randint(0, 9, 5000), random.randint(5, 9, 5000)
    for oldest, most in ((5, MOST), (9, -1), (0, MOST)):
        assert chosen(scores, used, oldest, most, 0)[0][0] == 0
