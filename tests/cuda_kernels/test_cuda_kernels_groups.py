"""How groups are described: layouts of blocks, and records on their way to a GPU."""
import ctypes

import numpy as np
import pytest

from sok1x.cuda_kernels import backend, groups
from sok1x.cuda_kernels.upload_ring import UploadRing


@pytest.mark.parametrize("align", [1, 4, 16])
@pytest.mark.parametrize("ranks, count", [(1, 1), (2, 0), (3, 7), (8, 26)])
def test_block_layout(seed, ranks, count, align):
    random = np.random.RandomState(seed)
    counts, row_bytes = random.randint(0, 5, (ranks, count)), random.randint(1, 40, count)
    starts, offsets, nbytes = groups.block_layout(counts, row_bytes, align)
    at = 0
    for rank in range(ranks):
        begin = at
        for t in range(count):
            assert offsets[t, rank] == at and starts[t, rank] == counts[:rank, t].sum()
            at += -(-int(counts[rank, t] * row_bytes[t]) // align) * align
        assert nbytes[rank] == at - begin
    assert starts.shape == (count, ranks + 1) and (starts[:, -1] == counts.sum(axis=0)).all()


def test_row_lanes_are_those_of_single_tables():
    dims = np.arange(1, 400)
    assert groups.row_lanes(dims).tolist() == [backend.row_lanes(dim) for dim in dims.tolist()]


class SlowGpu:
    """Copies what was sent when somebody waits, as late as the ring allows."""

    def __init__(self):
        self.waiting, self.waits = [], 0

    def pinned(self, nbytes):
        return np.zeros(nbytes, np.uint8)

    def send(self, target, pinned):
        assert pinned.base is not None
        self.waiting.append((target, pinned))

    def to_device(self, target, pointer, nbytes):
        self.waiting.append((target, np.ctypeslib.as_array(
            (ctypes.c_uint8 * nbytes).from_address(pointer)).copy()))

    def record(self):
        gpu, now = self, len(self.waiting)

        class Token:
            def synchronize(self):
                gpu.waits += 1
                for i in range(now):
                    gpu.deliver(i)

        return Token()

    def deliver(self, i):
        if self.waiting[i] is not None:
            target, values = self.waiting[i]
            memory = np.ctypeslib.as_array((ctypes.c_uint8 * len(values)).from_address(target))
            memory[:] = values
            self.waiting[i] = None


def test_the_ring_is_not_written_before_it_was_copied(seed):
    """Pieces that fill a half exactly, that do not fit in what is left of it, and that are larger than a half."""
    random, gpu = np.random.RandomState(seed), SlowGpu()
    ring, sent = UploadRing(gpu, 1024), []
    for size in [16, 496, 512, 512, 16, 512, 1600, 512, 16] + random.randint(1, 513, 300).tolist():
        values, target = random.randint(0, 256, size).astype(np.uint8), np.zeros(size, np.uint8)
        cut = size // 2
        source = values.copy()
        ring.send(target.ctypes.data, [(0, source.ctypes.data, cut), (cut, source.ctypes.data + cut, size - cut)], size)
        source[:] = 0  # it may change at once
        sent.append((values, target))
    assert 50 < gpu.waits < 300
    for i in range(len(gpu.waiting)):
        gpu.deliver(i)
    for values, target in sent:
        np.testing.assert_array_equal(target, values)
