"""Functions and methods of TensorFlow, Keras and Horovod that are ours from some time on, around what was there.

`watch` functions put them on: one for each thing that must be known of tables. They are called often, as with every
table; each wrapper is put on once.
"""
import functools
from typing import Any, Callable

from sok1x.graph_ops.bridge.tensorflow_versions import V2

_AROUND = "_sok1x_around"  # the attribute of a wrapper which has the function that has made it
# By its module AutoGraph knows what it must not rewrite: TensorFlow 1.15's own, and from 2.x on ours too.
_TAKEN_OVER = ("__name__", "__qualname__", "__doc__") + (() if V2 else ("__module__",))


def wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Has what an owner has under a name be ours. Nothing is done where `around` has made it so already.

    Args:
        owner: a module or a class.
        name: of its function or method.
        around: given the function that is there, gives what is to be there; the same object at every call. The new one
            gets the old one's name, signature and documentation.

    Example:
        >>> import types
        >>> from sok1x.core.frameworks import wrapping
        >>> def doubled(stock):
        ...     return lambda number: 2 * stock(number)
        >>> module = types.SimpleNamespace(next=lambda number: number + 1)
        >>> wrapping.wrap(module, "next", doubled)
        >>> wrapping.wrap(module, "next", doubled)  # a second time: nothing
        >>> module.next(2)
        6
    """
    stock = getattr(owner, name)
    if _is_wrapped(stock, around):
        return
    made: Any = functools.update_wrapper(around(stock), stock, _TAKEN_OVER)
    setattr(made, _AROUND, around)
    setattr(owner, name, staticmethod(made) if isinstance(vars(owner).get(name), staticmethod) else made)


def call_before(owner: Any, name: str, first: Callable[[], None]) -> None:
    """Has a function be called before what an owner has under a name, whenever that is.

    So what may be imported later can be wrapped before it is used.

    Args:
        owner, name: as for `wrap`.
        first: the same object at every call.

    Example:
        >>> import types
        >>> from sok1x.core.frameworks import wrapping
        >>> seen = []
        >>> def note():
        ...     seen.append("called")
        >>> module = types.SimpleNamespace(next=lambda number: number + 1)
        >>> wrapping.call_before(module, "next", note)
        >>> module.next(2), seen
        (3, ['called'])
    """
    wrap(owner, name, _calling(first))


@functools.lru_cache(maxsize=None)
def _calling(first: Callable[[], None]) -> Callable[[Any], Any]:
    def around(stock: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            first()
            return stock(*args, **kwargs)

        return called

    return around


def stock_of(function: Any) -> Any:
    """The function that was there before any of ours was put around it; one of no wrapper's is given back.

    Example:
        >>> from sok1x.core.frameworks import wrapping
        >>> wrapping.stock_of(len) is len
        True
    """
    while hasattr(function, _AROUND):
        function = function.__wrapped__
    return function


def _is_wrapped(function: Any, around: Callable[[Any], Any]) -> bool:
    """Whether a function is what `around` has made, or is around that, by others' functools.wraps too."""
    while function is not None and getattr(function, _AROUND, None) is not around:
        function = getattr(function, "__wrapped__", None)
    return function is not None
