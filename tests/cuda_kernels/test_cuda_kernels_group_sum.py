"""segment_sum for many tables at once, against NumPy sums in the same order."""
import numpy as np
import pytest
from group_sums import Sums, random_bags, random_members
from kernel_devices import call, deterministic, gpu_only, host_only, on, on_gpu, size, threads

from sok1x.cuda_kernels import backend, group_sum, groups, segment_sum

pytestmark = pytest.mark.usefixtures("device")
CHUNK = segment_sum.CHUNK


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_sum_member_bytes() == group_sum.SUM.itemsize


@pytest.mark.parametrize("ranks, align", [(0, 16), (0, 4), (1, 1), (3, 1), (8, 16)])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 33, 100])
def test_random_members(seed, count, ranks, align):
    random = np.random.RandomState(seed)
    Sums(random, *random_members(random, count, size(600) if count > 1 else size(3000)), ranks, align).check()


@pytest.mark.parametrize("ranks, align", [(0, 16), (0, 4), (3, 1), (8, 16)])
@pytest.mark.parametrize("count", [1, 2, 7, 33])
def test_bags_beside_rows(seed, count, ranks, align):
    random = np.random.RandomState(seed)
    dims, segments, num_segments = random_members(random, count, size(600) if count > 1 else size(3000))
    bags = [random_bags(random, len(ids)) if random.rand() < 0.7 else None for ids in segments]
    bags[-1] = random_bags(random, len(segments[-1]))
    Sums(random, dims, segments, num_segments, ranks, align, bags=bags).check()


def test_segments_that_meet_at_the_borders_of_chunks(seed):
    random = np.random.RandomState(seed)
    lengths = [[CHUNK] * 5, [CHUNK - 1, 1, CHUNK // 2, CHUNK // 2, CHUNK],
               [CHUNK - 1, CHUNK + 1, CHUNK + 1, CHUNK - 1, 2],
               [2 * CHUNK, 1, 3 * CHUNK - 1, 4 * CHUNK, 5, 4 * CHUNK + 7], [1] * (3 * CHUNK),
               [0, 0, CHUNK, 0, 0, CHUNK + 1, 0, CHUNK - 1, 0], [CHUNK, CHUNK, 1]]
    ids = [np.repeat(np.arange(len(one)), one) for one in lengths]
    ids += [random.permutation(one) for one in ids] + [
        np.insert(one, [0, len(one) // 2, len(one)], -1) for one in ids]
    for dim in (1, 4, 33):
        Sums(random, [dim] * len(ids), ids, [len(one) for one in lengths] * 3).check()


@pytest.mark.parametrize("large", [[20000], [20000, 3], [9000, 9000, 9000], [3, 40, 12000, 0]])
def test_members_that_are_shared_out_over_threads(seed, large):
    """The host has the same bits for any number of threads, whichever members they share."""
    random = np.random.RandomState(seed)
    segments = [random.randint(-1, max(1, n // 2), size(n)) for n in large]
    bags = [random_bags(random, len(ids)) if number % 2 else None for number, ids in enumerate(segments)]
    sums = Sums(random, [16] * len(large), segments, [max(1, n // 2) for n in large], bags=bags)
    if on_gpu():
        sums.check()
        return
    for count in (1, 2, 3, 4):
        with threads(count):
            sums.check()


@gpu_only
def test_a_deterministic_gpu_has_the_host_s_bits(seed):
    random = np.random.RandomState(seed)
    dims, segments, num_segments = random_members(random, 20, size(2000))
    bags = [random_bags(random, len(ids)) if random.rand() < 0.5 else None for ids in segments]
    sums = Sums(random, dims, segments, num_segments, 2, 4, bags=bags)
    with on("host"):
        expected = sums.run()
    with deterministic():
        for found, wanted in zip(sums.run(), expected):
            assert [one.tobytes() for one in found] == [one.tobytes() for one in wanted]


@gpu_only
def test_too_many_rows_are_refused_before_anything_is_done():
    members = groups.members(group_sum.SUM, 2)
    members["num_segments"] = 2 ** 30
    with pytest.raises(ValueError, match="up to 2..31 - 1 keys or rows"):
        call(lambda: group_sum.segment_sum(members))
