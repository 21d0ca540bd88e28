"""What a Saver saves, and restores to nothing: somebody else reads it."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import saveable_object


class SavedOnly(saveable_object.SaveableObject):
    """A tensor among the variables of a Saver.

    Args:
        value: the tensor.
        name: what it is called in the checkpoint.
    """

    def __init__(self, value: tf.Tensor, name: str) -> None:
        super().__init__(value, [saveable_object.SaveSpec(value, "", name, value.dtype)], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """Nothing."""
        return tf.no_op()
