"""What holds inside a `with` block, in the thread that has entered it."""
import contextlib
import threading
from typing import Any, Iterator


class ThreadScope(threading.local):
    """A value of each thread's own, from the beginning to the end of a block.

    Attributes:
        value: that of the innermost block that this thread is inside of; None outside of all.

    Example:
        >>> from sok1x.core.thread_scope import ThreadScope
        >>> saving = ThreadScope()
        >>> with saving.entered("rows"):
        ...     saving.value
        'rows'
        >>> saving.value is None
        True
    """

    value: Any = None

    @contextlib.contextmanager
    def entered(self, value: Any = True) -> Iterator[None]:
        """Inside, `value` is this one."""
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before
