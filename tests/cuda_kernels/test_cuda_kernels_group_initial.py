"""Initial rows for many tables at once, against the same for each table alone."""
import numpy as np
import pytest
from group_arena import Arena, Blocked, Flat, put_all, sizes
from kernel_checks import EXTREMES, dirty
from kernel_devices import call, host_only, on, size

from sok1x.cuda_kernels import backend, group_initial, groups, row_init

pytestmark = pytest.mark.usefixtures("device")
KEY_TYPES = ["int64", "int32", "uint32"]
DIMS = [1, 2, 3, 4, 7, 16, 33, 64, 128, 130]


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_initial_member_bytes() == group_initial.INITIAL.itemsize


def some_keys(random, key_type, n):
    keys = random.randint(np.iinfo(key_type).min, np.iinfo(key_type).max, n, key_type)
    if key_type == "int64":
        keys[:len(EXTREMES)] = EXTREMES[:n]
    return keys


@pytest.mark.parametrize("ranks", [0, 1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 40])
def test_initial(seed, count, ranks):
    """Rows whose number is negative are written, all others stay: every distribution, keys and rows in blocks."""
    random, arena = np.random.RandomState(seed), Arena()
    n = sizes(random, count, size(2000) // 4)
    types, dims = random.choice(KEY_TYPES, count), random.choice(DIMS, count)
    half = random.uniform(size=count) < 0.4
    rows = [np.where(random.uniform(size=k) < random.choice([0.0, 0.1, 1.0]), -1, random.randint(0, 1 << 31, k))
            .astype(np.int32) for k in n]
    outs = [dirty((k, dim), np.float16 if h else np.float32) for k, dim, h in zip(n, dims, half)]
    keys_of = [some_keys(random, key_type, k) for key_type, k in zip(types, n)]
    blocks = ranks if count else 0
    keys = Blocked(arena, random, keys_of, ranks, 8) if blocks else Flat(arena, random, keys_of)
    out = Blocked(arena, random, outs, ranks, 16) if blocks else Flat(arena, random, outs, 16)
    rows_at = put_all(arena, rows)
    kinds = random.choice(sorted(row_init.KINDS), count)
    a, b = random.uniform(-1, 0, count), random.uniform(0, 1, count)
    seeds, identities = random.randint(-1 << 63, (1 << 63) - 1, (2, count), np.int64)

    def run(base):
        members = groups.members(group_initial.INITIAL, count)
        keys.lie(members["keys"], base)
        out.lie(members["out"], base)
        members["key_type"] = [backend.KEY_TYPES[key_type] for key_type in types]
        members["n"], members["rows"], members["dim"], members["out_half"] = n, base + rows_at, dims, half
        members["seed"], members["identity"] = seeds, identities
        members["kind"], members["a"], members["b"] = [row_init.KINDS[kind] for kind in kinds], a, b
        group_initial.initial(members)

    outs_at = out.at if isinstance(out, Flat) else [out.at]
    found = arena.same_bits(run, *outs_at) if count else []
    values = found if isinstance(out, Flat) else out.read(found[-1])
    for t in range(count):
        expected = outs[t].copy()
        with on("host"):
            call(row_init.initial_rows, int(seeds[t]), int(identities[t]), keys_of[t].astype(np.int64), kinds[t], a[t],
                 b[t], rows[t], expected)
        assert values[t].tobytes() == expected.tobytes(), t
