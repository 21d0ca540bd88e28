"""The operations that our ops can run, by name."""
import importlib
from typing import Any, Dict, Type

from sok1x.graph_ops.bridge.configs import NoConfig

_operations: Dict[str, Any] = {}
_numbers: Dict[str, int] = {}


class Operation:
    """One operation: how it runs on the executor's thread, and its gradient in the graph.

    An operation that communicates runs in two parts. `prepare` does what needs no other rank and returns the header:
    a small int64 vector that every rank will see. `run` follows when all ranks have prepared; it gets all headers.
    """

    name = ""
    kind = "Call"  # of its ops' type: op_types.py
    Config: Type[Any] = NoConfig  # a NamedTuple, of what the operation is told when its op is built
    communicates = False  # whether all ranks must run it together
    before_init = False  # whether it may run before sok1x.Init
    group: Any = None  # how several requests of it run at once: a groups.form.GroupForm

    def describe(self, config):
        """One line for the plan of collectives: what must be equal on all ranks, as the config's `label` says."""
        return "{} {}".format(self.name, getattr(config, "label", ""))

    def tie(self, request):
        """The number of the earlier exchange whose results this run continues (ties.py), 0 where it continues none."""
        return 0

    def prepare(self, request, config, world):
        """The header: int64 [h], h equal on all ranks."""
        raise NotImplementedError

    def run(self, request, config, world, headers):
        """Fills the request's outputs. headers: int64 [N, h], or None for an operation that does not communicate."""
        raise NotImplementedError

    def waits_of(self, config):
        """What is to be told how long it has waited for other ranks, a function of seconds; None: nobody asks."""
        return None

    def gradient(self, op, config, grads):
        """Gradients for the op's inputs; by default none has one."""
        return [None] * len(op.inputs)


def register(operation):
    """Class decorator: makes `operation` known under its name."""
    _operations[operation.name] = operation()
    return operation


def number(operation):
    """A number that tells an operation from all others."""
    return _numbers.setdefault(operation.name, len(_numbers))


def get(name):
    """The operation called `name`: ROOM.MODULE.OP, of which the module is imported when first asked for."""
    if name not in _operations:
        importlib.import_module("sok1x.graph_ops." + name.rpartition(".")[0])
    return _operations[name]
