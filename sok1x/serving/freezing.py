"""Graphs that users freeze, refused where a table would become a constant that no lookup can read."""
import inspect
from typing import Any, Callable, Dict, Set

from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import FREEZING, freezing_modules
from sok1x.serving.subgraphs import OUR_OPS

_PASSING = ("Switch", "RefSwitch", "Enter", "RefEnter", "Identity", "RefIdentity")


def watch() -> None:
    """From now on `tf.graph_util.convert_variables_to_constants` refuses tables; so do `freeze_graph` and TensorFlow
    Lite's converter of sessions, which call it.

    Example:
        >>> from sok1x.serving import freezing
        >>> freezing.watch()
    """
    for module in freezing_modules():
        if hasattr(module, FREEZING):
            wrapping.wrap(module, FREEZING, _checked)


def _checked(stock: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    def convert_variables_to_constants(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        _check(*given.args)
        return stock(*args, **kwargs)

    return convert_variables_to_constants


def _check(_: Any, graph_def: Any, outputs: Any, converted: Any = None, left: Any = None, *__: Any) -> None:
    """Raises ValueError where an op of ours, which the outputs need, would lose a variable."""
    nodes = {node.name: node for node in graph_def.node}
    if not any(node.op in OUR_OPS for node in graph_def.node):
        return
    waiting, seen = [_name(each) for each in outputs], {""}
    while waiting:
        name = waiting.pop()
        if name in seen or name not in nodes:
            continue
        seen.add(name)
        node = nodes[name]
        inputs = [_name(each) for each in node.input]
        waiting += inputs
        if node.op not in OUR_OPS:
            continue
        sources = {_source(nodes, each) for each in inputs if each in nodes}
        lost = _lost({each for each in sources if nodes[each].op == "VarHandleOp"}, converted, left)
        if lost:
            raise ValueError(
                "tf.graph_util.convert_variables_to_constants: got op '{}' of sok1x, which reads '{}': a table is no "
                "constant, and a graph in which it is one could not be loaded. Expected outputs without lookups, or "
                "variable_names_blacklist with what belongs to the table; sok1x.serving.export_saved_model writes a "
                "model of stock ops from a checkpoint: see docs/serving.md".format(name, min(lost)))


def _source(nodes: Dict[str, Any], name: str) -> str:
    """The node whose output a node is or passes on, as handles are into the branches and loops of a graph."""
    while nodes[name].op in _PASSING and _name(nodes[name].input[0]) in nodes:
        name = _name(nodes[name].input[0])
    return name


def _lost(handles: Set[str], converted: Any, left: Any) -> Set[str]:
    """Which variables become constants."""
    return {each for each in handles if (converted is None or each in converted) and (
        left is None or each not in left)}


def _name(text: str) -> str:
    return text.lstrip("^").split(":")[0]
