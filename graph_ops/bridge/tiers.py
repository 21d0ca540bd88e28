"""Host memory that has all rows of a table whose variables are a cache (bridge_tier.h)."""
import ctypes
from typing import Any, Dict, NamedTuple

from sok1x.graph_ops.bridge import op_functions

_I, _P, _I64, _S = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
_DECLARED = (
    ("column_info_bytes", _I, []), ("variable_name", _S, [_P, _I]), ("tier", _P, [_P, _S, _S]),
    ("tier_column", None, [_P, _S, _I64, _P]), ("tier_grow", _I, [_P, _S, _I64, _I64, _I64, _P, _P]),
    ("tier_field", None, [_P, _S, _S, _I64, _I64, _I64]), ("tier_fields", _I, [_P]),
    ("tier_drop", None, [_P, _S]), ("tier_bytes", _I64, [_P, ctypes.POINTER(_I64)]))
_functions: Dict[str, Any] = {}


class _Info(ctypes.Structure):
    """bridge_tier.h's ColumnInfo."""

    _fields_ = [("memory", _P), ("bytes", _I64), ("pinned", _I64), ("offset", _I64), ("stride", _I64)]

    def column(self, pin_error: int = 0) -> "Column":
        return Column(self.memory or 0, self.bytes, self.pinned, self.offset, self.stride, pin_error)


def _call(request: Any, name: str, *arguments: Any) -> Any:
    if not _functions:
        _functions.update(op_functions.declare(request.library.loaded, *_DECLARED))
        assert _functions["column_info_bytes"]() == ctypes.sizeof(_Info), "bridge_tier.h is of another version"
    return _functions[name](*arguments)


class Column(NamedTuple):
    """Memory of a column, or of a field in records.

    Attributes:
      memory: where the column begins, an int; 0 of one that has none.
      bytes: that there are; 0 of a field that has no values yet. pinned: of them, from the first on.
      offset: bytes of a record before the field. stride: bytes of a record; 0 where it is a column of its own.
      pin_error: CUDA's, where pinning has ever failed; else 0.
    """

    memory: int
    bytes: int
    pinned: int
    offset: int
    stride: int
    pin_error: int


def variable_name(request: Any, index: int) -> str:
    """The name of the op's variable `index` in its container."""
    return str(_call(request, "variable_name", request.handle, index).decode())


class Tier:
    """A table's, for the time of a request; made where there is none.

    Args:
      request: on the device of the table's variables.
      container: of these variables, '' for TensorFlow's default. name: of the tier there.
    """

    def __init__(self, request: Any, container: str, name: str) -> None:
        self._request = request
        self._tier = _call(request, "tier", request.handle, container.encode(), name.encode())
        assert self._tier, "another resource has the name '{}'".format(name)

    def column(self, name: str, row_bytes: int) -> Column:
        """A column or a field, by the name of its variable; row_bytes: of that, now."""
        info = _Info()
        _call(self._request, "tier_column", self._tier, name.encode(), row_bytes, ctypes.byref(info))
        return info.column()

    def field(self, name: str, column: str, offset: int, row_bytes: int, stride: int) -> None:
        """Gives a variable row_bytes bytes, from `offset` on, of each record of `stride` bytes that a column has."""
        _call(self._request, "tier_field", self._tier, name.encode(), column.encode(), offset, row_bytes, stride)

    def fields(self) -> int:
        """How many fields have values."""
        return int(_call(self._request, "tier_fields", self._tier))

    def grow(self, name: str, nbytes: int, most: int, pin: int) -> Column:
        """A column with at least so many bytes, of which new ones are zero; of a field, the column of its records.

        Args:
          nbytes: at least. most: that it may ever have. pin: bytes that may be pinned besides those that are.

        Raises:
          OSError: the system gives no memory, or no addresses; the column is as it was.
        """
        info, pin_error = _Info(), ctypes.c_int()
        error = _call(self._request, "tier_grow", self._tier, name.encode(), nbytes, most, pin, ctypes.byref(info),
                      ctypes.byref(pin_error))
        if error:
            raise OSError(error, "no memory for a column of {} bytes".format(nbytes))
        return info.column(pin_error.value)

    def drop(self, name: str) -> None:
        """Releases a column's memory; a field's stays, without values."""
        _call(self._request, "tier_drop", self._tier, name.encode())

    def bytes(self) -> int:
        """Of all columns."""
        return int(_call(self._request, "tier_bytes", self._tier, ctypes.byref(_I64())))

    def pinned(self) -> int:
        """Bytes that are pinned."""
        pinned = _I64()
        _call(self._request, "tier_bytes", self._tier, ctypes.byref(pinned))
        return pinned.value
