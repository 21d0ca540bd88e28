"""partition for many tables at once, against partition and remap for each alone."""
import numpy as np
import pytest
from group_arena import Arena, int64, put_all, sizes
from kernel_checks import EXTREMES, dirty, first_appearance
from kernel_devices import call, host_only, on, size

from sok1x.cuda_kernels import backend, group_partition, group_unique, groups, partition

pytestmark = pytest.mark.usefixtures("device")


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_partition_member_bytes() == group_partition.PARTITION.itemsize


def alone(values, inverse, ranks):
    """(keys of each owner, keys in the order in which they are sent, position, inverse) of one table."""
    counts, sent, position = np.zeros(ranks, np.int64), np.empty_like(values), np.empty(len(values), np.int32)
    remapped = inverse.copy()
    with on("host"):
        call(partition.partition, values, counts, sent, position)
        call(partition.remap, remapped, position)
    return counts, sent, position, remapped


def expect(members, ranks):
    """Of (values, inverse) of each member: counts [N, T], what is sent, positions, inverses."""
    each = [alone(values, inverse, ranks) for values, inverse in members]
    counts = np.array([one[0] for one in each], np.int64).reshape(len(each), ranks).T
    parts = [np.split(one[1], np.cumsum(one[0])[:-1]) for one in each]
    sent = [part[rank] for rank in range(ranks) for part in parts]
    return counts, np.concatenate(sent + [np.zeros(0, np.int64)]), [one[2] for one in each], [one[3] for one in each]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 64, 300])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 33, 100])
def test_random_members(seed, count, ranks):
    """Fewer keys than room for them, none at all, an inverse longer or shorter than the keys, or none."""
    random, arena, members = np.random.RandomState(seed), Arena(), []
    room = sizes(random, count, size(3000))
    for n in room:
        distinct = random.randint(0, n + 1) if random.uniform() < 0.5 else n
        keys = np.unique(np.concatenate([random.randint(-2 ** 40, 2 ** 40, 2 * n), EXTREMES]))
        values = random.permutation(keys)[:distinct]
        many = random.choice([0, 1, distinct, 2 * distinct + 5]) if distinct else 0
        members.append((values, random.randint(0, max(1, distinct), many).astype(np.int32)))
    # A member's values have room for n keys, and nonsense behind those that there are.
    values_at = put_all(arena, [np.concatenate([values, dirty(n - len(values), np.int64)])
                                for n, (values, _) in zip(room, members)])
    inverse_at = put_all(arena, [inverse for _, inverse in members])
    position_at = put_all(arena, [dirty(n, np.int32) for n in room])
    distinct_at = arena.put(np.array([len(values) for values, _ in members], np.int64))
    counts_at, sent_at = arena.out((ranks, count), np.int64), arena.out(room.sum(), np.int64)

    def run(base):
        records = groups.members(group_partition.PARTITION, count)
        records["values"], records["position"] = base + values_at, base + position_at
        records["n"], records["inverse"] = room, base + inverse_at
        records["n_inverse"] = [len(inverse) for _, inverse in members]
        group_partition.partition(records, int64(base + distinct_at, count), int64(base + counts_at, ranks, count),
                                  int64(base + sent_at, room.sum()))

    found = arena.same_bits(run, counts_at, sent_at, *position_at, *inverse_at)
    counts, sent, positions, inverses = expect(members, ranks)
    np.testing.assert_array_equal(found[0], counts)
    np.testing.assert_array_equal(found[1][:len(sent)], sent)
    assert found[1][len(sent):].tobytes() == dirty(len(found[1]) - len(sent), np.int64).tobytes()
    for t, (position, inverse) in enumerate(zip(positions, inverses)):
        np.testing.assert_array_equal(found[2 + t][:len(position)], position)
        np.testing.assert_array_equal(found[2 + count + t], inverse)


@pytest.mark.parametrize("ranks", [2, 7])
def test_after_unique_without_the_counts_on_the_host(seed, ranks):
    """Each position's key is found where its inverse says, among what its member has sent."""
    random, arena = np.random.RandomState(seed), Arena()
    keys = [random.randint(-n, n + 1, n).astype(random.choice(["int64", "int32"])) for n in sizes(random, 26, 2048)]
    count, n = len(keys), np.array([len(one) for one in keys], np.int64)
    keys_at, values_at = put_all(arena, keys), put_all(arena, [dirty(m, np.int64) for m in n])
    inverse_at, position_at = (put_all(arena, [dirty(m, np.int32) for m in n]) for _ in range(2))
    distinct_at, counts_at = arena.out(count, np.int64), arena.out((ranks, count), np.int64)
    sent_at = arena.out(n.sum(), np.int64)

    def run(base):
        records = groups.members(group_unique.UNIQUE, count)
        groups.lie_at(records["keys"], base + keys_at)
        records["key_type"] = [backend.KEY_TYPES[one.dtype.name] for one in keys]
        records["n"], records["values"], records["inverse"] = n, base + values_at, base + inverse_at
        distinct = int64(base + distinct_at, count)
        group_unique.unique(records, distinct)
        parts = groups.members(group_partition.PARTITION, count)
        for field in ("values", "n", "inverse"):
            parts[field] = records[field]
        parts["position"], parts["n_inverse"] = base + position_at, n
        group_partition.partition(parts, distinct, int64(base + counts_at, ranks, count),
                                  int64(base + sent_at, n.sum()))

    distinct, counts, sent, *rest = arena.run(run, distinct_at, counts_at, sent_at, *inverse_at, *values_at,
                                              *position_at)
    members = [first_appearance(one.astype(np.int64)) for one in keys]
    expected = expect(members, ranks)
    assert distinct.tolist() == [len(values) for values, _ in members]
    np.testing.assert_array_equal(counts, expected[0])
    np.testing.assert_array_equal(sent[:len(expected[1])], expected[1])
    for found, wanted in zip(rest, expected[3]):
        np.testing.assert_array_equal(found, wanted)
