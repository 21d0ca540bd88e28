"""How blocks are laid out; and how records come to a GPU, and numbers back: here one that works as late as it may."""
import ctypes

import numpy as np
import pytest
from group_arena import block_layout

from sok1x.cuda_kernels import gpu_launch, group_steps

_INT, _POINTER, _SIZE, _U64 = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
STREAM = 4711


@pytest.mark.parametrize("align", [1, 4, 16])
@pytest.mark.parametrize("ranks, count", [(1, 1), (2, 0), (3, 7), (8, 26)])
def test_block_layout(seed, ranks, count, align):
    random = np.random.RandomState(seed)
    counts, row_bytes = random.randint(0, 5, (ranks, count)), random.randint(1, 40, count)
    starts, offsets, nbytes = block_layout(counts, row_bytes, align)
    at = 0
    for rank in range(ranks):
        begin = at
        for t in range(count):
            assert offsets[t, rank] == at and starts[t, rank] == counts[:rank, t].sum()
            at += -(-int(counts[rank, t] * row_bytes[t]) // align) * align
        assert nbytes[rank] == at - begin
    assert starts.shape == (count, ranks + 1) and (starts[:, -1] == counts.sum(axis=0)).all()


def memory(pointer, nbytes):
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(pointer))


class SlowGpu:
    """A GroupDevice whose work is done when somebody waits for it: copies, and the kernel that copies numbers."""

    def __init__(self, ring_bytes):
        self.waiting, self.waits, self.recorded, self.scratch = [], 0, {}, []
        self.made = made = group_steps.GroupDevice()
        self.ring, self.answers = np.zeros(ring_bytes, np.uint8), np.zeros(8, np.int64)
        made.ring, made.half_bytes, made.stream = self.ring.ctypes.data, ring_bytes // 2, STREAM
        made.answers = made.answers_seen = self.answers.ctypes.data
        made.copied[0], made.copied[1], made.asked, made.most_answers = 1, 2, 3, len(self.answers)
        self._functions = [
            ctypes.CFUNCTYPE(_INT, _U64, _POINTER, _SIZE, _POINTER)(self._upload), None, None, None,
            ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER)(self._record), ctypes.CFUNCTYPE(_INT, _POINTER)(self._wait)]
        for number, function in enumerate(self._functions):
            made.driver[number] = function and ctypes.cast(function, _POINTER).value
        self._launch = ctypes.CFUNCTYPE(_INT, _POINTER, *[ctypes.c_uint32] * 7, _POINTER, ctypes.POINTER(_POINTER),
                                        _POINTER)(self._copy_numbers)
        self._kernel = gpu_launch._Kernel(ctypes.cast(self._launch, _POINTER).value, 0, STREAM, 256, 4, 0)
        made.kernels[group_steps.KERNELS.index("look_up_int64")] = ctypes.addressof(self._kernel)
        self._allocate = group_steps._ALLOCATE(self.allocate)
        self.work = group_steps.GroupWork(ctypes.addressof(made), self._allocate, None)

    def allocate(self, _, nbytes):
        self.scratch.append(np.zeros(nbytes, np.uint8))
        return self.scratch[-1].ctypes.data

    def call(self, name, *arguments):
        assert getattr(group_steps.steps(), name)(ctypes.addressof(self.work), *arguments) == 0

    def _upload(self, target, source, nbytes, stream):
        given = memory(source, nbytes)
        pinned = 0 <= source - self.ring.ctypes.data < self.ring.nbytes
        self.waiting.append((memory(target, nbytes), given if pinned else given.copy()))
        return int(stream != STREAM)

    def _copy_numbers(self, *arguments):
        parameters = arguments[-2]
        source, index, count, target = (
            ctypes.cast(parameters[number], ctypes.POINTER(ctypes.c_int64)).contents.value for number in range(4))
        assert index == 0
        self.waiting.append((memory(target, 8 * count), memory(source, 8 * count)))
        return 0

    def _record(self, event, stream):
        self.recorded[event] = len(self.waiting)
        return int(stream != STREAM)

    def _wait(self, event):
        self.waits += 1
        self.deliver(self.recorded[event])
        return 0

    def deliver(self, until):
        for i in range(until):
            if self.waiting[i] is not None:
                target, values = self.waiting[i]
                target[:] = values
                self.waiting[i] = None


def test_the_ring_is_not_written_before_it_was_copied(seed):
    """Pieces that fill a half exactly, that do not fit in what is left of it, and that are larger than a half."""
    random, gpu, sent = np.random.RandomState(seed), SlowGpu(1024), []
    for size in [16, 496, 512, 512, 16, 512, 1600, 512, 16] + random.randint(2, 497, 300).tolist():
        pieces = [random.randint(0, 256, part).astype(np.uint8) for part in (size // 2, size - size // 2)]
        sources, placed = [piece.copy() for piece in pieces], (_POINTER * 2)()
        arrays = (_POINTER * 2)(*[source.ctypes.data for source in sources])
        gpu.call("place", 2, arrays, (ctypes.c_int64 * 2)(*map(len, pieces)), placed)
        for source in sources:  # it may change at once
            source[:] = 0
        sent += [(piece, memory(at, len(piece))) for piece, at in zip(pieces, placed)]
    assert 50 < gpu.waits < 310
    gpu.deliver(len(gpu.waiting))
    for values, found in sent:
        np.testing.assert_array_equal(found, values)


def test_an_answer_waits_for_what_was_asked_and_for_no_more():
    gpu = SlowGpu(1024)
    numbers, answer = np.array([5, -3, 2 ** 40]), np.zeros(3, np.int64)
    gpu.call("ask", numbers.ctypes.data, 3)
    later = np.arange(4, dtype=np.int64)
    gpu.call("place", 1, (_POINTER * 1)(later.ctypes.data), (ctypes.c_int64 * 1)(32), (_POINTER * 1)())
    gpu.call("answer", numbers.ctypes.data, 3, answer.ctypes.data)
    assert answer.tolist() == numbers.tolist()
    assert [done is None for done in gpu.waiting] == [True, False]
