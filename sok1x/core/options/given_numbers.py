"""Numbers that users give: Python's and NumPy's. True and False are none."""
import numbers
from typing import Any, Optional


def is_integer(value: Any) -> bool:
    """Whether it is an integer.

    Example:
        >>> import numpy as np
        >>> from sok1x.core.options import given_numbers
        >>> [given_numbers.is_integer(value) for value in (7, np.int64(7), 7.0, True)]
        [True, True, False, False]
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is an integer or of a floating type, finite or not.

    Example:
        >>> import numpy as np
        >>> from sok1x.core.options import given_numbers
        >>> [given_numbers.is_number(value) for value in (7, np.float32(0.5), "7", True)]
        [True, True, False, False]
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def whole(what: str, value: Any, least: int, expected: str) -> int:
    """An argument that must be a whole number; of a floating type, as 1e4, it may be too.

    Args:
        what: whose argument it is, and its name, for messages.
        value: what was given.
        least: the least that it may be.
        expected: what it must be, for messages.

    Returns:
        The value, an integer.

    Raises:
        ValueError: it is something else.

    Example:
        >>> from sok1x.core.options import given_numbers
        >>> given_numbers.whole("SummaryHook: save_steps", 1e4, 1, "a positive integer")
        10000
    """
    if not is_number(value) or not value >= least or value % 1 != 0:
        raise ValueError("{}: got {!r}, expected {}".format(what, value, expected))
    return int(value)


def integer(what: str, value: Any, least: Optional[int] = None, most: Optional[int] = None,
            expected: Optional[str] = None) -> int:
    """An argument that must be an integer.

    Args:
        what: whose argument it is, and its name, for messages.
        value: what was given.
        least: the least that it may be. None: there is none.
        most: the most that it may be, where there is a least. None: there is none.
        expected: what it must be, for messages; None: the limits.

    Returns:
        The value, Python's.

    Raises:
        TypeError: it is no integer.
        ValueError: it is below `least` or above `most`.

    Example:
        >>> from sok1x.core.options import given_numbers
        >>> given_numbers.integer("table 'users': cache_rows", 7, 1, 8)
        7
    """
    if not is_integer(value):
        raise TypeError("{}: got {!r} of type {}, expected {}".format(
            what, value, type(value).__name__, expected or ("a positive integer" if least == 1 else "an integer")))
    if (least is not None and value < least) or (most is not None and value > most):
        raise ValueError("{}: got {}, expected {}".format(what, value, expected or (
            "an integer, {} or more".format(least) if most is None else
            "an integer from {} to {}".format(least, most))))
    return int(value)
