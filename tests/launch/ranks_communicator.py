"""Run on N ranks: every exchange of a communicator against NumPy, from one generator that all ranks share.

On host memory, or on a GPU's or a stand-in's (devices.py); then exchanges are enqueued, and waited for by `get`.
"""
import os
import sys

import devices
import numpy as np

import sok1x.launch as launch
from sok1x.launch import by_hosts
from sok1x.launch.errors import INVALID_ARGUMENT, OUT_OF_RANGE, LaunchError

_GUARD = 64
device = None


class Room:
    """Memory of the device with guard bytes around it."""

    def __init__(self, nbytes, content=None):
        whole = np.full(nbytes + 2 * _GUARD, 0xA5, np.uint8)
        if content is not None:
            whole[_GUARD:_GUARD + nbytes] = content
        self.nbytes, self._begin = nbytes, device.put(whole)
        self.pointer = self._begin + _GUARD

    def check(self, expected):
        whole = device.get(self._begin, self.nbytes + 2 * _GUARD, np.uint8)
        got = whole[_GUARD:_GUARD + self.nbytes]
        np.testing.assert_array_equal(got, np.ascontiguousarray(expected).view(np.uint8).ravel())
        guards = np.concatenate([whole[:_GUARD], whole[_GUARD + self.nbytes:]])
        assert (guards == 0xA5).all(), "written out of bounds"


def counts_of(rng, shape, high):
    """Random counts, often zero."""
    counts = rng.randint(0, high + 1, shape).astype(np.int64)
    return np.where(rng.rand(*counts.shape) < 0.3, 0, counts)


def all_to_all(comm, rng, high, item_bytes):
    n, me = comm.size, comm.rank
    table = counts_of(rng, (n, n), high)
    data = [rng.randint(0, 256, (int(table[rank].sum()), item_bytes)).astype(np.uint8) for rank in range(n)]
    parts = [np.split(data[rank], np.cumsum(table[rank])[:-1]) for rank in range(n)]
    expected = np.concatenate([parts[source][me] for source in range(n)])
    room = Room(expected.nbytes)
    before = comm.bytes_sent
    recv_counts = comm.exchange_counts(table[me])
    np.testing.assert_array_equal(recv_counts, table[:, me])
    assert recv_counts.dtype == np.int64
    comm.all_to_all(device.put(data[me]), table[me], room.pointer, recv_counts, item_bytes)
    room.check(expected)
    assert n == 1 or comm.bytes_sent - before == 8 * (n - 1) + (table[me].sum() - table[me, me]) * item_bytes


def all_to_all_by_hosts(comm, grouped, rng, high, item_bytes):
    """Inside hosts, and across them: the ranks of one circle, each with counts of its own for the others."""
    for among in by_hosts.INSIDE, by_hosts.ACROSS:
        met, n, me = list(grouped.ranks(among)), comm.size, comm.rank
        table = np.zeros((n, n), np.int64)
        everyones = np.random.RandomState([rng.randint(2 ** 31), among, met[0]])  # equal in a circle, and only there
        table[np.ix_(met, met)] = counts_of(everyones, (len(met), len(met)), high)
        data = {rank: everyones.randint(0, 256, (int(table[rank].sum()), item_bytes)).astype(np.uint8) for rank in met}
        parts = {rank: np.split(data[rank], np.cumsum(table[rank])[:-1]) for rank in met}
        expected = np.concatenate([parts[source][me] for source in met])
        room = Room(expected.nbytes)
        before = comm.bytes_sent
        comm.all_to_all(device.put(data[me]), table[me], room.pointer, np.ascontiguousarray(table[:, me]), item_bytes,
                        among)
        room.check(expected)
        assert comm.bytes_sent - before == (table[me].sum() - table[me, me]) * item_bytes


def reduce_scatter(comm, rng, high, dim):
    n, me = comm.size, comm.rank
    counts = counts_of(rng, (n,), high)
    data = rng.randn(n, int(counts.sum()), dim).astype(np.float32)
    total = data.astype(np.float64).sum(axis=0)
    shape = int(counts[me]) + 1, dim
    room = device.put(np.full(shape, 7, np.float32))
    before = comm.bytes_sent
    comm.reduce_scatter(device.put(data[me]), room, counts, dim)
    out = device.get(room, shape, np.float32)
    assert n == 1 or comm.bytes_sent - before == 4 * dim * (counts.sum() - counts[me])
    ends = np.cumsum(counts)
    np.testing.assert_allclose(out[:-1], total[ends[me] - counts[me]:ends[me]], rtol=1e-5, atol=1e-5)
    assert (out[-1] == 7).all()


