"""An operation's config: a NamedTuple in Python, JSON in the graph.

Encoded once, when the op is built, and decoded once for each kernel. A NamedTuple stays one, at any depth; other fields
are what JSON has, and tuples of that.
"""
import functools
import json
from typing import Any, Dict, NamedTuple, Optional, Tuple, Type, Union, get_type_hints


class NoConfig(NamedTuple):
    """The config of an operation that needs none."""


class Place(NamedTuple):
    """Where an op stands: what `library.call` writes beside every config.

    Attributes:
      plan: number of its graph's plan in the process that built it (plan.py). process: that process, `plan.PROCESS`.
      op: for an op that communicates, its number in the plan and its digest; else None. described: what the plan says
        of it. loops: tf.while_loops around it. label: the op's name, where it has none because it runs at once.
    """

    plan: int
    process: str
    op: Optional[Tuple[int, int]] = None
    described: str = ""
    loops: int = 0
    label: str = ""


def encode(config: Any, place: Place) -> str:
    """The attribute of an op with this config."""
    return json.dumps({"config": _plain(config), "place": _plain(place)}, sort_keys=True)


def decode(kind: Type[Any], text: str) -> Tuple[Any, Place]:
    """(config, a `kind`; place) from an op's attribute."""
    written = json.loads(text)
    return _made(kind, written["config"]), _made(Place, written["place"])


def of_op(kind: Type[Any], op: Any) -> Any:
    """The config of a tf.Operation of ours."""
    return decode(kind, op.get_attr("config").decode())[0]


def place_of(op: Any) -> Place:
    """The place of a tf.Operation of ours."""
    return _made(Place, json.loads(op.get_attr("config").decode())["place"])


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _plain(field) for name, field in value._asdict().items()}
    return value


@functools.lru_cache(None)
def _hints(kind: Type[Any]) -> Dict[str, Any]:
    return get_type_hints(kind) if kind._fields else {}


def _made(kind: Any, value: Any) -> Any:
    if value is not None and getattr(kind, "__origin__", None) is Union:
        kind = kind.__args__[0]  # of an Optional
    if hasattr(kind, "_fields"):
        hints = _hints(kind)
        return kind(**{name: _made(hints[name], field) for name, field in value.items()})
    return tuple(value) if isinstance(value, list) else value
