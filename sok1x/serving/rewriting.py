"""A model's GraphDef with our ops replaced by stock ops."""
from typing import Any, Callable, Dict, List, Sequence

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import registry
from sok1x.graph_ops.bridge.tensorflow_versions import graph_pb2
from sok1x.graph_ops.operations import combined_lookup, dense_lookup, local_lookup, segments  # noqa: F401 (registers)
from sok1x.serving import lookups, tables
from sok1x.serving.subgraphs import (
    LOOKUPS,
    VARIABLES,
    Reference,
    Subgraph,
    config_of,
    function_of,
    reference,
    without_table,
)

HANDLE = "handle_"


def rewritten(graph_def: Any, subgraph: Subgraph, served: Dict[str, tables.Served], given: Dict[str, str]) -> Any:
    """The nodes of a subgraph for the served graph.

    Args:
        graph_def: whose subgraph it is: its functions come along.
        subgraph: what is needed.
        served: {table's name: how it is served}.
        given: {name of a tensor: name of what stands for it in the served graph}.

    Returns:
        A GraphDef without variables; tensors of another graph that it names are those of `handle_name` and variables.

    Raises:
        ValueError: something of a lookup is needed that only training has.
    """
    made = graph_pb2.GraphDef()
    made.versions.CopyFrom(graph_def.versions)
    made.library.CopyFrom(graph_def.library)
    stand_ins = {reference(name): new for name, new in given.items()}
    stand_ins.update({Reference(node.name, number): "{}/output_{}".format(node.name, number)
                      for node in subgraph.nodes for number in range(1, lookups.OUTPUTS.get(without_table(node), 1))})
    ours = {node.name for node in subgraph.nodes if function_of(node)}
    for node in subgraph.nodes:
        inputs = []
        for text in subgraph.inputs(node):
            one = reference(text)
            if one.node in ours and one.output > 0 and one not in stand_ins \
                    and LOOKUPS.get(function_of(subgraph.node(one.node))):
                raise ValueError("sok1x.serving: op '{}' needs what the lookup '{}' leaves for its gradient: choose "
                                 "outputs that need no gradients".format(node.name, one.node))
            inputs.append(stand_ins.get(one, text))
        if function_of(node) or without_table(node):
            made.MergeFrom(_Fragment(node, inputs, served, _entrances(node, subgraph)).graph_def(made.library))
        elif node.op not in VARIABLES:
            copy = made.node.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(inputs)
            copy.device = ""
            copy.attr.pop("_class", None)  # whom it is to be beside
    return made


def _entrances(node: Any, subgraph: Subgraph) -> List[Any]:
    """The Enter ops by which an op's first input, a variable if it has any, comes into the tf.while_loops around it,
    outermost first."""
    found: List[Any] = []
    while node.op not in VARIABLES + ("Exit", "RefExit") and node.input:
        node = subgraph.node(reference(node.input[0]).node)
        if node.op in ("Enter", "RefEnter"):
            found.insert(0, node)
    return found


def handle_name(served: tables.Served, field: str) -> str:
    """How a rewritten graph names a handle of a table, `field` of `tables.Handles`."""
    return "{}{}/{}".format(HANDLE, served.name, field)


