"""What is to be served: a graph, and which tensors go in and come out."""
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import CheckpointError
from sok1x.core import joining
from sok1x.graph_ops.bridge.tensorflow_versions import meta_graph_pb2
from sok1x.serving import parts

_SIGNATURES = "sok1x_serving_signatures"  # the graph's collection


class Input(NamedTuple):
    """A tensor that is fed.

    Attributes:
        tensor: its name in the graph.
        dtype, shape: what is known of it.
    """

    tensor: str
    dtype: tf.DType
    shape: tf.TensorShape


class Model(NamedTuple):
    """A model.

    Attributes:
        graph_def: its graph.
        inputs: {name in the signature: `Input`}.
        outputs: {name in the signature: name of a tensor}.
        initializers: names of ops that fill the graph's own lookup tables, as those of vocabularies.
        assets: names of tensors that have paths of files.
        constants: {name of a tensor: value}.
        parts: {name: `parts.Part`} of variables that a partitioner has cut.
    """

    graph_def: Any
    inputs: Dict[str, Input]
    outputs: Dict[str, str]
    initializers: List[str]
    assets: List[str]
    constants: Dict[str, np.ndarray]
    parts: Dict[str, parts.Part]


def of_function(function: Callable[[], Any], constants: Any) -> Model:
    """The model that a function builds, in a graph of its own; it returns (inputs, outputs)."""
    joining.init_alone()  # sok.Variable asks which rows are this rank's
    with tf.Graph().as_default():
        made = function()
        if not isinstance(made, (tuple, list)) or len(made) != 2:
            raise TypeError("sok1x.serving.export_saved_model: model: got a function that returned {!r}, expected "
                            "(inputs, outputs), two dicts of tensors".format(made))
        return of_tensors(made[0], made[1], constants)


def of_tensors(inputs: Any, outputs: Any, constants: Any) -> Model:
    """The model that tensors of one graph make."""
    given, wanted = flattened("inputs", inputs), flattened("outputs", outputs)
    graph = next(iter(wanted.values())).graph
    for what, tensors in (("inputs", given), ("outputs", wanted)):
        for name, tensor in tensors.items():
            if tensor.graph is not graph:
                raise ValueError("sok1x.serving.export_saved_model: {}: '{}' is of another tf.Graph than the "
                                 "others".format(what, name))
    with graph.as_default():
        fixed = {_tensor_name(graph, key): value for key, value in (constants or {}).items()}
    return Model(graph.as_graph_def(), {name: Input(one.name, one.dtype, one.shape) for name, one in given.items()},
                 {name: one.name for name, one in wanted.items()},
                 [one.name for one in graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)],
                 [one.name for one in graph.get_collection(tf.GraphKeys.ASSET_FILEPATHS)], fixed,
                 parts.of_graph(graph))


def flattened(what: str, given: Any) -> Dict[str, tf.Tensor]:
    """Tensors by name. A sparse or ragged one becomes its parts, for TensorFlow Serving takes dense ones only."""
    if not isinstance(given, dict):
        given = {what[:-1]: given}
    found: Dict[str, tf.Tensor] = {}
    for name, value in given.items():
        if isinstance(value, tf.SparseTensor):
            parts = {"indices": value.indices, "values": value.values, "dense_shape": value.dense_shape}
        elif isinstance(value, tf.RaggedTensor):
            parts = {"values": value.flat_values, **{
                "row_splits" if not number else "row_splits_{}".format(number): splits
                for number, splits in enumerate(value.nested_row_splits)}}
        else:
            found[name] = value if isinstance(value, tf.Tensor) else tf.convert_to_tensor(value)
            continue
        found.update(("{}_{}".format(name, part), tensor) for part, tensor in parts.items())
    if what == "inputs":  # parts may well be one tensor, as two ragged tensors' row_splits
        _check_once({name: tensor.name for name, tensor in found.items() if name in given})
    if what == "outputs" and not found:
        raise ValueError("sok1x.serving.export_saved_model: outputs: got none, expected tensors by name")
    return found


def _check_once(tensors: Dict[str, str]) -> None:
    """Raises ValueError where a tensor has two names as an input: what is fed as one of them would go unheard."""
    names: Dict[str, str] = {}
    for name, tensor in tensors.items():
        if tensor in names:
            raise ValueError("sok1x.serving.export_saved_model: inputs: got tensor '{}' as '{}' and as '{}', expected "
                             "each tensor once".format(tensor, names[tensor], name))
        names[tensor] = name


