"""Names for eager variables, by which growth finds them: they have none in TensorFlow (operation)."""
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import growing, library
from sok1x.graph_ops.bridge.registry import Operation, register


class NameConfig(NamedTuple):
    """Attributes:
      name: the variable's, in `growing.EAGER`."""

    name: str


@register
class _Note(Operation):
    """The resource is the variable. No output."""

    name = "stores.eager_names.note"
    Config = NameConfig

    def run(self, request: Any, config: NameConfig, world: Any, headers: Any) -> None:
        growing.note_named(request, 0, config.name)


def note(handle: tf.Tensor, name: str) -> None:
    """Has a variable be found by a name for as long as it lives; another of that name is found no more."""
    library.call("stores.eager_names.note", NameConfig(name), [], [], [], resources=[handle], name="note_name")