def all_gather(comm, rng, high, item_bytes):
    n, me = comm.size, comm.rank
    counts = counts_of(rng, (n,), high)
    data = [rng.randint(0, 256, (int(count), item_bytes)).astype(np.uint8) for count in counts]
    room = Room(int(counts.sum()) * item_bytes)
    before = comm.bytes_sent
    comm.all_gather(device.put(data[me]), room.pointer, counts, item_bytes)
    room.check(np.concatenate(data))
    assert comm.bytes_sent - before == (n - 1) * counts[me] * item_bytes


def reduced(comm, array):
    pointer = device.put(array)
    comm.all_reduce(pointer, array.size, array.dtype.name)
    return device.get(pointer, array.shape, array.dtype)


def all_reduce_each(comm, rng, dtype):
    """Arrays of several sizes, in one call."""
    n, me = comm.size, comm.rank
    data = [rng.randint(-2 ** 20, 2 ** 20, (n, int(rng.choice((0, 1, 7, 100))))).astype(dtype) for _ in range(4)]
    pointers = [(device.put(each[me]), device.put(np.zeros_like(each[me])), each.shape[1]) for each in data]
    before = comm.bytes_sent
    average = comm.averages and dtype != "int32" and bool(rng.randint(2))
    comm.all_reduce_each(pointers, dtype, average)
    for (_, out, count), each in zip(pointers, data):
        expected = each.sum(axis=0) / each.dtype.type(n) if average else each.sum(axis=0)
        np.testing.assert_array_equal(device.get(out, (count,), each.dtype), expected)
    total = sum(each[me].nbytes for each in data)
    assert comm.bytes_sent - before == 2 * (n - 1) * total // n


