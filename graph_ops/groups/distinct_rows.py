"""The rows of many lookups made distinct, and stamped, for their gradients (operations/distinct_rows.py says why)."""
from sok1x.cuda_kernels import backend, group_stamps, group_unique, groups
from sok1x.graph_ops.groups.batch import Batch
from sok1x.graph_ops.stores import clock, known_distinct

_INVERSE, _ROWS, _REQUESTED = range(3)  # inputs and outputs


def key(taken, world):
    """Members of a group have row numbers to make distinct: those that only stamp run by themselves.

    They are of one run: it moves a table's clock on once, and each run stamps rows with a step of its own.
    """
    if world.size > 1:
        _, rows, requested = taken.request.inputs
        if rows.size or not requested.size:
            return None
    return taken.config.global_step, taken.request.step


def run(members, world):
    """Makes all members' row numbers distinct. Returns its Batch."""
    batch, size = Batch(members), len(members)
    place = _INVERSE if world.size == 1 else _REQUESTED
    at = batch.inputs[:, place]
    lengths = at["elements"]
    starts = groups.running_sum(lengths)
    records = groups.members(group_unique.UNIQUE, size)
    groups.lie_at(records["keys"], at["data"])
    records["key_type"], records["n"] = backend.KEY_TYPES["int32"], lengths
    values = batch.temporary("int64", int(starts[-1])) + 8 * starts[:-1]
    records["values"] = values
    records["inverse"] = batch.outputs([place], lengths.reshape(size, 1, 1))[:, 0]
    counters = batch.counters()
    group_unique.unique(records, counters.pointer,
                        batch.temporary("uint8", group_unique.scratch_bytes(lengths)))
    for taken in members:
        taken.request.forward(_REQUESTED - place, _REQUESTED - place)
    counts = counters.read()
    rows = batch.outputs([_ROWS], counts.reshape(size, 1, 1))[:, 0]
    with batch.variables(exclusive=True) as variables:
        _stamp(batch, variables, values, counts, rows)
    for number, taken in enumerate(members):
        if taken.config.rows_known:
            known_distinct.note_at(taken.request, taken.config.table, int(rows[number]), int(counts[number]))
    return batch.leave(~batch.ready)


def _stamp(batch, variables, values, counts, rows):
    """Writes the distinct row numbers as int32 to `rows`, and stamps these rows of all tables."""
    records = groups.members(group_stamps.STAMP, len(batch.members))
    records["n"], records["values"], records["rows"] = counts, values, rows
    records["table_rows"] = batch.columns.rows
    records["stamps"], records["clock"] = variables[:, 0]["data"], variables[:, 1]["data"]
    for record, taken in zip(records, batch.members):
        record["ahead"], record["at_least"] = clock.next_step(
            taken.request, taken.config.table, taken.config.global_step, tells=True)
    group_stamps.stamp(records)
