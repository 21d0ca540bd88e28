"""Tables' variables made ready for a restore: what a checkpoint does not say is as in a new session."""
from typing import Any, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.session import rows_anew
from sok1x.checkpoint.session.tables import TableState

# Variables are initialized in one session.run as long as they are not larger in all: each takes its size in memory once
# more until then.
TOGETHER_BYTES = 256 << 20


class Prepared:
    """What preparing a table needs in its graph; made before the graph is finalized.

    Args:
        table: the table.

    Attributes:
        variables: all that is this rank's of it, its clock, which loading a table that forgets needs, and what its
            rows begin with. known: whether each is initialized, bool []s. parts: those besides the rows that have a
            value for each row. count: see `rows_anew.used`. own: the rows, where those without a key are kept, or
            None. rows: V that it begins with.
    """

    def __init__(self, table: TableState) -> None:
        self.variables = table.variables() + [table.variable.steps]
        if table.variable.start is not None:
            self.variables.append(table.variable.start)
        self.known = [variable.is_initialized() for variable in self.variables]
        self.parts = list(table.parts.values())
        description = table.variable.table
        self.count = rows_anew.used(table.variable)
        self.own = table.variable if rows_anew.are_kept(description) else None
        self.rows = int(description.rows)


def prepare(session: tf.Session, tables: Sequence[Prepared], sources: Sequence[Any]) -> None:
    """Before tables are loaded: few session.runs for all, of which TensorFlow prepares each anew.

    Args:
        session: has the variables.
        tables: the tables. sources: of each, what it will be loaded from, a `checkpoint.files.reading.TableSource`.
    """
    wanted: List[Tuple[tf.Variable, int]] = []  # each with V of its table
    whole = []  # tables that are initialized, whose rows in use are counted
    for table, source, known in zip(tables, sources, session.run([table.known for table in tables])):
        wanted += [(variable, table.rows) for variable, initialized in zip(table.variables, known) if not initialized]
        if all(known) and table.count is not None:
            whole.append((table, source))
    # Rows that are in use now and will not be then leave their slots behind, and some tables' themselves.
    for (table, source), count in zip(whole, session.run([table.count for table, _ in whole]) if whole else ()):
        if count > (source.total or 0):
            own = [] if table.own is None or source.has_unused else [table.own]
            wanted += [(part, table.rows) for part in own + table.parts]
    for batch in _batches(wanted):
        # Of a table the rows alone: by its `initializer` all that lies beside them would come at once.
        session.run([variable._initializer_op for variable in batch])


def _batches(variables: Sequence[Tuple[tf.Variable, int]]) -> List[List[tf.Variable]]:
    """As many in one as are small together."""
    batches: List[List[tf.Variable]] = []
    left = 0
    for variable, rows in variables:
        shape = variable.initial_value.shape
        # Where a table grows that says nothing of V; its index has some twice as many slots.
        numbers = shape.num_elements() or 2 * rows * (variable.shape[1:].num_elements() or 1)
        nbytes = numbers * variable.dtype.base_dtype.size
        if not batches or nbytes > left:
            batches.append([])
            left = TOGETHER_BYTES
        batches[-1].append(variable)
        left -= nbytes
    return batches
