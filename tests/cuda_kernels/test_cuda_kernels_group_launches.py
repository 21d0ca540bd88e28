"""What a group costs a GPU in launches: as much for many members as for few."""
import numpy as np
import pytest
from group_arena import int64
from kernel_devices import call, deterministic, gpu_only

from sok1x.cuda_kernels import (
    group_bags,
    group_combine,
    group_find,
    group_gather,
    group_partition,
    group_stamps,
    group_steps,
    group_sum,
    group_unique,
    groups,
)

N, DIM = 3, 4


def look_up(base, count):
    members = groups.members(group_find.FIND, count)
    for field, value in (("n", N), ("ranks", 1), ("dim", DIM), ("rows", base), ("table", base + 4096)):
        members[field] = value
    groups.lie_at(members["keys"], base + 8192)
    groups.lie_at(members["out"], base + 12288)
    group_find.look_up(members, int64(base + 16384, count))


def gather(base, count):
    members = groups.members(group_gather.GATHER, count)
    members["n"], members["dim"], members["rows"] = N, DIM, base
    groups.lie_at(members["source"], base + 4096)
    groups.lie_at(members["out"], base + 8192)
    group_gather.gather(members)


def unique_and_partition(base, count):
    members = groups.members(group_unique.UNIQUE, count)
    groups.lie_at(members["keys"], base)
    number = 64 * np.arange(count)
    members["n"], members["values"], members["inverse"] = N, base + 4096 + number, base + 16384 + number
    distinct, counts = int64(base + 32768, count), int64(base + 40960, 2, count)
    group_unique.unique(members, distinct)
    parts = groups.members(group_partition.PARTITION, count)
    for field in ("values", "n", "inverse"):
        parts[field] = members[field]
    parts["position"], parts["n_inverse"] = base + 49152 + number, N
    group_partition.partition(parts, distinct, counts, int64(base + (1 << 15) + 2048, N * count))


def segment_sum(base, count):
    members = groups.members(group_sum.SUM, count)
    members["n"], members["dim"], members["segments"], members["num_segments"] = N, DIM, base, N
    groups.lie_at(members["values"], base + 4096)
    groups.lie_at(members["sums"], base + 8192)
    groups.lie_at(members["half"], base + 12288)
    group_sum.segment_sum(members)


def bags_and_their_gradients(base, count):
    bags = groups.members(group_bags.BAGS, count)
    bags["bags"], bags["stride"], bags["n"], bags["n_bags"] = base, 1, N, N
    bags["offsets"] = base + 4096 + 64 * np.arange(count)
    group_bags.offsets(bags, int64(base + 8192, 3, count))
    combined = groups.members(group_combine.COMBINE, count)
    combined["n_keys"], combined["n_bags"], combined["dim"], combined["offsets"] = N, N, DIM, bags["offsets"]
    combined["inverse"] = base + 12288
    groups.lie_at(combined["source"], base + 16384)
    groups.lie_at(combined["out"], base + 20480)
    group_combine.combine(combined)
    sums = groups.members(group_sum.SUM, count)
    sums["n"], sums["dim"], sums["segments"], sums["num_segments"] = N, DIM, base + 12288, N
    sums["offsets"], sums["n_bags"], sums["mean"] = bags["offsets"], N, np.arange(count) % 2
    groups.lie_at(sums["values"], base + 20480)
    groups.lie_at(sums["sums"], base + 24576)
    group_sum.segment_sum(sums)


def stamp(base, count):
    members = groups.members(group_stamps.STAMP, count)
    members["n"], members["values"], members["rows"], members["table_rows"] = N, base, base + 4096, N
    members["stamps"], members["clock"] = base + 8192, base + 12288
    group_stamps.stamp(members)


@gpu_only
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("run", [look_up, gather, unique_and_partition, segment_sum, bags_and_their_gradients,
                                 stamp])
@pytest.mark.usefixtures("device")
def test_launches_do_not_grow_with_the_members(run, in_order):
    kernels, launches = group_steps.steps().kernels, []
    with deterministic(in_order):
        for count in (2, 40):
            before = kernels()
            call(lambda memory, count=count: run(memory.pointer, count), np.zeros(1 << 18, np.uint8))
            launches.append(kernels() - before)
    few, many = launches
    assert few == many and 0 < few < 20
