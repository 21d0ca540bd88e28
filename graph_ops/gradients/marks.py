"""What is noted of a tensor as an attribute is; an eager one keeps its attributes' memory when it goes.

So of eager tensors notes lie here, for as long as these are there.
"""
import weakref
from typing import Any, Dict, Tuple

_noted: Dict[int, Tuple[Any, Dict[str, Any]]] = {}  # id of an eager tensor -> (a weak reference to it, {name: value})


def note(tensor: Any, name: str, value: Any) -> None:
    """Notes a value under a name."""
    if hasattr(tensor, "graph"):
        setattr(tensor, name, value)
        return
    key, known = id(tensor), _noted.get(id(tensor))
    if known is None or known[0]() is not tensor:
        known = _noted[key] = weakref.ref(tensor, lambda gone: _forget(key, gone)), {}
    known[1][name] = value


def noted(tensor: Any, name: str, default: Any = None) -> Any:
    """What `note` was told last; else the default."""
    known = _noted.get(id(tensor))
    if known is not None and known[0]() is tensor:
        return known[1].get(name, default)
    return getattr(tensor, name, default)


def _forget(key: int, gone: Any) -> None:
    known = _noted.get(key)
    if known is not None and known[0] is gone:
        del _noted[key]
