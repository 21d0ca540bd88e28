"""Operations that only the bridge's tests use. Imported by the tests and by the programs they start."""
import threading
import time
from typing import NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library, pins
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.errors import CallError
from sok1x.graph_ops.bridge.registry import Operation, register


@register
class _Pointer(Operation):
    """Its input again, the same buffer, and that buffer's address."""

    name = "test.pointer"
    before_init = True

    def run(self, request, config, world, headers):
        request.forward(0, 0)
        request.host_output(0, "int64", ()).numpy()[...] = request.inputs[0].pointer


@register
class _Describe(Operation):
    """Shape, size and sum of its input; a temporary on the way."""

    name = "test.describe"
    before_init = True

    def run(self, request, config, world, headers):
        array = request.inputs[0]
        scratch = request.temporary("float64", array.size)
        scratch.write(array.read().ravel())
        request.host_output(0, "int64", (len(array.shape),)).numpy()[:] = array.shape
        request.host_output(1, "float64", ()).numpy()[...] = scratch.read().sum()


@register
class _OutputAgain(Operation):
    """Asks for its output several times, the last time in another shape."""

    name = "test.output_again"
    before_init = True

    def run(self, request, config, world, headers):
        outputs = [request.output(0, "float32", (3,)) for _ in range(2)]
        assert outputs[0].pointer == outputs[1].pointer != 0
        request.output(0, "float32", (2,))


class SizesConfig(NamedTuple):
    sizes: Tuple[int, ...]


class FailConfig(NamedTuple):
    code: int
    message: str
    kind: Optional[str]


class SleepConfig(NamedTuple):
    seconds: float


@register
class _Temporaries(Operation):
    """Where temporaries of the given sizes lie; each is filled with its number and looked at afterwards."""

    name = "test.temporaries"
    Config = SizesConfig
    before_init = True

    def run(self, request, config, world, headers):
        arrays = [request.temporary("uint8", size) for size in config.sizes]
        for number, array in enumerate(arrays):
            array.write(np.full(array.size, number + 1))
        for number, array in enumerate(arrays):
            assert (array.read() == number + 1).all(), "temporaries overlap"
        request.host_output(0, "int64", (len(arrays),)).numpy()[:] = [array.pointer for array in arrays]


@register
class _Fail(Operation):
    """Fails as its config says."""

    name = "test.fail"
    Config = FailConfig
    before_init = True

    def run(self, request, config, world, headers):
        if config.code:
            raise CallError(config.code, config.message)
        raise {"MemoryError": MemoryError, "KeyError": KeyError}[config.kind](config.message)


@register
class _Add(Operation):
    """Adds its input to the variable in place."""

    name = "test.add"
    before_init = True

    def run(self, request, config, world, headers):
        with request.variables("test", exclusive=True) as variables:
            variables[0].write(variables[0].read() + request.inputs[0].read())
        request.host_output(0, "int32", ()).numpy()[...] = 1


@register
class _Sleep(Operation):
    """Takes a while."""

    name = "test.sleep"
    Config = SleepConfig
    before_init = True

    def run(self, request, config, world, headers):
        time.sleep(config.seconds)
        request.host_output(0, "int32", ()).numpy()[...] = 1


class Gate:
    """Where an operation waits: `reached` is set once it runs, and it ends when `opened` is."""

    gates = []

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()
        self.gates.append(self)


class GateConfig(NamedTuple):
    """number: of the `Gate`."""

    number: int


@register
class _Wait(Operation):
    """Takes as long as the test wants it to."""

    name = "test.wait"
    Config = GateConfig
    before_init = True

    def run(self, request, config, world, headers):
        gate = Gate.gates[config.number]
        gate.reached.set()
        assert gate.opened.wait(60), "nobody has opened the gate"
        request.host_output(0, "int32", ()).numpy()[...] = 1


@register
class _Look(Operation):
    """A lookup of its variable, as a table that forgets counts it; then its input again. It fails where that is 0."""

    name = "test.look"
    before_init = True

    def run(self, request, config, world, headers):
        pins.look(request, "test", 0)
        if not request.host_inputs[0].numpy():
            raise CallError(9, "the input is 0")
        request.host_output(0, "int32", ()).numpy()[...] = request.host_inputs[0].numpy()


@register
class _Pinned(Operation):
    """[lookups since that of the oldest step in flight, steps in flight] of its variable; -1 for none."""

    name = "test.pinned"
    before_init = True

    def run(self, request, config, world, headers):
        pinned = pins.of(request, 0)
        request.host_output(0, "int64", (2,)).numpy()[:] = (-1, 0) if pinned is None else pinned


def pointer(tensor):
    return library.call("test.pointer", NoConfig(), [tensor], [tensor.dtype], [tensor.shape], host_dtypes=[tf.int64],
                        host_shapes=[[]])


def output_again():
    return library.call("test.output_again", NoConfig(), [], [tf.float32], [[None]])[0]


def describe(tensor):
    return library.call("test.describe", NoConfig(), [tensor], [], [], host_dtypes=[tf.int64, tf.float64],
                        host_shapes=[[None], []])


def _number(function, config, inputs=(), resources=()):
    return library.call(function, config, inputs, [], [], resources=resources, host_dtypes=[tf.int32],
                        host_shapes=[[]])[0]


def temporaries(sizes):
    return library.call("test.temporaries", SizesConfig(sizes), [], [], [], host_dtypes=[tf.int64],
                        host_shapes=[[None]])[0]


def fail(code=0, message="", kind=None):
    return _number("test.fail", FailConfig(code, message, kind))


def add(variable, value):
    return _number("test.add", NoConfig(), [tf.convert_to_tensor(np.float32(value))], [variable.handle])


def sleep(seconds):
    return _number("test.sleep", SleepConfig(seconds))


def wait(gate):
    return _number("test.wait", GateConfig(Gate.gates.index(gate)))


def look(variable, value=1):
    return library.call("test.look", NoConfig(), [], [], [], resources=[variable.handle],
                        host_inputs=[tf.convert_to_tensor(value, tf.int32)], host_dtypes=[tf.int32],
                        host_shapes=[[]])[0]


def pinned(variable):
    return library.call("test.pinned", NoConfig(), [], [], [], resources=[variable.handle], host_dtypes=[tf.int64],
                        host_shapes=[[2]])[0]
