"""Names put onto TensorFlow's modules and classes, and taken off again."""
import importlib
import sys
from types import ModuleType
from typing import Any, Dict, List, Tuple

_ABSENT = object()


class Patches:
    """What has been replaced, with what was there.

    Example:
        >>> from sok1x.deeprec.patches import Patches
        >>> patches = Patches()
        >>> patches.put(Patches, "word", 1)
        >>> patches.undo()
        >>> hasattr(Patches, "word")
        False
    """

    def __init__(self) -> None:
        self._kept: List[Tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute of a module or class."""
        inner = _inner(owner)
        before = vars(inner).get(name, _ABSENT)
        self._kept.append((owner, name, before))
        # TensorFlow 2's wrappers remember for good what has been read of themselves, not what their module has besides.
        setattr(inner if before is _ABSENT else owner, name, value)

    def put_api(self, place: str, value: Any) -> None:
        """Sets a name, as 'nn.group_embedding_lookup', on `tensorflow` and `tensorflow.compat.v1` alike."""
        *path, name = place.split(".")
        for owner in _roots():
            for step in path:
                owner = getattr(owner, step)
            if not any(kept is owner and word == name for kept, word, _ in self._kept):
                self.put(owner, name, value)

    def put_module(self, name: str, module: ModuleType) -> None:
        """Has `import name` give a module, and the packages above it where these are missing."""
        parts = name.split(".")
        for end in range(2, len(parts)):
            package = ".".join(parts[:end])
            try:
                importlib.import_module(package)
            except ImportError:
                made = ModuleType(package)
                made.__path__ = []
                self._enter(package, made)
        self._enter(name, module)

    def _enter(self, name: str, module: ModuleType) -> None:
        self._kept.append((sys.modules, name, sys.modules.get(name, _ABSENT)))
        sys.modules[name] = module
        above, _, last = name.rpartition(".")
        self.put(sys.modules[above], last, module)

    def undo(self) -> None:
        """Takes everything off again, the last first."""
        while self._kept:
            owner, name, value = self._kept.pop()
            if owner is sys.modules:
                if value is _ABSENT:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = value
            elif value is not _ABSENT:
                setattr(owner, name, value)
            else:
                _remove(owner, name)


def _roots() -> List[Any]:
    from sok1x.graph_ops.bridge import tensorflow_versions
    return tensorflow_versions.tensorflows_modules()


def _inner(owner: Any) -> Any:
    """What has the attributes of one of TensorFlow's modules, which are wrapped to warn of old names."""
    return owner.__dict__.get("_tfmw_wrapped_module", owner)


def _remove(owner: Any, name: str) -> None:
    inner = _inner(owner)
    if name in vars(inner):
        delattr(inner, name)
    if inner is owner:
        return
    wrapper: Dict[str, Any] = owner.__dict__
    wrapper.pop(name, None)
    wrapper.get("_tfmw_attr_map", {}).pop(name, None)  # which 1.15 has
    while name in wrapper.get("__all__", ()):
        wrapper["__all__"].remove(name)
