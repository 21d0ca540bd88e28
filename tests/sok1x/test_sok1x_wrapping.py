"""What sok1x puts around TensorFlow's functions is put on once, whoever is around it, and says what it is."""
import functools
import inspect

from sok1x.core.frameworks import wrapping


class Theirs:
    def add(self, number):
        """As they have it."""
        return number + 1

    @staticmethod
    def twice(number):
        return 2 * number


def _counting(stock):
    def counted(self, *args):
        self.calls = getattr(self, "calls", 0) + 1
        return stock(self, *args)
    return counted


def _negative(stock):
    return lambda *args: -stock(*args)


def test_each_wrapper_is_put_on_once_also_below_another():
    kind = type("Kind", (Theirs,), {})
    before = kind.add
    for _ in range(3):
        wrapping.wrap(kind, "add", _counting)
        wrapping.wrap(kind, "add", _negative)
    one = kind()
    assert (one.add(1), one.calls) == (-2, 1)
    assert wrapping.stock_of(kind.add) is before


def test_it_is_put_on_once_also_below_what_others_wrap():
    kind = type("Kind", (Theirs,), {})
    wrapping.wrap(kind, "add", _counting)
    ours = kind.add
    kind.add = functools.wraps(ours)(lambda self, number: 10 * ours(self, number))
    wrapping.wrap(kind, "add", _counting)
    one = kind()
    assert (one.add(1), one.calls) == (20, 1)


def test_it_says_what_it_is_around_and_stays_a_static_method():
    kind = type("Kind", (Theirs,), {"twice": staticmethod(Theirs.twice)})
    wrapping.wrap(kind, "add", _counting)
    wrapping.wrap(kind, "twice", _negative)
    assert kind.add.__doc__ == "As they have it." and list(inspect.signature(kind.add).parameters) == ["self", "number"]
    assert kind.twice(3) == kind().twice(3) == -6
