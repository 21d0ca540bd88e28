"""Distinct keys of many tables grouped by the rank that owns them (group_partition.cu)."""
from . import groups, scan
from .backend import INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("group_partition", None, POINTER, INT64, POINTER, INT64, POINTER, POINTER)
declare("group_partition_count", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_partition_counts", None, POINTER, INT64, INT64, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: a[1])
declare("group_partition_place", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_partition_remap", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_partition_member_bytes", INT64)

# What `partition` takes of each member:
#   values     pointer to int64, its distinct keys, as `group_unique.unique` leaves them
#   n          at most so many
#   position   pointer to int32 [n], out: where each of them is among the member's keys in the order in which they are
#              sent: those of owner 0 in their order, of owner 1, ...
#   inverse    pointer to int32 [n_inverse], numbers of `values`, which become their positions
#   parts      a key's owner is first + key mod parts; 0: all ranks
#   first      see parts
PARTITION = groups.record("values", "n", "position", "inverse", "n_inverse", "parts", "first")


def partition(members, distinct, ranks, counts, sent):
    """Groups keys by their owner, and renumbers, as `partition.partition` and `remap` for each member.

    The host need not know how many keys there are.

    Args:
        members: PARTITION [T].
        distinct: pointer to int64 [T], the number of each member's distinct keys.
        ranks: number of owners (N), at least 1.
        counts: pointer to int64 [N, T], out: keys of each member that each owner gets.
        sent: pointer to int64, out: the keys by owner, then by member. Room for as many as all members' n.
    """
    gpu, size = current(), len(members)
    members["parts"][members["parts"] == 0] = ranks
    if gpu is None:
        at, = groups.place(members)
        kernels.group_partition(at, size, distinct, ranks, counts, sent)
        return
    starts = groups.running_sum(groups.tiles(members["n"]))
    tiles, places = int(starts[-1]), ranks * int(starts[-1])
    if not tiles:
        gpu.clear(counts, 8 * ranks * size)
        return
    of_inverse = groups.running_sum(groups.tiles(members["n_inverse"]))
    at, starts_at, inverse_at = groups.place(members, starts, of_inverse)
    state_bytes = scan.state_bytes(places)
    state = gpu.allocate(state_bytes + 4 * (places + 1))
    places_at, to_own = state + state_bytes, gpu.allocate(4 * ranks * size)
    gpu.clear(state, state_bytes + 4 * (places + 1))
    kernels.group_partition_count(at, starts_at, size, tiles, distinct, places_at)
    scan.running_sum(places_at, places, places_at, state)
    kernels.group_partition_counts(starts_at, size, tiles, ranks, places_at, counts, to_own)
    kernels.group_partition_place(at, starts_at, size, tiles, distinct, places_at, to_own, sent)
    kernels.group_partition_remap(at, inverse_at, size, int(of_inverse[-1]))
