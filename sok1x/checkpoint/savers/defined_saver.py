"""Savers that are made of a SaverDef, as `tf.train.Saver.from_proto` does, in a graph with tables of its program."""
from typing import Any, List, Set

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import prefixes
from sok1x.checkpoint.savers import caches, restored_tables, saved_names
from sok1x.checkpoint.session import restored_sessions
from sok1x.checkpoint.session.tables import all_of, let_leave, tables_of
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.tables import sessions

_INSTEAD = "Make a Saver of the variables, as tf.train.Saver() is, or use sok.CheckpointManager"


class DefinedSaver(tf.train.Saver):
    """A `tf.train.Saver` that is known by its ops alone, which TensorFlow has made for one rank.

    Attributes:
        held: the variables of tables' shards that it saves and restores.
    """

    held: List[Any]

    @sessions.in_its_graph
    def save(self, sess: Any, save_path: str, global_step: Any = None, *arguments: Any, **options: Any) -> Any:
        """As `tf.train.Saver.save`. Raises CheckpointError on several ranks, where a table has a cache, and where
        another checkpoint would be restored in place of this one."""
        self._expect_known("save")
        global_step = saved_names.step_of(sess, restored_sessions.complete(sess, global_step))
        saved_names.expect_no_folder("A tf.train.Saver of a SaverDef cannot save tables",
                                     saved_names.prefix_of(self, save_path, global_step))
        let_leave(sess, filter(_is_table, self.held))
        return super().save(sess, save_path, global_step, *arguments, **options)

    def restore(self, sess: Any, save_path: Any) -> None:
        """As `tf.train.Saver.restore`. Raises CheckpointError where `save` does, and where it would restore no rows."""
        self._expect_known("restore")
        folder = None if not save_path else prefixes.folder_of(str(save_path))
        if folder is not None:
            raise CheckpointError(
                "A tf.train.Saver of a SaverDef cannot restore tables from {}: their rows are in files of sok1x's, in "
                "the folder {}. {}.".format(save_path, folder, _INSTEAD))
        with restored_tables.restored(sess, self.held):
            super().restore(sess, save_path)
        restored_sessions.note_global_step(sessions.raw(sess), _holds_all(self.saver_def, sess.graph))

    def _expect_known(self, what: str) -> None:
        """Raises CheckpointError where its ops are not all there is to save, or restore."""
        caches.refuse(caches.among(self.held), "A tf.train.Saver of a SaverDef cannot {} tables".format(what), _INSTEAD)
        world = launch.current()
        if world is not None and world.size > 1:
            raise CheckpointError(
                "A tf.train.Saver of a SaverDef cannot {} tables on {} ranks: it is known by its ops alone, which hold "
                "one rank's rows. {}.".format(what, world.size, _INSTEAD))


def held_by(definition: Any, graph: tf.Graph) -> List[Any]:
    """The variables of tables' shards that the ops which a SaverDef names read or assign.

    Args:
        definition: the SaverDef.
        graph: has the ops.
    """
    variables = [variable for table in tables_of(graph) for variable in table.variables()]
    behind = _ops_of(definition, graph) if variables else set()
    return [variable for variable in variables if variable.op in behind]


def _holds_all(definition: Any, graph: tf.Graph) -> bool:
    """Whether there is nothing in a graph now that these ops do not read or assign."""
    behind = _ops_of(definition, graph)
    ops = [saved.op for saved in all_of(graph, tables_of(graph))]
    return all(getattr(op, "op", op) in behind for op in ops)  # of what is no variable it is a tensor


def _ops_of(definition: Any, graph: tf.Graph) -> Set[tf.Operation]:
    """The ops that a SaverDef names, and all that runs before they have."""
    return _ops_behind(graph, [definition.save_tensor_name.partition(":")[0], definition.restore_op_name])


def _is_table(variable: Any) -> bool:
    return isinstance(variable, EmbeddingVariable)


def _ops_behind(graph: tf.Graph, names: List[str]) -> Set[tf.Operation]:
    """These ops, and all that runs before they have; nothing where one is not there, as TensorFlow will say."""
    found: Set[tf.Operation] = set()
    try:
        waiting = [graph.get_operation_by_name(name) for name in names]
    except (KeyError, ValueError):
        return found
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend([*op.control_inputs, *(tensor.op for tensor in op.inputs)])
    return found
