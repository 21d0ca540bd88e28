"""Keys of many tables' bags with the numbers of these bags, as they are sent to owners, against NumPy."""
import numpy as np
import pytest
from group_arena import Arena, int64, put_all, sizes
from kernel_checks import EXTREMES
from kernel_devices import host_only

from sok1x.cuda_kernels import backend, group_pairs, group_partition, groups

pytestmark = pytest.mark.usefixtures("device")


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_pairs_member_bytes() == group_pairs.PAIRS.itemsize


@pytest.mark.parametrize("count, ranks", [(1, 2), (7, 1), (26, 3), (26, 8)])
def test_random_members(seed, count, ranks):
    """All keys, grouped by owner in their order, and then their bags; keys of any type."""
    random, arena = np.random.RandomState(seed), Arena()
    keys, lengths, first = [], [], random.randint(0, 10 ** 6, count)
    for n in sizes(random, count, 2000):
        dtype = np.dtype(random.choice(["int64", "int32", "uint32"]))
        some = np.concatenate([EXTREMES.astype(dtype), np.arange(40, dtype=dtype)])
        keys.append(np.resize(random.permutation(some), n))
        cuts = np.sort(random.randint(0, n + 1, random.randint(0, 50)))
        lengths.append(np.diff(np.concatenate([[0], cuts, [n]])))
    n = np.array([len(one) for one in keys], np.int64)
    wide = [one.astype(np.int64) for one in keys]
    order = [np.argsort(one % ranks, kind="stable") for one in wide]
    counts = np.array([np.bincount(one % ranks, minlength=ranks) for one in wide]).reshape(count, ranks)
    bags = [first[t] + np.repeat(np.arange(len(lengths[t])), lengths[t]) for t in range(count)]
    blocks = [np.split(np.stack([wide[t][order[t]], bags[t][order[t]]]), np.cumsum(counts[t])[:-1], axis=1)
              for t in range(count)]
    expected = [blocks[t][r].ravel() for r in range(ranks) for t in range(count)]
    begins = np.cumsum([0] + [one.nbytes for one in expected])[:-1].reshape(ranks, count).T
    keys_at, position_at = put_all(arena, keys), [arena.out(m, np.int32) for m in n]
    offsets_at = put_all(arena, [np.concatenate([[0], np.cumsum(one)]).astype(np.int64) for one in lengths])
    starts_at = arena.put(np.concatenate([np.zeros((count, 1), np.int64), np.cumsum(counts, axis=1)], axis=1))
    begins_at, n_at, counts_at = arena.put(begins), arena.put(n), arena.out((ranks, count), np.int64)
    sent_at, out_at = arena.out(n.sum(), np.int64), arena.out(2 * n.sum(), np.int64)

    def run(base):
        parts = groups.members(group_partition.PARTITION, count)
        pairs = groups.members(group_pairs.PAIRS, count)
        types = [backend.KEY_TYPES[one.dtype.name] for one in keys]
        for members, field in ((parts, "values"), (pairs, "keys")):
            members[field], members["key_type"], members["n"] = base + keys_at, types, n
            members["position"] = base + np.array(position_at)
        group_partition.partition(parts, int64(base + n_at, count), int64(base + counts_at, ranks, count),
                                  int64(base + sent_at, n.sum()))
        pairs["offsets"], pairs["n_bags"] = base + offsets_at, [len(one) for one in lengths]
        pairs["first"] = first
        groups.lie_in_blocks(pairs["out"], base + out_at, ranks, base + starts_at, base + begins_at)
        group_pairs.pairs(pairs)

    found = arena.same_bits(run, counts_at, sent_at, out_at, *position_at)
    np.testing.assert_array_equal(found[0], counts.T)
    sent = [blocks[t][r][0] for r in range(ranks) for t in range(count)]
    np.testing.assert_array_equal(found[1], np.concatenate(sent))
    np.testing.assert_array_equal(found[2], np.concatenate(expected))
