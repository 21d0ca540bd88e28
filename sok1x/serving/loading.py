"""SavedModels with tables, loaded where sok1x is: all that lies beside a table's rows is loaded with them."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.core.frameworks import wrapping
from sok1x.core.tables.stamped_variable import StampedVariable
from sok1x.graph_ops.bridge.tensorflow_versions import V2, KerasOptimizer, Variable, saved_model_load
from sok1x.serving.subgraphs import first_of_ours


def watch() -> None:
    """From now on `tf.saved_model.load` restores what belongs to a variable, and on several ranks refuses ops of ours.

    A table that belongs to a layer has its stamps and its index restored as the layer's. Of any other they belong to
    its rows, and TensorFlow gives them to these as attributes, where its checkpoints look for nothing. A table that
    Keras' load_model has made anew, with its layer, has all of it already: as attributes they would replace others.
    """
    if V2:
        wrapping.wrap(saved_model_load.Loader, "__init__", _on_one_rank)
        wrapping.wrap(saved_model_load.Loader, "_add_object_graph_edges", _tracked)
        wrapping.wrap(KerasOptimizer, "add_slot", _of_any_rows)


def _on_one_rank(stock: Any) -> Any:
    """Of what loads a SavedModel: Keras' load_model, too, that is not told of layers, makes none of ours."""
    def loader(self: Any, object_graph_proto: Any, saved_model_proto: Any, export_dir: Any, *arguments: Any,
               **options: Any) -> None:
        world = launch.current()
        if world is None or world.size == 1:
            return stock(self, object_graph_proto, saved_model_proto, export_dir, *arguments, **options)
        functions = saved_model_proto.meta_graphs[0].graph_def.library.function
        ours = first_of_ours(node for function in functions for node in function.node_def)
        if ours is not None:
            raise CheckpointError((
                "The SavedModel in {} has ops of sok1x (as '{}'), and one rank's rows of the tables: it cannot be "
                "loaded on {} ranks. Build the model by its code, and load what model.save_weights, "
                "tf.train.Checkpoint or sok.CheckpointManager has written; load the SavedModel itself on one rank, or "
                "one of stock ops, made by sok.serving.export_saved_model").format(export_dir, ours, world.size))
        return stock(self, object_graph_proto, saved_model_proto, export_dir, *arguments, **options)

    return loader


def _of_any_rows(stock: Any) -> Any:
    """Of what makes the slots of a loaded variable: of one that was a growing table's it would ask how many rows."""
    def add_slot(self: Any, var: Any, slot_name: str, initializer: Any = "zeros", shape: Any = None) -> Any:
        if isinstance(var, StampedVariable) or shape is not None or not tf.executing_eagerly() or \
                var.shape.is_fully_defined() or var.shape.rank is None:
            return stock(self, var, slot_name, initializer, shape)
        any_rows, one = var.shape, tf.TensorShape([1 if size is None else size for size in var.shape.as_list()])
        with tf.variable_creator_scope(lambda creator, **kwargs: creator(**dict(kwargs, shape=any_rows))):
            return stock(self, var, slot_name, initializer, one)

    return add_slot


def _tracked(stock: Any) -> Any:
    def add_object_graph_edges(self: Any, proto: Any, node_id: int) -> None:
        loaded = self._nodes[node_id]
        if isinstance(loaded, StampedVariable):
            return
        stock(self, proto, node_id)
        if isinstance(loaded, Variable):
            for reference in proto.children:
                loaded._track_trackable(self._nodes[reference.node_id], reference.local_name, overwrite=True)

    return add_object_graph_edges
