"""What has no copies: `copy` and pickle are told what to do instead."""
from typing import Any


class NoCopies:
    """A class whose objects are not copied, by `copy.copy`, `copy.deepcopy` or pickle, as objects that have one are."""

    def _no_copy(self, caller: str) -> TypeError:
        """The error that says what to do instead. caller: what was asked for a copy."""
        raise NotImplementedError

    def __copy__(self) -> Any:
        raise self._no_copy("copy.copy")

    def __deepcopy__(self, memo: Any) -> Any:
        raise self._no_copy("copy.deepcopy")

    def __reduce__(self) -> Any:
        raise self._no_copy("pickle")
