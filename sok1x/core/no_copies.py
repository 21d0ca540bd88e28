"""What has no copies: `copy.deepcopy` and pickle are told what to do instead."""
from typing import Any


class NoCopies:
    """A class whose objects are not copied, by `copy.deepcopy` or pickle, nor are objects that have one."""

    def _no_copy(self, caller: str) -> TypeError:
        """The error that says what to do instead. caller: what was asked for a copy."""
        raise NotImplementedError

    def __deepcopy__(self, memo: Any) -> Any:
        raise self._no_copy("copy.deepcopy")

    def __reduce__(self) -> Any:
        raise self._no_copy("pickle")
