"""Scripts that import `sparse_operation_kit`, unchanged."""
import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

ALIAS = "sparse_operation_kit"
_OWN = "sok1x"


def install_as_sparse_operation_kit() -> None:
    """Has `import sparse_operation_kit` give sok1x, in this process.

    Every dotted path that sok1x covers (`sparse_operation_kit.core.initialize`,
    `sparse_operation_kit.embeddings.distributed_embedding`, …) is then the very module of the same path in sok1x. To
    call it twice is fine. It comes before the script's own import.

    Raises:
        ImportError: SparseOperationKit itself has been imported already.

    Example:
        >>> import sok1x
        >>> sok1x.install_as_sparse_operation_kit()
        >>> import sparse_operation_kit as sok
        >>> from sparse_operation_kit.core.initialize import Init
        >>> sok.Init is Init is sok1x.Init
        True
    """
    own = importlib.import_module(_OWN)
    present = sys.modules.get(ALIAS)
    if present is not None and present is not own:
        raise ImportError(
            "sok1x.install_as_sparse_operation_kit(): got a process in which '{}' has already been imported from {}, "
            "expected to come first; call it before that import".format(
                ALIAS, getattr(present, "__file__", "an unknown place")))
    sys.modules[ALIAS] = own
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `sparse_operation_kit.X` as `sok1x.X`.

    Without it Python would find the same files under the other name, and load them a second time.
    """

    def find_spec(self, fullname: str, path: Optional[Sequence[Any]],
                  target: Optional[ModuleType] = None) -> Optional[importlib.machinery.ModuleSpec]:
        if not fullname.startswith(ALIAS + "."):
            return None
        own_name = _OWN + fullname[len(ALIAS):]
        try:
            own = importlib.import_module(own_name)
        except ModuleNotFoundError as error:
            if error.name != own_name:  # the module is there, and something that it needs is not
                raise
            raise ModuleNotFoundError("No module named {!r}: sok1x has no {}".format(fullname, own_name),
                                      name=fullname) from None
        return importlib.machinery.ModuleSpec(fullname, _Loader(own), is_package=hasattr(own, "__path__"))


class _Loader(importlib.abc.Loader):
    """Gives a module that is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just put the alias' in its place
