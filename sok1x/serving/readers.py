"""TensorFlow's checkpoints by the names of variables, also where Keras has named them by their places in a model."""
from typing import Any, Dict

import tensorflow.compat.v1 as tf

from sok1x.checkpoint import tensorflow_errors
from sok1x.graph_ops.bridge.tensorflow_versions import trackable_object_graph_pb2

_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"  # the tensor that says which variable is where: trackable_object_graph.proto


class Reader:
    """The variables of a checkpoint.

    Args:
        prefix: of its files; `tf.train.Saver`'s, or those of Keras' `save_weights` or of `tf.train.Checkpoint`.

    Attributes:
        prefix: as given.
        shapes: {variable's name: list of int}. dtypes: {variable's name: tf.DType}.

    Raises:
        DamagedError: the files are not what TensorFlow has written; so does `get_tensor`.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        with tensorflow_errors.damages(prefix):
            self._reader = tf.train.NewCheckpointReader(prefix)
        shapes, dtypes = self._reader.get_variable_to_shape_map(), self._reader.get_variable_to_dtype_map()
        self._keys: Dict[str, str] = {name: name for name in shapes}
        if _OBJECTS in shapes:
            with tensorflow_errors.damages(prefix):
                objects = self._reader.get_tensor(_OBJECTS)
            graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(objects)
            self._keys = {attribute.full_name: attribute.checkpoint_key for node in graph.nodes
                          for attribute in node.attributes if attribute.checkpoint_key in shapes}
        self.shapes = {name: shapes[key] for name, key in self._keys.items()}
        self.dtypes = {name: dtypes[key] for name, key in self._keys.items()}

    def key(self, name: str) -> str:
        """What the checkpoint's files call a variable."""
        return self._keys[name]

    def get_tensor(self, name: str) -> Any:
        """A variable's value."""
        with tensorflow_errors.damages(self.prefix):
            return self._reader.get_tensor(self._keys.get(name, name))
