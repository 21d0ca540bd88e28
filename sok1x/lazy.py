"""Names of a package that are imported when they are first used, so that importing the package costs nothing."""
import importlib
from typing import Any, Callable, Dict, List, Sequence, Tuple, Union


def exports(namespace: Dict[str, Any], defined_in: Dict[str, str],
            modules: Union[Sequence[str], Dict[str, str]] = ()) -> Tuple[Callable[[str], Any], Callable[[], List[str]]]:
    """What a package takes as its `__getattr__` and `__dir__`.

    Args:
        namespace: the package's globals(), with `__all__`.
        defined_in: name -> the module below the package that defines it.
        modules: modules below the package that are names of it themselves; a dict where they have other names there.

    Returns:
        (__getattr__, __dir__).
    """
    package = namespace["__name__"]

    def get(name: str) -> Any:
        if name in defined_in:
            value = getattr(importlib.import_module("{}.{}".format(package, defined_in[name])), name)
        elif name in modules:
            value = importlib.import_module("{}.{}".format(
                package, modules[name] if isinstance(modules, dict) else name))
        else:
            raise AttributeError("module '{}' has no attribute '{}'; it has {}".format(
                package, name, ", ".join(namespace["__all__"])))
        namespace[name] = value
        return value

    def names() -> List[str]:
        return sorted(set(namespace) | set(namespace["__all__"]) | set(modules))

    return get, names