def _tensor_name(graph: tf.Graph, key: Any) -> str:
    if isinstance(key, (tf.Tensor, tf.Variable)):
        return str(key.name)
    return str(graph.get_tensor_by_name(key if ":" in key else key + ":0").name)


def mark(inputs: Any, outputs: Any) -> None:
    """Remembers, in the graph, what of it is to be served: see `sok1x.serving.mark_for_serving`."""
    given, wanted = flattened("inputs", inputs), flattened("outputs", outputs)
    signature = tf.saved_model.predict_signature_def(given, wanted)
    graph = next(iter(wanted.values())).graph
    graph.clear_collection(_SIGNATURES)
    graph.add_to_collection(_SIGNATURES, signature.SerializeToString())


def of_meta(path: str, inputs: Optional[Dict[str, str]], outputs: Optional[Dict[str, str]],
            constants: Optional[Dict[Any, Any]] = None) -> Optional[Model]:
    """The model in a checkpoint's .meta file: that which its graph is marked for, or these tensors, by name.

    Returns:
        None where nothing is marked, and no tensors are given.

    Raises:
        CheckpointError: the file is damaged, or has no such tensor.
    """
    meta = read_meta(path)
    fixed = _constants_of(meta, path, constants or {})
    if outputs is None:
        marked = meta.collection_def.get(_SIGNATURES)
        if marked is None or not marked.bytes_list.value:
            return None
        signature = meta_graph_pb2.SignatureDef.FromString(marked.bytes_list.value[0])
        given = {name: Input(info.name, tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape))
                 for name, info in signature.inputs.items()}
        return _of_meta(meta, given, {name: info.name for name, info in signature.outputs.items()}, fixed)
    given = {name: _known(meta, path, tensor) for name, tensor in (inputs or {}).items()}
    _check_once({name: one.tensor for name, one in given.items()})
    return _of_meta(meta, given, {name: _with_output(tensor) for name, tensor in outputs.items()}, fixed)


def read_meta(path: str) -> Any:
    """A MetaGraphDef. Raises CheckpointError."""
    meta = meta_graph_pb2.MetaGraphDef()
    try:
        with open(path, "rb") as file:
            meta.ParseFromString(file.read())
    except Exception as error:
        raise CheckpointError("Cannot read the graph in {}: {}.".format(path, error)) from None
    return meta


def _of_meta(meta: Any, inputs: Dict[str, Input], outputs: Dict[str, str], constants: Dict[str, Any]) -> Model:
    def named(collection: str) -> List[str]:
        return list(meta.collection_def[collection].node_list.value) if collection in meta.collection_def else []

    return Model(meta.graph_def, inputs, outputs, named(tf.GraphKeys.TABLE_INITIALIZERS),
                 named(tf.GraphKeys.ASSET_FILEPATHS), constants, parts.of_meta(meta))


def _constants_of(meta: Any, path: str, constants: Dict[Any, Any]) -> Dict[str, Any]:
    """{name of a tensor: value}, of tensors or names. Raises CheckpointError where the graph has no such op."""
    fixed = {_with_output(str(getattr(key, "name", key))): value for key, value in constants.items()}
    known = {node.name for node in meta.graph_def.node} if fixed else ()
    for tensor in fixed:
        if tensor.split(":")[0] not in known:
            raise _no_placeholder(tensor.split(":")[0], path)
    return fixed


def _with_output(tensor: str) -> str:
    return tensor if ":" in tensor else tensor + ":0"


def _no_placeholder(name: str, path: str) -> CheckpointError:
    return CheckpointError("There is no placeholder '{}' in the graph in {}.".format(name, path))


def _known(meta: Any, path: str, tensor: str) -> Input:
    """What the graph says of a tensor: of placeholders all, of the first outputs of others the dtype."""
    name = tensor.split(":")[0]
    for node in meta.graph_def.node:
        if node.name == name:
            dtype = next((node.attr[one].type for one in ("dtype", "T", "output_type") if one in node.attr), 0)
            if not dtype:
                break
            shape = tf.TensorShape(node.attr["shape"].shape) if "shape" in node.attr else tf.TensorShape(None)
            return Input(_with_output(tensor), tf.as_dtype(dtype), shape)
    raise _no_placeholder(tensor, path)
