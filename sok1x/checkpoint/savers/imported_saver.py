"""Savers of graphs that `tf.train.import_meta_graph` has made: their tables are known to TensorFlow alone."""
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import prefixes
from sok1x.checkpoint.savers import caches, saved_names
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.tables import sessions


class ImportedSaver(tf.train.Saver):
    """A `tf.train.Saver` that on several ranks saves and restores nothing: each rank has its own rows.

    Attributes:
        chosen: whether it was made for a list of variables, and not for all: it may leave the tables out.
    """

    chosen = False

    @sessions.in_its_graph
    def save(self, sess: Any, save_path: str, global_step: Any = None, *arguments: Any, **options: Any) -> Any:
        """As `tf.train.Saver.save`. Raises CheckpointError on several ranks, where a table has a cache, and where
        another checkpoint would be restored in place of this one."""
        _expect_one_rank("save")
        caches.refuse(caches.of_imported(sess.graph), "A tf.train.Saver cannot save an imported graph",
                      "Build the model by its program instead of tf.train.import_meta_graph")
        global_step = saved_names.step_of(sess, global_step)
        if not self.chosen:
            saved_names.expect_no_folder("A tf.train.Saver cannot save an imported graph",
                                         saved_names.prefix_of(self, save_path, global_step))
        return super().save(sess, save_path, global_step, *arguments, **options)

    def restore(self, sess: Any, save_path: Any) -> None:
        """As `tf.train.Saver.restore`. Raises CheckpointError on several ranks, and where it would restore no rows."""
        _expect_one_rank("restore")
        folder = None if self.chosen or not save_path else prefixes.folder_of(str(save_path))
        if folder is not None:
            raise CheckpointError(
                "A tf.train.Saver cannot restore the tables of an imported graph from {}: their rows are in files of "
                "sok1x's, in the folder {}, and this Saver would restore all else and leave the tables as they begin. "
                "Build the model by its program instead of tf.train.import_meta_graph: its tf.train.Saver, or "
                "sok.CheckpointManager, does. If the folder is left over from an earlier save to this path, and "
                "TensorFlow's files beside it are a later one's, remove the folder.".format(save_path, folder))
        super().restore(sess, save_path)


def has_imported_tables(graph: tf.Graph) -> bool:
    """Whether a graph has tables that came with a MetaGraph."""
    return bool(_imported(graph))


def refuse_imported_tables(graph: tf.Graph) -> None:
    """Raises CheckpointError where a graph has such tables: who saves the shards of tables would leave them out."""
    tables = _imported(graph)
    if tables:
        raise CheckpointError(
            "sok.CheckpointManager and sok1x's hooks cannot save the tables of an imported graph: got '{}' of "
            "tf.train.import_meta_graph, of which it is not known what belongs to it, expected tables that this "
            "program has made, on all ranks. Build the model by its program instead; on one rank a tf.train.Saver "
            "saves and restores a graph like this.".format("', '".join(tables)))


def _imported(graph: tf.Graph) -> List[str]:
    return [variable.op.name for variable in graph.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
            if not isinstance(variable, EmbeddingVariable)]


def _expect_one_rank(what: str) -> None:
    world = launch.current()
    if world is not None and world.size > 1:
        raise CheckpointError(
            "A tf.train.Saver cannot {} the tables of an imported graph on {} ranks: tables are spread over all ranks, "
            "and of an imported graph it is not known what belongs to them. Build the model by its program instead of "
            "tf.train.import_meta_graph: its tf.train.Saver, or sok.CheckpointManager, does.".format(what, world.size))
