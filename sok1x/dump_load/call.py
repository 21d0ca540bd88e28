"""What `sok.dump` and `sok.load` are given."""
import os
from typing import Any, Callable, Dict, List, NamedTuple, Set

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.files import urls
from sok1x.checkpoint.session.talk import Talk, talk
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import newer_optimizers
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.options import given_tables
from sok1x.core.tables import sessions
from sok1x.dump_load import layout, transfers
from sok1x.dump_load.transfers import TableTransfers
from sok1x.graph_ops.bridge import joined
from sok1x.optimizers.sgd import SGD
from sok1x.optimizers.wrapper import OptimizerWrapper


class Call(NamedTuple):
    """The arguments, checked.

    Attributes:
        path: an absolute path. tables: in the order given. session: where to run.
        talk: how the ranks talk. what: what all of them are at, in words.
    """

    path: str
    tables: List[TableTransfers]
    session: tf.Session
    talk: Talk
    what: str

    def agree(self, work: Callable[[], Any]) -> List[Any]:
        """Does this rank's work and returns what every rank's gave. Raises CheckpointError where one has failed."""
        return self.talk.agree(self.session, work)


def checked(function: str, path: Any, variables: Any, optimizer: Any, session: Any) -> Call:
    """Looks at the arguments of `function`. Raises as `sok.dump` says."""
    path = os.fspath(path) if hasattr(path, "__fspath__") else path
    if not isinstance(path, str) or not path:
        raise TypeError("{}: path: got {!r}, expected a folder's path".format(function, path))
    path = urls.folder(function + ": path", path)
    given = given_tables.tables(function + ": sok_vars", variables, given_tables.EXPECTED + ", or a list of them; save "
                                "other variables with a tf.train.Saver")
    if not given:
        raise ValueError("{}: got no variables".format(function))
    _expect_names_apart(function, given)
    optimizer = optimizer._wrapper if isinstance(optimizer, SGD) else optimizer
    if optimizer is not None and not hasattr(optimizer, "get_slot_names") \
            and not newer_optimizers.is_one(optimizer):
        raise TypeError("{}: optimizer: got {!r} of type {}, expected a sok1x.OptimizerWrapper or an optimizer".format(
            function, optimizer, type(optimizer).__name__))
    for variable in given:
        if optimizer is not None and not _trains(optimizer, variable):
            raise ValueError("{}: optimizer: got a {} that has not trained '{}'; call its apply_gradients with it "
                             "before, or its build([variable])".format(
                                 function, type(optimizer).__name__, variable.table.name))
    joined.world()
    found = sessions.session_of(function, given[0].graph, session)
    tables = [transfers.of(variable, optimizer) for variable in given]
    for table in tables:
        _expect_slots_like_rows(function, table)
    path = os.path.abspath(path)
    return Call(path, tables, found, talk(), "{} of {} at {}".format(
        function, ", ".join("'{}'".format(variable.table.name) for variable in given), path))


def stems(variable: EmbeddingVariable) -> List[str]:
    """What a variable's files are called after; SOK's, by the name with or without ':0'. The first is ours.

    A layer's table was called by SOK's name of it before it had the layer's, and that of shared feature columns after
    the first of them.
    """
    names = (variable.table.name, variable.table.saved_name)
    return list(dict.fromkeys(layout.stem(name + end) for name in names for end in (":0", "")))


def stems_of_all(graph: Any) -> Set[str]:
    """What the files of a graph's tables are called after, or of all eager tables: of each the first of its `stems`."""
    return {stems(variable)[0] for variable in eager.collected(graph, GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
            if isinstance(variable, EmbeddingVariable)}  # not one that came with a MetaGraph


def _expect_names_apart(function: str, variables: List[EmbeddingVariable]) -> None:
    known: Dict[str, str] = {}
    for variable in variables:
        other = known.setdefault(stems(variable)[0], variable.table.name)
        if other != variable.table.name:
            raise ValueError("{}: '{}' and '{}' would have files of one name, '{}': SOK's files have '_' for every "
                             "punctuation character; rename one".format(
                                 function, other, variable.table.name, stems(variable)[0]))
    if len(known) < len(variables):
        raise ValueError("{}: got a variable twice: {}".format(
            function, ", ".join(variable.table.name for variable in variables)))


def _expect_slots_like_rows(function: str, table: TableTransfers) -> None:
    """The files tell D of the table alone: what else a slot has for each row could not be read again."""
    description = table.variable.table
    for slot, made in table.slots.variables.items():
        shape = made.shape.as_list()[1:]
        if shape != [description.dim]:
            raise ValueError("{}: optimizer: got {}, whose slot '{}' has values of shape {} for each row of table "
                             "'{}', and SOK's files have [{}] as for the rows themselves; leave the optimizer out, or "
                             "save with sok.CheckpointManager".format(
                                 function, table.slots.optimizer, slot, shape, description.name, description.dim))


def _trains(optimizer: Any, variable: EmbeddingVariable) -> bool:
    if isinstance(optimizer, OptimizerWrapper):
        return optimizer.trains(variable)
    slots = transfers.slots_of(variable, optimizer)
    # Of one that keeps nothing it cannot be known, and need not be.
    return bool(slots.variables) or (slots.optimizer == "SGD" and getattr(optimizer, "_momentum", False) is not True)
