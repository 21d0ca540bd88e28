"""The part of a graph that a model is: what its outputs need, given its inputs."""
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from sok1x.graph_ops.bridge import configs, op_types

VARIABLES = ("VariableV2", "Variable", "VarHandleOp")
LOOKUPS = {"operations.dense_lookup.forward": "dense", "operations.local_lookup.forward": "dense",
           "operations.combined_lookup.forward": "combined"}
SUMS = {"operations.segments.segment_sum": "segment_sum", "operations.segments.unique": "unique"}
_PRESENT_VALUES = "Sok1xPresentValues"  # of feature_column/present_values.py
_MUTABLE = re.compile("Mutable.*HashTable")  # filled by ops at any time; others by those of TABLE_INITIALIZERS
_NEUTRAL = ("operations.branches.agree",)  # whether all ranks take the same branch: there are none
# Also those of graphs that sok1x 0.1 has saved.
_ONE = tuple(op_types.TYPES) + ("Sok1xCall",)
OUR_OPS = _ONE + tuple(name + "s" for name in _ONE) + (_PRESENT_VALUES,)  # "s": fused ones


def first_of_ours(nodes: Iterable[Any]) -> Optional[str]:
    """The name of the first of some NodeDefs that is an op of ours; None: there is none."""
    return next((node.name for node in nodes if node.op in OUR_OPS), None)


class Reference(NamedTuple):
    """What a node's input names: a node, and which of its outputs; -1 for a control input."""

    node: str
    output: int


def reference(text: str) -> Reference:
    """Of a NodeDef's input, or of a tensor's name."""
    if text.startswith("^"):
        return Reference(text[1:], -1)
    found = re.match(r"(.*):([0-9]+)\Z", text)
    return Reference(found.group(1), int(found.group(2))) if found else Reference(text, 0)


def function_of(node: Any) -> str:
    """What an op of ours runs, or ''."""
    return str(node.attr["function"].s.decode()) if node.op in _ONE else ""


def without_table(node: Any) -> str:
    """The function of `lookups` that gives what an op of ours gives which asks no table, or ''."""
    return "present_values" if node.op == _PRESENT_VALUES else SUMS.get(function_of(node), "")


def config_of(node: Any, kind: Any) -> Tuple[Any, configs.Place]:
    """The config of an op of ours, a `kind`, and its place."""
    return configs.decode(kind, node.attr["config"].s.decode())


def taken(node: Any) -> List[str]:
    """The inputs of a node that a served model needs: of our ops neither variables nor flags."""
    data = [one for one in node.input if not one.startswith("^")]
    function = function_of(node)
    if function in LOOKUPS:
        first = node.attr["Nr"].i
        inputs = len(node.attr["Tin"].list.type)
        data = data[first:first + inputs + (_has_dense_shape(node) and 1)]
    return data


def _has_dense_shape(node: Any) -> bool:
    return LOOKUPS[function_of(node)] == "combined" and '"form": "sparse"' in node.attr["config"].s.decode()


class Subgraph:
    """What is needed.

    Args:
        graph_def: of the whole model.
        targets: names of tensors and ops.
        given: tensors that need nothing, because they are fed or fixed.

    Attributes:
        nodes: the nodes needed, in the graph's order.
        used: the tensors among `given` that something needs, or that are targets.

    Raises:
        ValueError: a target is not in the graph, or needs what a served model cannot have.
    """

    def __init__(self, graph_def: Any, targets: Iterable[str], given: Iterable[str]) -> None:
        self._by_name = {node.name: node for node in graph_def.node}
        self._given = {reference(one) for one in given}
        self._given_nodes = {one.node for one in self._given}
        self.used: Set[Reference] = set()
        found: Set[str] = set()
        waiting: List[Tuple[str, str]] = []  # (node, who needs it)

        def need(text: str, whose: str) -> None:
            one = reference(text)
            if one in self._given:
                self.used.add(one)
            elif one.node not in found and not self.is_neutral(one.node):
                found.add(one.node)
                waiting.append((one.node, whose))

        for target in targets:
            need(target, "it is asked for")
        while waiting:
            name, whose = waiting.pop()
            node = self._by_name.get(name)
            if node is None:
                raise ValueError("sok1x.serving: there is no op '{}' in the graph ({})".format(name, whose))
            self._check(node, whose)
            for text in self.inputs(node):
                need(text, "'{}' needs it".format(name))
        self.nodes = [node for node in graph_def.node if node.name in found]

    def inputs(self, node: Any) -> List[str]:
        """What a node takes here, control inputs last."""
        return taken(node) + [one for one in node.input if one.startswith("^") and not self.is_neutral(one[1:])
                              and one[1:] not in self._given_nodes]

    def node(self, name: str) -> Any:
        """The NodeDef of that name."""
        return self._by_name[name]

    def is_neutral(self, name: str) -> bool:
        """Whether a node is to be left out, wherever it is named."""
        node = self._by_name.get(name)
        return node is not None and (function_of(node) in _NEUTRAL or op_types.BARRIER in node.attr)

    @staticmethod
    def _check(node: Any, whose: str) -> None:
        function = function_of(node)
        if node.op in OUR_OPS and function not in LOOKUPS and not without_table(node):
            raise ValueError("sok1x.serving: the outputs need op '{}' ({}), which runs {}: a served model can look up "
                             "tables, but not train or ask other ranks. Choose outputs that do not need it".format(
                                 node.name, whose, function or "several of sok1x's operations"))
        if node.op in ("Placeholder", "PlaceholderV2"):
            raise ValueError("sok1x.serving: the outputs need the placeholder '{0}' ({1}), which is not among the "
                             "inputs: add it to them, or say what it always is by constants={{'{0}:0': value}}".format(
                                 node.name, whose))


def refuse_empty_tables(subgraph: Subgraph, initializers: Iterable[str]) -> None:
    """Raises ValueError where the outputs look into a table of TensorFlow's that would be served without its entries.

    Args:
        subgraph: of outputs and initializers.
        initializers: the ops that run when the model has been loaded.
    """
    filled = {reference(subgraph.node(name).input[0]).node for name in initializers}
    for node in subgraph.nodes:
        if _MUTABLE.search(node.op) and node.name not in filled:
            raise ValueError("sok1x.serving: the outputs need the lookup table '{}', which nothing fills when the "
                             "model is loaded ({}): a checkpoint has no entries of such tables. Choose a table with an "
                             "initializer, or make what is found in it an input".format(node.name, node.op))


def tables_of(graph_def: Any, kind: Any) -> Dict[str, Any]:
    """{name: description} of the tables that a graph's ops know; kind: `graph_ops.stores.table.Table`."""
    found: Dict[str, Any] = {}
    for node in graph_def.node:
        if function_of(node) in LOOKUPS:
            table = configs._made(kind, configs.json.loads(node.attr["config"].s.decode())["config"]["table"])
            found.setdefault(table.name, table)
    return found
