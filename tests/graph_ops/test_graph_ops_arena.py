"""The arena of a request's temporaries: pieces never overlap, and how many blocks are asked for."""
import numpy as np
import pytest

from sok1x.graph_ops.bridge import arena
from sok1x.graph_ops.bridge.errors import CallError


class Memory:
    """Hands out blocks of addresses, far from each other; fails above `most` bytes."""

    def __init__(self, most=1 << 40):
        self.blocks, self.most = [], most

    def __call__(self, nbytes):
        if nbytes > self.most:
            raise CallError(8, "too much")
        self.blocks.append((1 << 32) * (len(self.blocks) + 1))
        self.sizes = getattr(self, "sizes", []) + [nbytes]
        return self.blocks[-1]


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(arena, "_previous", {})


def run(sizes, kernel=1, memory=None):
    """Takes pieces in one run; returns (pointers, the blocks' sizes)."""
    memory = memory or Memory()
    of_run = arena.Arena(memory, kernel)
    pointers = [of_run.take(size) for size in sizes]
    of_run.end()
    places = sorted((pointer, pointer + size) for pointer, size in zip(pointers, sizes) if size)
    for (_, end), (begin, _) in zip(places, places[1:]):
        assert end <= begin, "pieces overlap"
    blocks = sorted(zip(memory.blocks, memory.sizes if memory.blocks else []))
    for begin, end in places:
        assert begin % arena.ALIGNMENT == 0
        assert any(at <= begin and end <= at + size for at, size in blocks), "a piece is outside of all blocks"
    return pointers, [size for _, size in blocks]


def test_the_second_run_needs_one_block():
    assert run([100, 300, 0, 5000])[1] == [256, 512, 5120]
    assert run([100, 300, 0, 5000])[1] == [256 + 512 + 5120]
    assert run([], kernel=1)[1] == []
    assert run([5000, 1])[1] == [5888]
    assert run([5000, 1])[1] == [5376], "as much as the last run took that took any"


def test_other_kernels_have_runs_of_their_own():
    run([1000], kernel=1)
    assert run([300, 300], kernel=2)[1] == [512, 512]


def test_nothing_needs_nothing():
    assert run([0, 0]) == ([0, 0], [])


def test_a_larger_run_takes_further_blocks_and_fills_what_is_left():
    run([1024, 1024])
    pointers, blocks = run([1024, 4096, 512, 8192, 512])
    assert blocks == [2048, 4096, 8192]
    assert pointers[2] == pointers[0] + 1024 and pointers[4] == pointers[2] + 512


def test_where_memory_has_become_scarce_only_what_is_needed_is_taken():
    run([4096, 4096])
    assert run([4096, 4096], memory=Memory(most=5000))[1] == [4096, 4096]
    with pytest.raises(CallError, match="too much"):
        run([4096], kernel=3, memory=Memory(most=100))


def test_never_more_than_this_run_and_the_previous_one(seed):
    random = np.random.RandomState(seed)
    previous = 0
    for _ in range(200):
        sizes = random.randint(0, 10 ** random.randint(1, 7), random.randint(1, 20)).tolist()
        _, blocks = run(sizes)
        asked = sum(-(-size // 256) * 256 for size in sizes)
        assert asked <= sum(blocks) <= asked + previous
        previous = asked or previous


def test_kernels_are_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr(arena, "_KERNELS_REMEMBERED", 10)
    for kernel in range(100):
        run([1], kernel=kernel)
    assert len(arena._previous) <= 10
