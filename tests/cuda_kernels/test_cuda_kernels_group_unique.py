"""unique for many tables at once, against unique for each alone."""
import numpy as np
import pytest
from group_arena import Arena, Blocked, Flat, int64, put_all, sizes
from kernel_checks import dirty, edge_keys, first_appearance
from kernel_devices import call, host_only, same_bits, size

from sok1x.cuda_kernels import backend, group_unique, groups

pytestmark = pytest.mark.usefixtures("device")
KEY_TYPES = ["int64", "int32", "uint32"]


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_unique_member_bytes() == group_unique.UNIQUE.itemsize


def check(random, keys, ranks=0):
    """Checks `unique` of the members' keys, NumPy arrays of any key type, against each alone."""
    arena = Arena()
    count, n = len(keys), np.array([len(one) for one in keys], np.int64)
    source = Blocked(arena, random, keys, ranks, 8) if ranks and count else Flat(arena, random, keys)
    values_at = put_all(arena, [dirty(m, np.int64) for m in n])
    inverse_at = put_all(arena, [dirty(m, np.int32) for m in n])
    counts_at = arena.out(count, np.int64)

    def run(base):
        members = groups.members(group_unique.UNIQUE, count)
        source.lie(members["keys"], base)
        members["key_type"] = [backend.KEY_TYPES[one.dtype.name] for one in keys]
        members["n"], members["values"], members["inverse"] = n, base + values_at, base + inverse_at
        group_unique.unique(members, int64(base + counts_at, count))

    def distinct():
        counts, *rest = arena.run(run, counts_at, *values_at, *inverse_at)
        return (counts,) + tuple(rest[t][:counts[t]] for t in range(count)) + tuple(rest[count:])

    found = same_bits(distinct)
    found = [found] if count == 0 else list(found)
    for t, one in enumerate(keys):
        values, inverse = first_appearance(one.astype(np.int64))
        assert found[0][t] == len(values)
        np.testing.assert_array_equal(found[1 + t], values)
        np.testing.assert_array_equal(found[1 + count + t], inverse)


@pytest.mark.parametrize("ranks", [0, 1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 33, 100])
def test_random_members(seed, count, ranks):
    random = np.random.RandomState(seed)
    keys = []
    for n in sizes(random, count, size(2500)):
        info = np.iinfo(random.choice(KEY_TYPES))
        few = np.concatenate([[info.min, info.max], random.randint(info.min, info.max, 1 + n // 3, info.dtype)])
        keys.append(random.choice(few.astype(info.dtype), n))
    check(random, keys, ranks)


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_edge_keys(seed, key_type):
    random = np.random.RandomState(seed)
    check(random, [keys[:size(9000)].astype(key_type) for _, keys in sorted(edge_keys(random).items())])


def test_the_same_keys_in_all_members_and_nothing_between_them(seed):
    """A member sees its own keys only, though all have the same ones."""
    random = np.random.RandomState(seed)
    keys = [np.full(n, 2 ** 31 - 1) for n in (0, 1, 31, 0, 0, 33, 5000, 0)] + [random.permutation(700)] * 3
    check(random, keys)
    check(random, [np.zeros(0, np.int64)] * 5)


@pytest.mark.parametrize("n", [8, 9, 16, 17, 2 ** 15, 2 ** 15 + 1, 2 ** 16, 2 ** 16 + 1, 2 ** 17 + 1])
def test_places_of_the_largest_member(n):
    """Where a table of places grows."""
    if n <= size(n):
        check(np.random.RandomState(n), [np.arange(n), np.arange(n // 2), np.arange(3)])


def test_too_many_keys_are_refused():
    members = groups.members(group_unique.UNIQUE, 3)
    members["n"] = 2 ** 30, 1, 2 ** 30
    with pytest.raises(ValueError, match="group of 3 tables may have up to"):
        call(lambda: group_unique.unique(members, int64(0, 3)))
