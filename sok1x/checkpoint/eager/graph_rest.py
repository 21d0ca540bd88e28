"""What an eager program has besides tables, from a checkpoint that a graph has saved: by variables' names.

A graph's variables are saved by name, a `tf.train.Checkpoint`'s objects by who refers to them. TensorFlow restores the
former into the latter too, but says nothing where a name is not there. Names of what Keras' optimizers keep differ by a
scope that one of both has besides: they count steps in 'Adam/iter', or in 'iter' where a program asks for it first.
"""
import functools
from typing import Any, Dict, Iterable, List

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import former_names
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, checkpoint_objects, objects_of

_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_MOST_NAMED = 8  # names in a message


def is_by_name(prefix: str) -> bool:
    """Whether a graph has saved TensorFlow's files of this prefix."""
    return not tf.train.NewCheckpointReader(prefix).has_tensor(_OBJECTS)


class GraphRest:
    """Restores the rest of an eager program by names.

    Args:
        prefix: of TensorFlow's files.
        rest: a `tf.train.Checkpoint`, or None.
        tables: the program's tables' variables.
    """

    def __init__(self, prefix: str, rest: Any, tables: Iterable[Any]) -> None:
        self._prefix, self._rest, self._tables = prefix, rest, list(tables)
        objects = objects_of(rest)
        self._optimizers = {str(getattr(one, "_name", None) or getattr(one, "name", "")) for one in objects
                            if isinstance(one, KERAS_OPTIMIZERS + (tf.train.Optimizer,))}
        self._variables = dense_of(objects, [table.steps for table in self._tables])

    def check(self) -> None:
        """Raises MismatchError where something of `rest` is not there, or is there twice or in another shape."""
        self._found()

    def restore(self) -> None:
        """Gives variables, and tables' counts of steps, their values, and warns of what nobody takes."""
        reader, found = tf.train.NewCheckpointReader(self._prefix), self._found()
        for name, variable in found.items():
            variable.assign(reader.get_tensor(name))
        left = set(reader.get_variable_to_shape_map()) - set(found)
        for table in self._tables:
            name = former_names.saved_as(table.table.name + "/steps", left, [table])
            if name in left:
                table.steps.assign(reader.get_tensor(name))
                left.remove(name)
        if left and self._rest is not None:
            tf.logging.warning(
                "%s was saved in a graph, and nothing in the tf.train.Checkpoint is called as these variables of it: "
                "%s. What of the model or its optimizer is made later begins anew: build both, then restore.",
                self._prefix, some(left))

    def _found(self) -> Dict[str, Any]:
        """{name in the checkpoint: variable}."""
        reader = tf.train.NewCheckpointReader(self._prefix)
        saved, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        found: Dict[str, Any] = {}
        for variable in self._variables:
            name = variable.name.split(":")[0]
            fitting = [one for one in ([name] if name in saved else filter(functools.partial(self._alike, name), saved))
                       if one not in found and saved[one] == variable.shape.as_list()
                       and _holds(variable.dtype.base_dtype, dtypes[one], reader, one)]
            if len(fitting) != 1:
                raise MismatchError((
                    "{} was saved in a graph, whose variables are found by their names, and has {} for '{}' {} {} of "
                    "the tf.train.Checkpoint; it has {}. Give it the name that it had in the graph, or leave it out of "
                    "the tf.train.Checkpoint.").format(
                        self._prefix, some(fitting) + ", all alike," if fitting else "nothing", name,
                        variable.dtype.base_dtype.name, variable.shape.as_list(), some(saved)))
            found[fitting[0]] = variable
        return found

    def _alike(self, name: str, other: str) -> bool:
        """Whether one of two names is the other with an optimizer's scope."""
        shorter, longer = sorted((name, other), key=len)
        return longer.endswith("/" + shorter) and not self._optimizers.isdisjoint(longer.split("/"))


def _holds(wanted: tf.DType, saved: tf.DType, reader: Any, name: str) -> bool:
    """Whether a variable may have what was saved: of its dtype, or a whole number that it can be."""
    if wanted == saved:
        return True
    if not (wanted.is_integer and saved.is_integer):
        return False
    value = reader.get_tensor(name)
    return bool((value >= wanted.min).all() and (value <= wanted.max).all())


def dense_of(objects: List[Any], steps: List[Any]) -> List[Any]:
    """Variables among the objects of a tf.train.Checkpoint, but for tables', with their steps, and counts of saves."""
    kinds = checkpoint_objects.Checkpoint, checkpoint_objects.CheckpointV1
    others = steps + [one.save_counter for one in objects if isinstance(one, kinds)]
    return [one for one in objects if isinstance(one, tf.compat.v2.Variable) and not isinstance(one, ShardVariable)
            and not any(one is other for other in others)]


def some(names: Iterable[str]) -> str:
    """The first of some names, for a message."""
    names = sorted(names)
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (" and {} more".format(more) if more > 0 else "")
