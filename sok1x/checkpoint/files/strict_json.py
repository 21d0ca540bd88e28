"""JSON as our files use it: one object of strings, integers, booleans, null, lists and objects; nothing else passes.

A file may come from anywhere. So its length is bounded before it is parsed, and numbers with fractions, NaN, integers
beyond 64 bits, names given twice, deep nesting and text that cannot be printed are errors.
"""
import json
from typing import Any, Dict, List, Tuple


class NotStrict(ValueError):
    """The text is not JSON of this kind; the message says why, and not where it came from."""


def loads(text: bytes) -> Dict[str, Any]:
    """The object that `text` holds. Raises NotStrict."""
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_object, parse_float=_no_float,
                           parse_constant=_no_float, parse_int=_integer)
        _check_text(value)
    except NotStrict:
        raise
    except RecursionError:
        raise NotStrict("JSON that is nested too deeply") from None
    except ValueError as error:
        raise NotStrict("not JSON ({})".format(error)) from None
    if not isinstance(value, dict):
        raise NotStrict("not a JSON object")
    return value


def dumps(value: Dict[str, Any]) -> bytes:
    """The text of an object, the same for equal objects."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise NotStrict("JSON with {!a} twice in one object".format(name[:64]))
        found[name] = value
    return found


def _no_float(text: str) -> Any:
    raise NotStrict("JSON with the number {}, where only integers may be".format(text[:32]))


def _integer(text: str) -> int:
    # Decimal conversion takes quadratic time, so the length is looked at first.
    if len(text) > 20 or not -2 ** 63 <= int(text) < 2 ** 64:
        raise NotStrict("JSON with an integer of more than 64 bits")
    return int(text)


def _check_text(value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_text(name)
            _check_text(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_text(inner)
    elif isinstance(value, str) and not value.isprintable():
        raise NotStrict("JSON with text that cannot be printed: {!a}".format(value[:64]))
