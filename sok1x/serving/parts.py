"""Variables of the served graph in a checkpoint: by their names, or as parts of a variable that a partitioner has cut.

TensorFlow's Saver keeps the parts of `kernel`, `kernel/part_0` and so on, as slices of one variable `kernel`
(tensorflow/core/framework/variable.proto: SaveSliceInfoDef), whatever number of parts they were.
"""
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import variable_pb2
from sok1x.serving import bundles
from sok1x.serving.readers import Reader

_COLLECTIONS = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES,
                tf.GraphKeys.MODEL_VARIABLES)


class Part(NamedTuple):
    """Where a checkpoint has a variable that is a part of another.

    Attributes:
        whole: the name of what it is a part of.
        whole_shape: the shape of that.
        offset, shape: where in it the part begins, and the part's shape: as many numbers.
    """

    whole: str
    whole_shape: List[int]
    offset: List[int]
    shape: List[int]


def of_graph(graph: tf.Graph) -> Dict[str, Part]:
    """{name: `Part`} of the parts among a graph's variables."""
    found = {}
    for collection in graph.get_all_collection_keys():
        for variable in graph.get_collection_ref(collection):
            slice_info = getattr(variable, "_save_slice_info", None)
            if slice_info is not None:
                found[variable.op.name] = _part(slice_info)
    return found


def of_meta(meta: Any) -> Dict[str, Part]:
    """Likewise, of a MetaGraphDef."""
    found = {}
    for collection in _COLLECTIONS:
        kept = meta.collection_def.get(collection)
        for text in kept.bytes_list.value if kept is not None else ():
            variable = variable_pb2.VariableDef.FromString(text)
            if variable.save_slice_info_def.full_name:
                found[variable.variable_name.split(":")[0]] = _part(variable.save_slice_info_def)
    return found


def _part(slice_info: Any) -> Part:
    return Part(slice_info.full_name, *([int(one) for one in numbers] for numbers in (
        slice_info.full_shape, slice_info.var_offset, slice_info.var_shape)))


def shape_of(reader: Reader, name: str, part: Optional[Part]) -> Optional[List[int]]:
    """The shape of a variable, which may be a part, as a checkpoint has it.

    Returns:
        None where it has none: neither that name, nor, of a part, a whole of the shape that it is a part of.
    """
    if name in reader.shapes:
        return list(reader.shapes[name])
    if part is None or list(reader.shapes.get(part.whole, ())) != part.whole_shape:
        return None
    return part.shape


def dtype_of(reader: Reader, name: str, part: Optional[Part]) -> Any:
    """The dtype of a variable that `shape_of` has found."""
    return reader.dtypes[name if part is None or name in reader.dtypes else part.whole]


def read(reader: Reader, name: str, part: Optional[Part]) -> Any:
    """The value of a variable that `shape_of` has found. Memory: its own, of a part that is cut along its rows."""
    if part is None or name in reader.shapes:
        return reader.get_tensor(name)
    rows = bundles.read_slice(reader.prefix, reader.key(part.whole), part.whole_shape, part.offset[0], part.shape[0],
                              reader.dtypes[part.whole])
    cut = rows[(slice(None),) + tuple(slice(at, at + size) for at, size in zip(part.offset[1:], part.shape[1:]))]
    return np.ascontiguousarray(cut)
