"""Sums of rows by segment for many tables (group_sum.cu)."""
from . import group_gather, groups, scan, sort
from .backend import INT64, POINTER, current, family, kernels
from .segment_sum import CHUNK

declare = family(__name__)
declare("group_sum", None, POINTER, INT64)
declare("group_sum_count", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_place", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_sum_clear", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_chunks", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_scaled_chunks", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_sum_keys", None, POINTER, POINTER, INT64, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_bags", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: a[3])
declare("group_sum_in_order", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_sum_member_bytes", INT64)

# What `segment_sum` takes of each member:
#   values        n rows of dim numbers (BLOCKS); with bags one for each of these
#   values_half   1: they are float16; 0: float32
#   segments      pointer to int32 [n], below num_segments; rows with a negative one are left out
#   num_segments  number of segments
#   offsets       pointer to int64 [n_bags + 1], ascending from 0 to n: item i is a key of bag b, offsets[b] <= i <
#                 offsets[b + 1], and its row the bag's; 0: row i
#   mean          with bags, 1: each key is weighted with 1 / (number of keys of its bag)
#   sums          num_segments rows of dim float32 (BLOCKS), out: zeros where a segment has no row
#   half          the same rows of float16 (BLOCKS), out: the sums, rounded; base 0: they are not wanted
# and what it writes there: first_segment, the number of the member's first segment among those of all members.
SUM = groups.record(("values", groups.BLOCKS), "values_half", "dim", "segments", "n", "num_segments", "offsets",
                    "n_bags", "mean", ("sums", groups.BLOCKS), ("half", groups.BLOCKS), "first_segment")


def segment_sum(members):
    """Sums rows, as `segment_sum.segment_sum` or, for members with bags, `segment_sum.bag_segment_sum` for each member.

    In index order, or in any order as there.

    Args:
        members: SUM [T].

    Raises:
        ValueError: there are too many rows or segments for int32 numbers.
    """
    segments = groups.running_sum(members["num_segments"])
    members["first_segment"] = segments[:-1]
    if current() is None:
        at, = groups.place(members)
        kernels.group_sum(at, len(members))
    elif segments[-1]:
        _sum_on_gpu(members, int(segments[-1]))
    narrowed = members[members["half"]["base"] != 0]
    if len(narrowed):
        copies = groups.members(group_gather.GATHER, len(narrowed))
        for field, of_sum in (("source", "sums"), ("dim", "dim"), ("n", "num_segments"), ("out", "half")):
            copies[field] = narrowed[of_sum]
        copies["out_half"] = 1
        group_gather.gather(copies)


def _sum_on_gpu(members, num_segments):
    gpu, size, dims = current(), len(members), members["dim"]
    items = groups.running_sum(groups.tiles(members["n"]))
    tiles = int(items[-1])
    n = groups.TILE * tiles
    if max(n, num_segments) >= 1 << 31:
        raise ValueError("The sums of a group's {} tables may have up to 2**31 - 1 rows and segments in all on one "
                         "rank, got {} and {}.".format(size, int(members["n"].sum()), num_segments))
    state_bytes = scan.state_bytes(num_segments)
    state = gpu.allocate(state_bytes + 4 * (num_segments + 1))
    begins, place = state + state_bytes, gpu.allocate(4 * n)
    gpu.clear(state, state_bytes + 4 * (num_segments + 1))
    if gpu.deterministic:
        of_segments = groups.running_sum(groups.tiles(members["num_segments"], 32, dims))
        at, items_at, segments_at = groups.place(members, items, of_segments)
        kernels.group_sum_count(at, items_at, size, tiles, begins, place)
        scan.running_sum(begins, num_segments, begins, state)
        keys, sorted_keys = gpu.allocate(4 * n), gpu.allocate(4 * n)
        kernels.group_sum_keys(at, items_at, size, tiles, num_segments, keys)
        sort.order(keys, n, num_segments + 1, sorted_keys, place)
        if members["offsets"].any():
            kernels.group_sum_bags(at, items_at, size, n, place)
        kernels.group_sum_in_order(at, segments_at, size, int(of_segments[-1]), items_at, begins, place)
        return
    of_segments = groups.running_sum(groups.tiles(members["num_segments"]))
    of_chunks = groups.running_sum(groups.tiles((members["n"] + CHUNK - 1) // CHUNK, 32, dims))
    at, items_at, segments_at, chunks_at = groups.place(members, items, of_segments, of_chunks)
    kernels.group_sum_count(at, items_at, size, tiles, begins, place)
    scan.running_sum(begins, num_segments, begins, state)
    ordered, scales = gpu.allocate(16 * n), gpu.allocate(4 * n) if members["mean"].any() else 0
    kernels.group_sum_place(at, items_at, size, tiles, begins, place, ordered, scales)
    kernels.group_sum_clear(at, segments_at, size, int(of_segments[-1]), begins)
    if scales:
        kernels.group_sum_scaled_chunks(at, chunks_at, size, int(of_chunks[-1]), begins, ordered, scales)
    else:
        kernels.group_sum_chunks(at, chunks_at, size, int(of_chunks[-1]), begins, ordered)
