"""Variables of the served graph in a checkpoint: by their names, or as parts of a variable that a partitioner has cut.

TensorFlow's Saver keeps the parts of `kernel`, `kernel/part_0` and so on, as slices of one variable `kernel`
(tensorflow/core/framework/variable.proto: SaveSliceInfoDef), whatever number of parts they were.
"""
from typing import Any, Dict, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import variable_pb2
from sok1x.serving.readers import Reader


class Part(NamedTuple):
    """Where a checkpoint has a variable.

    Attributes:
        whole: the name of what it is a part of.
        offset, shape: where in that it begins, and its shape, D numbers each.
    """

    whole: str
    offset: List[int]
    shape: List[int]


def of_graph(graph: tf.Graph) -> Dict[str, Part]:
    """{name: `Part`} of the parts among a graph's variables."""
    found = {}
    for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
        slice_info = getattr(variable, "_save_slice_info", None)
        if slice_info is not None:
            found[variable.op.name] = Part(slice_info.full_name, list(slice_info.var_offset),
                                           list(slice_info.var_shape))
    return found


def of_meta(meta: Any) -> Dict[str, Part]:
    """Likewise, of a MetaGraphDef."""
    found = {}
    kept = meta.collection_def.get(tf.GraphKeys.GLOBAL_VARIABLES)
    for text in kept.bytes_list.value if kept is not None else ():
        variable = variable_pb2.VariableDef.FromString(text)
        slice_info = variable.save_slice_info_def
        if slice_info.full_name:
            found[variable.variable_name.split(":")[0]] = Part(
                slice_info.full_name, list(slice_info.var_offset), list(slice_info.var_shape))
    return found


def shape_of(reader: Reader, name: str, part: Optional[Part]) -> Optional[List[int]]:
    """The shape of a variable, which may be a part, as a checkpoint has it; None: the checkpoint has it not."""
    if name in reader.shapes:
        return reader.shapes[name]
    if part is None or part.whole not in reader.shapes:
        return None
    whole = reader.shapes[part.whole]
    fits = len(whole) == len(part.shape) and all(
        at + size <= there for at, size, there in zip(part.offset, part.shape, whole))
    return part.shape if fits else None


def read(reader: Reader, name: str, part: Optional[Part]) -> Any:
    """The value of a variable that `shape_of` has found."""
    if part is None or name in reader.shapes:
        return reader.get_tensor(name)
    return reader.get_tensor(part.whole)[tuple(
        slice(at, at + size) for at, size in zip(part.offset, part.shape))]
