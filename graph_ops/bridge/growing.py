"""A request's variables with larger buffers, and more variables than its op has (bridge_grow.cc).

Inside `Request.variables(exclusive=True)`: `Reached` adds variables by their names, and locks them too. Where nobody
has one of them at the time, the request's own stay locked; else it unlocks, and locks all of them in TensorFlow's
order, and others may have had the request's own between. When it ends the request has its own again.
"""
import ctypes
from typing import Any, Dict, Sequence, Tuple

from sok1x.graph_ops.bridge import bridge, op_functions
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, CallError

_I, _P, _I64 = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
_DECLARED = (
    ("reach", _I, [_P, ctypes.c_char_p, ctypes.c_char_p]), ("keep_variables", None, [_P, _I]),
    ("reach_at_once", _I, [_P, ctypes.c_char_p, ctypes.c_char_p]), ("let_go", None, [_P, _I]),
    ("describe", None, [_P, _P]),
    ("note_named", _I, [_P, _I, ctypes.c_char_p]),
    ("variable_count", _I, [_P]), ("larger", _I, [_P, _I, _I64, _I, _P, _P]), ("take_larger", None, [_P, _I]),
    ("cut", None, [_P, _I, _I64, _P]), ("output_to_grow", _I, [_P, _I, _I, _P, _P]), ("rows", _I64, [_P, _I]),
    ("bytes_left", _I64, [_P]))
_functions: Dict[str, Any] = {}

_WOULD_WAIT = -2  # bridge_grow.cc

EAGER = "sok1x:eager"  # the container of eager variables, which lie in none of TensorFlow's: bridge_named.h


def _call(request: Any, name: str, *arguments: Any) -> Any:
    if not _functions:
        _functions.update(op_functions.declare(request.library.loaded, *_DECLARED))
    return _functions[name](request.handle, *arguments)


def rows(request: Any, index: int) -> int:
    """Rows of the op's variable `index`, which need not be locked; -1 where it has not been initialized."""
    return int(_call(request, "rows", index))


def rows_by_name(request: Any, container: str, name: str) -> int:
    """As `rows`, of a variable by its name; while nothing is locked."""
    index = _call(request, "reach", container.encode(), name.encode())
    found = -1 if index < 0 else rows(request, index)
    _call(request, "keep_variables", request.resource_count)
    return found


def output(request: Any, dtype: str, shape: Sequence[int]) -> Any:
    """Output 0 of a request, the value of a variable that may grow (bridge_reserved.h): an `Array`."""
    data, dims = ctypes.c_void_p(), (_I64 * len(shape))(*shape)
    code = _call(request, "output_to_grow", 0, len(shape), dims, ctypes.byref(data))
    return request.made(code, data.value, dtype, shape)


def note_named(request: Any, index: int, name: str) -> None:
    """Has the op's variable `index`, an eager one, be found in `EAGER` by a name for as long as it lives."""
    code = _call(request, "note_named", index, name.encode())
    if code:
        raise CallError(code, "eager variable '{}' cannot be noted".format(name))


def bytes_left(request: Any) -> int:
    """Bytes that TensorFlow's allocator may still give on the request's device; -1 where it does not say."""
    return int(_call(request, "bytes_left"))


class Reached:
    """All variables of a request and more, locked for writing; see the module's text.

    Args:
      request: with its variables locked exclusively.
      table: a name, for messages.
      names: {what: (container, shared name)} of the variables that are wanted besides.

    Attributes:
      arrays: {what: `Array`}, of those that exist and have a value. They are kept up to date.
      clean: of what `larger` has given last, the byte from which on it is zero; all bytes where that is not known.
      unlocked: whether others may have had the request's own variables since: until it ends, and when it has ended.
    """

    def __init__(self, request: Any, table: str, names: Dict[Any, Tuple[str, str]]) -> None:
        self._request, self._table, self.clean = request, table, 0
        found = self._reach("reach_at_once", names)
        self.unlocked = _WOULD_WAIT in found.values()
        if self.unlocked:
            request.library.unlock(request.handle)
            _call(request, "keep_variables", request.resource_count)
            found = self._reach("reach", names)
        self._index = {what: index for what, index in found.items() if index >= 0}
        infos = self._infos = self._lock() if self.unlocked else self._described()
        self.arrays = {what: bridge.array(infos[index], request.gpu) for what, index in self._index.items()}

    def _reach(self, how: str, names: Dict[Any, Tuple[str, str]]) -> Dict[Any, int]:
        found: Dict[Any, int] = {}
        for what, (container, name) in names.items():
            found[what] = _call(self._request, how, container.encode(), name.encode())
            if found[what] == _WOULD_WAIT:
                break
        return found

    def _described(self) -> Any:
        infos = (bridge.TensorInfo * max(1, _call(self._request, "variable_count")))()
        _call(self._request, "describe", infos)
        return infos

    def _lock(self) -> Any:
        request = self._request
        infos = (bridge.TensorInfo * max(1, _call(request, "variable_count")))()
        code = request.library.lock(request.handle, 1, infos)
        if code:
            raise CallError(code if code > 0 else FAILED_PRECONDITION, (
                "could not get write access to the variables of embedding table '{}'").format(self._table))
        return infos

    def is_own(self, what: Any) -> bool:
        """Whether what has been found by its name is one of the request's own variables."""
        return what in self._index and bool(self._index[what] < self._request.resource_count)

    def own(self) -> Any:
        """The request's own variables, as they have been locked: a list of `Array`s."""
        return [bridge.array(self._infos[i], self._request.gpu) for i in range(self._request.resource_count)]

    def larger(self, what: Any, count: int, in_place: bool = True) -> Any:
        """An `Array` of `count` rows that the next `take` makes the variable's; it is to be filled.

        Args:
          in_place: whether it may be where the variable is, with the rows that are there: then it must be taken.
            `clean` says from which byte on it is zero.

        Raises:
          CallError: there is no memory for it.
        """
        info, clean = bridge.TensorInfo(), ctypes.c_int64()
        code = _call(self._request, "larger", self._index[what], count, in_place, ctypes.byref(info),
                     ctypes.byref(clean))
        if code:
            raise CallError(code, "no memory")
        self.clean = clean.value
        return bridge.array(info, self._request.gpu)

    def take(self, what: Any, array: Any) -> None:
        """Makes what `larger` has given the variable's own."""
        _call(self._request, "take_larger", self._index[what])
        self.arrays[what] = array

    def cut(self, what: Any, count: int) -> None:
        """Leaves a variable its first `count` rows, in place."""
        info = bridge.TensorInfo()
        _call(self._request, "cut", self._index[what], count, ctypes.byref(info))
        self.arrays[what] = bridge.array(info, self._request.gpu)

    def end(self) -> Any:
        """The request's own variables, locked again: a list of `Array`s."""
        request = self._request
        if self.unlocked:
            request.library.unlock(request.handle)
            _call(request, "keep_variables", request.resource_count)
            infos = self._lock()
        else:
            _call(request, "let_go", request.resource_count)
            infos = self._described()
        return [bridge.array(infos[i], request.gpu) for i in range(request.resource_count)]
