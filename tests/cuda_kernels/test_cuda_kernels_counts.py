"""Counts that kernels leave: several at a time, asked for early, forgotten."""
import numpy as np
import pytest
from kernel_devices import call, gpu_only

from sok1x.cuda_kernels import backend, bags, combine, fill, row_numbers
from sok1x.cuda_kernels.arrays import of_numpy

pytestmark = pytest.mark.usefixtures("device")
KEYS = np.arange(1000, dtype=np.int64)
OFFSETS = np.array([0, 2, 2, 7, 9, 14], np.int64)


def start_three(keys, offsets, bags_of_items, out):
    """Three kernels, four counts: the longest bag, outside, unsorted, a key out of range."""
    found = backend.counts()
    bags.start_longest(offsets, found.take())
    combine.start_bag_offsets(bags_of_items, out, found.take(), found.take())
    row_numbers.kernels.lowest_out_of_range(keys.pointer, 1000, 0, 600, found.take().pointer)
    return found


def read(found):
    longest, outside, unsorted, from_end = found.read()
    return bags.decode_longest(longest), combine.state_of_offsets(4, outside, unsorted), 1000 - from_end


EXPECTED = (5, 2), 1, 600


def arguments():
    return KEYS, OFFSETS, np.array([3, 2, 8, 8], np.int64), np.zeros(10, np.int64)


def test_several_counts_in_one_read():
    assert call(lambda *arrays: read(start_three(*arrays)), *arguments()) == EXPECTED


def test_a_read_leaves_nothing():
    def run(*arrays):
        first = read(start_three(*arrays))
        nothing = backend.counts().read()
        return first, nothing, read(start_three(*arrays))

    assert call(run, *arguments()) == (EXPECTED, [], EXPECTED)


def test_what_is_asked_for_early_does_not_wait_for_what_comes_later():
    later = np.zeros(1000, np.int64)

    def run(later, *arrays):
        found = start_three(*arrays)
        found.ask()
        fill.fill_int64(later, 7)
        return read(found)

    assert call(run, later, *arguments()) == EXPECTED
    assert (later == 7).all()


@pytest.mark.parametrize("asked", [False, True])
def test_what_a_failure_left_is_forgotten(asked):
    def run(*arrays):
        found = start_three(*arrays)
        found.take()
        if asked:
            found.ask()
        found.forget()
        found.forget()
        return found.read(), read(start_three(*arrays))

    assert call(run, *arguments()) == ([], EXPECTED)


def test_many_requests_one_after_the_other():
    def run(*arrays):
        return [row_numbers.first_out_of_range(arrays[0], limit) for limit in range(1, 100)]

    assert call(run, *arguments()) == list(range(1, 100))



@gpu_only
def test_the_host_has_counts_of_its_own():
    def run(*arrays):
        found = start_three(*arrays)
        with backend.use(None):
            assert backend.counts() is not found
            assert row_numbers.first_out_of_range(of_numpy(KEYS), 20) == 20
        return read(found)

    assert call(run, *arguments()) == EXPECTED