class _Fragment:
    """Stock ops in place of one op of ours.

    Args:
        node: the op.
        inputs: what it takes here: as `subgraphs.taken`, then control inputs.
        served: {table's name: how it is served}.
        entrances: of the loops around it.
    """

    def __init__(self, node: Any, inputs: Sequence[str], served: Dict[str, tables.Served],
                 entrances: Sequence[Any]) -> None:
        self._node, self._served, self._entrances = node, served, entrances
        self._inputs = [one for one in inputs if not one.startswith("^")]
        self._controls = [one for one in inputs if one.startswith("^")]
        self._fields: Dict[str, str] = {}  # {placeholder: name in the whole graph}
        self._entering = graph_pb2.GraphDef()

    def graph_def(self, library: Any) -> Any:
        """The nodes; functions that `library` lacks are added to it. The op's own name is that of its output 0."""
        with tf.Graph().as_default() as graph:
            outputs = self._build()
            for number, output in enumerate(outputs):
                tf.identity(output, name="output_{}".format(number))
        built = graph.as_graph_def()
        known = {one.signature.name for one in library.function}
        library.function.extend(one for one in built.library.function if one.signature.name not in known)
        nodes = self._entering
        for node in built.node:
            if node.name in self._fields:
                continue
            copy = nodes.node.add()
            copy.CopyFrom(node)
            copy.name = self._name(node.name)
            del copy.input[:]
            copy.input.extend(self._renamed(text) for text in node.input)
            if self._entrances and not node.input:
                copy.input.append("^" + reference(self._inputs[0]).node)  # so that it is in the loop too
            if copy.name == self._node.name:
                copy.input.extend(self._controls)
        return nodes

    def _build(self) -> List[tf.Tensor]:
        if without_table(self._node):
            made = getattr(lookups, without_table(self._node))(self._given([None] * len(self._inputs)))
            return made if isinstance(made, list) else [made]
        function = function_of(self._node)
        config, _ = config_of(self._node, registry.get(function).Config)
        combined = LOOKUPS[function] == "combined"
        given = self._given([[None, 2] if combined and config.form == "sparse" and not number else
                             [None] if combined else None for number in range(len(self._inputs))])
        served = self._served[config.table.name]
        handles = tables.placeholders(served)
        for field, handle in handles._asdict().items():
            if handle is not None:
                self._fields[HANDLE + field] = self._entered(handle_name(served, field), field)
        build: Callable[..., tf.Tensor] = getattr(lookups, LOOKUPS[function])
        return [_with_shape(build(served, handles, config, given), self._node.attr["output_shapes"].list.shape[0])]

    def _given(self, shapes: Sequence[Any]) -> List[tf.Tensor]:
        """Placeholders for the op's inputs."""
        attributes = self._node.attr
        types = [*attributes["Tin"].list.type, *attributes["Thost_in"].list.type] or [
            attributes["T"].type] * len(self._inputs)
        made = []
        for number, (text, shape) in enumerate(zip(self._inputs, shapes)):
            name = "input_{}".format(number)
            self._fields[name] = text
            made.append(tf.placeholder(tf.as_dtype(types[number]), shape, name=name))
        return made

    def _entered(self, name: str, field: str) -> str:
        """A handle as it is known here, having come into the loops around."""
        for number, entrance in enumerate(self._entrances):
            made = self._entering.node.add()
            made.CopyFrom(entrance)
            made.name = "{}/enter_{}_{}".format(self._node.name, field, number)
            made.device = ""
            made.attr.pop("_class", None)
            del made.input[:]
            made.input.append(name)
            name = made.name
        return name

    def _name(self, name: str) -> str:
        """In the whole graph. Consumers know output 0 by the op's name, and others by a number behind it."""
        return self._node.name if name == "output_0" else "{}/{}".format(self._node.name, name)

    def _renamed(self, text: str) -> str:
        one = reference(text)
        if one.node in self._fields:
            given = self._fields[one.node]
            return "^" + reference(given).node if one.output < 0 else given
        name = self._name(one.node)
        return "^" + name if one.output < 0 else "{}:{}".format(name, one.output) if one.output else name


def _with_shape(tensor: tf.Tensor, shape: Any) -> tf.Tensor:
    """The tensor with what the graph knew of its shape."""
    known = tf.TensorShape(shape)
    if known.rank is None:
        return tensor
    dims = known.as_list()
    if dims.count(None) <= 1 and 0 not in dims:
        return tf.reshape(tensor, [-1 if dim is None else dim for dim in dims])
    return tf.ensure_shape(tensor, known)


def needed_tables(subgraph: Subgraph) -> Dict[str, Any]:
    """{name: description} of the tables that a subgraph looks up; a `graph_ops.stores.table.Table` each."""
    found = {}
    for node in subgraph.nodes:
        function = function_of(node)
        if function in LOOKUPS:
            table = config_of(node, registry.get(function).Config)[0].table
            found[table.name] = table
    return found


def local_variables(subgraph: Subgraph) -> Dict[str, Any]:
    """{name: node} of the variables, which are no tables, that a subgraph has."""
    return {node.name: node for node in subgraph.nodes if node.op in VARIABLES}
