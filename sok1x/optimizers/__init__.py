"""SOK's own optimizer, and what optimizers need to know about embedding variables, under SOK's dotted names."""
import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from sok1x.optimizers.adam import Adam

# Name -> the module that defines it. TensorFlow is loaded when one of them is first used.
_DEFINED_IN = {"Adam": "adam"}

__all__ = ["Adam"]


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError("module '{}' has no attribute '{}'; it has {}".format(
            __name__, name, ", ".join(__all__)))
    value = getattr(importlib.import_module("{}.{}".format(__name__, _DEFINED_IN[name])), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
