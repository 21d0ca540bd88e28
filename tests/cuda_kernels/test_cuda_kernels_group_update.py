"""Steps of gradient descent and lazy Adam on rows of many tables at once, against the same for each table alone."""
import numpy as np
import pytest
from group_arena import Arena, put_all, sizes
from kernel_devices import call, host_only, size

from sok1x.cuda_kernels import adam, backend, group_update, groups, update

pytestmark = pytest.mark.usefixtures("device")
DIMS = [1, 2, 3, 4, 7, 16, 33, 64, 128, 130, 300]


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_update_member_bytes() == group_update.UPDATE.itemsize


@pytest.mark.parametrize("step", ["descend", "lazy_adam"])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 40])
def test_as_one_by_one(seed, count, step):
    """Tables of any width and batches of any size, rows outside the tables among them, with and without powers."""
    random, arena = np.random.RandomState(seed), Arena()
    n, dims = sizes(random, count, size(2000) // 4), random.choice(DIMS, count)
    table_rows = [k + random.randint(1, 50) for k in n]
    rows = [random.permutation(of + 4)[:k].astype(np.int32) - 2 for of, k in zip(table_rows, n)]
    values = [random.normal(size=(k, dim)).astype(np.float32) for k, dim in zip(n, dims)]
    tables = [random.normal(size=(of, dim)).astype(np.float32) for of, dim in zip(table_rows, dims)]
    slots = [[random.uniform(0, 2, size=table.shape).astype(np.float32) for table in tables] for _ in range(2)]
    scalars = [[np.array([x], np.float32) for x in (0.05 * (t + 1), 0.9, 0.99, 1e-7, 0.7, 0.8)] for t in range(count)]
    powers = random.uniform(size=count) < 0.5
    values_at, rows_at, tables_at = put_all(arena, values), put_all(arena, rows), put_all(arena, tables)
    slots_at = [put_all(arena, of) for of in slots]
    scalars_at = np.array([put_all(arena, of) for of in scalars]).reshape(count, 6)

    def run(base):
        members = groups.members(group_update.UPDATE, count)
        members["values"], members["rows"], members["table"] = base + values_at, base + rows_at, base + tables_at
        members["dim"], members["n"], members["table_rows"] = dims, n, table_rows
        members["slot0"], members["slot1"] = [base + at for at in slots_at]
        for i in range(1 if step == "descend" else 6):
            members["scalar{}".format(i)] = np.where(powers | (i < 4), base + scalars_at[:, i], 0)
        getattr(group_update, step)(members)

    changed = list(tables_at) + ([] if step == "descend" else list(slots_at[0]) + list(slots_at[1]))
    found = arena.same_bits(run, *changed) if count else []
    for t in range(count):
        alone = [tables[t].copy(), slots[0][t].copy(), slots[1][t].copy()]
        if step == "descend":
            call(update.descend, values[t], rows[t], scalars[t][0], alone[0])
            alone = alone[:1]
        else:
            call(adam.lazy_adam, values[t], rows[t], scalars[t][:6 if powers[t] else 4], *alone)
        for one, other in zip(found[t::count], alone):
            np.testing.assert_array_equal(one, other, "table {}".format(t))
