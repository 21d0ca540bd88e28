"""SavedModels with tables, loaded where sok1x is: all that lies beside a table's rows is loaded with them."""
from typing import Any

from sok1x.core import wrapping
from sok1x.core.stamped_variable import StampedVariable
from sok1x.graph_ops.bridge.tensorflow_versions import V2, Variable, saved_model_load


def watch() -> None:
    """From now on `tf.saved_model.load` restores what belongs to a variable.

    A table that belongs to a layer has its stamps and its index restored as the layer's. Of any other they belong to
    its rows, and TensorFlow gives them to these as attributes, where its checkpoints look for nothing. A table that
    Keras' load_model has made anew, with its layer, has all of it already: as attributes they would replace others.
    """
    if V2:
        wrapping.wrap(saved_model_load.Loader, "_add_object_graph_edges", _tracked)


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