def all_reduce(comm, rng, n_elements, dtype):
    n, me = comm.size, comm.rank
    if dtype.startswith("float"):
        data = rng.randn(n, n_elements).astype(dtype)
    else:
        data = rng.randint(-2 ** 28, 2 ** 28, (n, n_elements)).astype(dtype)
    mine = reduced(comm, data[me])
    if dtype == "float16":
        # Summed in float32 and rounded once: the nearest float16 but for a tie that float32 itself moves. NCCL rounds
        # every partial sum.
        rtol, atol = (2 ** -8, 0.03) if type(comm).__name__ == "NcclCommunicator" else (2 ** -10, 1e-3)
        np.testing.assert_allclose(mine, data.astype(np.float64).sum(axis=0), rtol=rtol, atol=atol)
    elif dtype.startswith("float"):
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(mine, data.astype(np.float64).sum(axis=0), rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(mine, data.sum(axis=0, dtype=dtype))


def broadcast(comm, rng, nbytes):
    root = int(rng.randint(comm.size))
    data = rng.randint(0, 256, nbytes).astype(np.uint8)
    room = Room(nbytes, data if comm.rank == root else None)
    comm.broadcast(room.pointer, nbytes, root)
    room.check(data)


def agree(comm, rng):
    assert comm.agree(0, "") is None
    failing = [rank for rank in range(comm.size) if rng.rand() < 0.5]
    # The last is half of a pair, as Python holds bytes of a file's name that are no UTF-8.
    mine = (OUT_OF_RANGE + comm.rank, "no row on ränk {}\udce9".format(comm.rank)) if comm.rank in failing else (0, "")
    error = comm.agree(*mine)
    if failing:
        assert isinstance(error, LaunchError)
        assert (error.code, error.rank, error.message) == (
            OUT_OF_RANGE + failing[0], failing[0], "no row on ränk {}\\udce9".format(failing[0]))
    else:
        assert error is None


def any_rank(comm, rng):
    n = int(rng.choice((1, 2, 50)))
    flags = rng.rand(comm.size, n) < rng.choice((0.0, 0.1, 0.5))
    answer = comm.any_rank(bytes(flags[comm.rank].tolist()))
    if rng.rand() < 0.5:  # others may come in between
        all_to_all(comm, rng, 9, 8)
    assert list(answer()) == flags.any(axis=0).tolist()


def refused(call, text):
    try:
        call()
    except LaunchError as error:
        assert error.code == INVALID_ARGUMENT and text in error.message, error
    else:
        raise AssertionError("not refused")


def special_values(comm):
    """NaN and infinities pass through; float16 overflow is an infinity, as NumPy's."""
    n = comm.size
    for dtype in ("float16", "float32", "float64"):
        values = reduced(comm, np.array([np.nan, np.inf, 1.0, -np.inf], dtype))
        assert np.isnan(values[0]) and values[1] == np.inf and values[2] == n and values[3] == -np.inf
    large = reduced(comm, np.full(3, 60000, np.float16))
    assert (np.isinf(large) == (n > 1)).all()


def large(comm, rng):
    """Megabytes, so that MPI takes its other ways of sending; and equal counts, for which NCCL has calls of its own."""
    n, me = comm.size, comm.rank
    dim, rows = 32, 20000
    mine = device.put(np.full((rows * n, dim), me + 1, np.float32))
    got = device.put(np.zeros((rows * n, dim), np.float32))
    gathered = device.put(np.zeros((rows * n, dim), np.float32))
    summed = device.put(np.zeros((rows, dim), np.float32))
    counts = np.full(n, rows, np.int64)
    # Several under way at once.
    comm.all_to_all(mine, counts, got, counts, dim * 4)
    comm.reduce_scatter(mine, summed, counts, dim)
    comm.all_gather(mine, gathered, counts, dim * 4)
    everyones = np.arange(1, n + 1, dtype=np.float32)[:, None, None]
    assert (device.get(got, (n, rows, dim), np.float32) == everyones).all()
    assert (device.get(summed, (rows, dim), np.float32) == n * (n + 1) // 2).all()
    assert (device.get(gathered, (n, rows, dim), np.float32) == everyones).all()
    assert comm.busy is None


def check(world, comm, seed):
    assert (comm.rank, comm.size) == (world.rank, world.size)
    rng = np.random.RandomState(seed % 2 ** 32)
    through_mpi = comm.size > 1 and os.environ.get("SOK1X_COMMUNICATOR") != "nccl"
    usual = getattr(world.communicator, "limit", None)
    grouped = by_hosts.ByHosts(comm.rank, 2, comm.size // 2) if comm.size > 2 and comm.size % 2 == 0 else None
    if grouped:
        world.communicator.split(grouped)
    # With a small limit every exchange goes the way that counts beyond 2^31 go.
    for limit in (usual, 37, 5) if through_mpi else (usual,):
        world.communicator.limit = limit
        for _ in range(12):
            high = int(rng.choice((0, 1, 9, 60)))
            all_to_all(comm, rng, high, int(rng.choice((1, 8, 12, 4 * 33))))
            if grouped:
                all_to_all_by_hosts(comm, grouped, rng, high, int(rng.choice((1, 8, 12))))
            reduce_scatter(comm, rng, high, int(rng.choice((1, 3, 16))))
            all_gather(comm, rng, high, int(rng.choice((1, 8, 20))))
            for dtype in ("float16", "float32", "float64", "int32", "int64"):
                all_reduce(comm, rng, int(rng.choice((0, 1, 100))), dtype)
            if comm.sums_apart:
                all_reduce_each(comm, rng, str(rng.choice(("float32", "float64", "int32"))))
            broadcast(comm, rng, int(rng.choice((0, 1, 200))))
            agree(comm, rng)
            any_rank(comm, rng)
            device.clear()
    world.communicator.limit = usual
    special_values(comm)
    large(comm, rng)
    x = device.put(np.zeros(1, np.float32))
    refused(lambda: comm.all_reduce(x, 1, "bfloat16"), "cannot sum 'bfloat16'")
    refused(lambda: comm.broadcast(x, 4, comm.size), "root_rank is {}".format(comm.size))
    device.clear()


def main(seed):
    global device
    world = launch.start({"seed": seed})
    device = devices.chosen(world)
    with device.active():
        check(world, device.connect(), seed)
    coordinator = world.coordinator
    coordinator.leaving.begin()
    while not coordinator.leaving.left:
        coordinator.poll()
    launch.finish(world)
    sys.stdout.write("rank {} of {} fine by {}\n".format(
        world.rank, world.size, world.description.get("GPU communicator", "host memory").split()[0]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
