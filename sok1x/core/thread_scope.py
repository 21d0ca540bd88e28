"""What holds inside a `with` block, in the thread that has entered it."""
import contextlib
import threading
from typing import Any, Callable, Iterator, List


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


_followed: List[ThreadScope] = []


def followed() -> ThreadScope:
    """A scope whose value functions of `following` take with them: for a module, which makes it once.

    Returns:
        A new ThreadScope.

    Example:
        >>> from sok1x.core import thread_scope
        >>> saving = thread_scope.followed()
        >>> saving.value is None
        True
    """
    _followed.append(ThreadScope())
    return _followed[-1]


def following(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is to run in another thread, while this one waits for it: there holds what holds here.

    Args:
        function: of any arguments.

    Returns:
        A function that enters what this thread is inside of, and calls it; itself where that is nothing.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from sok1x.core import thread_scope
        >>> saving = thread_scope.followed()
        >>> with saving.entered("rows"), ThreadPoolExecutor() as other:
        ...     [other.submit(asked).result() for asked in (
        ...         lambda: saving.value, thread_scope.following(lambda: saving.value))]
        [None, 'rows']
    """
    held = [(scope, scope.value) for scope in _followed if scope.value is not None]
    if not held:
        return function

    def follow(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for scope, value in held:
                stack.enter_context(scope.entered(value))
            return function(*args, **kwargs)

    return follow
