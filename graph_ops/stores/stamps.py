"""When each row of a table last changed: what incremental dumps are made of.

Beside a table's rows lie two variables (`Table.stamp_handles`): `stamps`, int64 [V], the step at which each row last
changed, and `steps`, int64 [], the last step at which the table changed at all, its clock. A change that is made while
the graph's global step is g has step g + 1, which is what the global step will be when the change is there. A graph
without a global step counts for each table the `session.run` calls that change it. (int64: TensorFlow 1.15 has no int32
variables on a GPU.)

The op that prepares a lookup's gradient stamps the gradient's rows: whichever optimizer applies it, these rows change.
It is not the one that makes the gradient, so that the stamps' cache misses cost nothing where TensorFlow computes the
loss meanwhile. Rows that a lookup inserts are stamped then, for they are new whether a gradient follows or not. What
changes rows otherwise runs `mark`.
"""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import gather, row_numbers, stamps
from sok1x.graph_ops.bridge import library, plan
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import row_checks

# Table's name -> the run that its clock has counted last. Runs of all sessions have different numbers.
_counted = {}


def step_inputs():
    """(fields of the config, host inputs) by which an op that stamps rows knows the step: built where the op is."""
    step = _global_step()
    return {"global_step": step is not None}, [] if step is None else [step]


def _global_step():
    """The value of the graph's global step, or None where it has none.

    Not `tf.train.get_global_step`: that takes any tensor of this name, one that must be fed too.
    """
    found = tf.get_collection(tf.GraphKeys.GLOBAL_STEP) or [
        variable for variable in tf.global_variables() if variable.name == "global_step:0"]
    if not found or not found[0].dtype.base_dtype.is_integer or found[0].shape.rank not in (0, None):
        return None
    return tf.convert_to_tensor(found[0])


def stamp(request, config, variables, rows):
    """Stamps rows that change in this run.

    Args:
      config: with `step_inputs`' fields; the host inputs that go with them are the request's last. `graph`, if it is
        there, is the graph's number in plan.py.
      variables: the request's, locked exclusively; the last two are the table's stamps and clock.
      rows: `Array` int32 [n], those outside the table are left out; None: all rows.
    """
    table = config["table"]
    values, clock = variables[-2:]
    ahead, step = next_step(request, config)
    if ahead:
        stamps.advance(clock.pointer, ahead, 0)
    if rows is not None:
        stamps.stamp_rows(rows.pointer, rows.size, table.rows, step, clock.pointer, values.pointer)
    else:
        stamps.advance(clock.pointer, 0, step)
        stamps.stamp_range(0, table.rows, 0, 0, clock.pointer, values.pointer)


def next_step(request, config):
    """(steps by which the table's clock moves on, the least that it shows then) where rows change in this run.

    The arguments are as for `stamp`.
    """
    table, step, ahead = config["table"], 0, 0
    if config["global_step"]:
        step = int(request.host_inputs[-1].numpy()) + 1
        _note(config.get("graph"), request.step, step)
    elif _counted.get(table.name) != request.step:
        ahead = 1
    _counted[table.name] = request.step
    return ahead, step


def stamp_gradient(request, config, rows):
    """As `stamp`, for an op that has the stamps and the clock as its only variables."""
    with request.variables(config["table"].name, exclusive=True) as variables:
        stamp(request, config, variables, rows)


def stamp_new(request, table, variables, first, count):
    """Stamps rows that a lookup has just inserted: variables as for `stamp`.

    A lookup does not know the global step. It is the table's last step if a gradient of this run has set that, else one
    later; and likewise for the other tables of its graph, of which some may be trained more often.
    """
    values, clock = variables[-2:]
    run, step = _noted(table)
    stamps.stamp_range(first, count, 0 if _counted.get(table.name) == request.step else 1,
                       step if run == request.step else step + 1, clock.pointer, values.pointer)


def _note(graph, run, step):
    """Remembers with the graph which step a run of it is."""
    of_graph = plan.get(graph)
    if of_graph is not None:
        of_graph.step = run, step


def _noted(table):
    of_graph = plan.get(table.graph)
    return (0, 0) if of_graph is None else of_graph.step


@register
class _Mark(Operation):
    """inputs: rows int32 or int64 [n], or nothing: all rows. No output. The resources are stamps and clock."""

    name = "stores.stamps.mark"

    def run(self, request, config, world, headers):
        rows = None
        if request.inputs:
            wide = row_checks.checked(request, config["table"], world, request.inputs[0])
            rows = request.temporary("int32", wide.size)
            row_numbers.narrow(wide.pointer, wide.size, rows.pointer)
        stamp_gradient(request, config, rows)


@register
class _MarkLoaded(Operation):
    """As `_Mark` for all rows, but outside any step: as if a lookup had inserted them."""

    name = "stores.stamps.mark_loaded"

    def run(self, request, config, world, headers):
        table = config["table"]
        with request.variables(table.name, exclusive=True) as variables:
            stamp_new(request, table, variables, 0, table.rows)


@register
class _Changed(Operation):
    """Host input: since, an integer []. Outputs: keys [n] of the table's key dtype, values float32 [n, D].

    Takes 12 bytes of temporary memory for each row in use. Without a hash table all rows are.
    """

    name = "stores.stamps.changed"

    def run(self, request, config, world, headers):
        table = config["table"]
        since = int(request.host_inputs[0].numpy())
        with request.variables(table.name, exclusive=False) as variables:
            changed_at = variables[-2]
            used = int(variables[2].read()) if table.use_hashtable else table.rows
            rows, kept, number = (request.temporary("int32", used) for _ in range(3))
            stamps.changed_rows(changed_at.pointer, used, since, rows.pointer)
            count = row_numbers.compact(rows.pointer, used, kept.pointer, number.pointer)
            keys = request.output(0, table.key_dtype, (count,))
            values = request.output(1, "float32", (count, table.dim))
            if table.use_hashtable:
                index = variables[1]
                stamps.numbered_keys(index.pointer, index.shape[0], number.pointer, used, keys.dtype, keys.pointer)
            else:
                stamps.direct_keys(kept.pointer, count, world.size, world.rank, keys.dtype, keys.pointer)
            gather.gather(variables[0].pointer, table.dim, kept.pointer, count, values.pointer)


def mark(table, rows=None, name="mark_changed"):
    """An op that marks rows as changed in the run that runs it.

    Args:
      table: a `Table` with handles. rows: integers of any shape; one outside the table is an InvalidArgumentError, and
        nothing is marked. None: all rows.
    """
    fields, host_inputs = step_inputs()
    inputs = [] if rows is None else [tf.reshape(row_checks.as_rows(rows), [-1])]
    return library.call("stores.stamps.mark", dict(fields, table=table.config()), inputs, [], [],
                        resources=table.stamp_handles, host_inputs=host_inputs, name=name)


def mark_loaded(table, name="mark_loaded"):
    """An op that marks all rows as changed one step after the table's last; it may be made before the global step."""
    return library.call("stores.stamps.mark_loaded", {"table": table.config()}, [], [], [],
                        resources=table.stamp_handles,
                        name=name)


def changed(table, since, name="changed"):
    """(keys [n] of the table's key dtype, values float32 [n, D]) of the rows in use that changed after step `since`.

    Args:
      table: a `Table` with handles. since: an integer scalar tensor.
    """
    return library.call("stores.stamps.changed", {"table": table.config()}, [], [tf.as_dtype(table.key_dtype),
                                                                                 tf.float32],
                        [[None], [None, table.dim]], resources=table.handles + table.stamp_handles,
                        host_inputs=[since], name=name)
