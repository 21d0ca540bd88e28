"""Requests that a test serves itself, as the executor would serve a group of them.

The executor's thread runs an operation, `test.conduct`, that takes the requests of `test.member` out of the queue and
calls the test's function with them.
"""
import threading
import time
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import bridge, bulk, executor, library, op_functions
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, register

_LATE = 60  # seconds
_services = []


class ConductConfig(NamedTuple):
    """service: number of the `Service`."""

    service: int


@register
class _Conduct(Operation):
    """Serves the members that come while it runs."""

    name = "test.conduct"
    Config = ConductConfig
    before_init = True

    def run(self, request, config, world, headers):
        _services[config.service].conduct(world)
        request.host_output(0, "int32", ()).numpy()[...] = 1


@register
class _Member(Operation):
    """Is never run: a test serves it."""

    name = "test.member"
    before_init = True


def member(number, inputs=(), dtypes=(), variables=(), host_inputs=(), host_dtypes=(), name="member"):
    """A `test.member`, called NAME_NUMBER."""
    return library.call("test.member", NoConfig(), list(inputs), list(dtypes), [None] * len(dtypes),
                        resources=[variable.handle for variable in variables], host_inputs=list(host_inputs),
                        host_dtypes=list(host_dtypes), host_shapes=[None] * len(host_dtypes),
                        name="{}_{}".format(name, number))


def variable(name, value):
    return tf.get_variable(name, initializer=np.asarray(value, "float32"), use_resource=True)


class Service:
    """Has `serve` called with the library and the requests of one or more runs, ordered by their names."""

    def __init__(self, serve, count, capacity=64, pause=0):
        self._serve, self._count, self._capacity, self._pause = serve, count, capacity, pause
        self._started = threading.Event()
        self._error, self._ended = None, []
        self.popped = []  # (kind, count) of each pop
        self.result = None
        _services.append(self)
        self._number = len(_services) - 1

    def conduct(self, world):
        self._started.set()
        time.sleep(self._pause)
        requests, late = [], time.time() + _LATE
        self.bridge = op_functions.Library(bridge.PATH)
        self.intake = bulk.Intake(self.bridge, self._capacity)
        try:
            while len(requests) < self._count:
                assert time.time() < late, "only {} requests came".format(len(requests))
                kind, count = self.take(30, 100000)
                self.popped.append((kind, count))
                if kind == bridge.REQUEST:
                    requests += [bridge.Request(self.bridge, row) for row in self.intake.rows(count)]
            self.result = self._serve(self, sorted(requests, key=lambda request: request.name))
        except BaseException as error:
            self._error = error
        finally:
            for request in requests:
                if not request.finished:
                    request.finish(13, "the test has not finished it")
            for session, variables_end in self._ended:
                executor._executor._end_session(session, variables_end, world and world.coordinator)

    def take(self, spin_us, wait_us, *inbox):
        """`Intake.take`, but for the ends of sessions, which are the executor's: one of a test before this may end at
        any time."""
        while True:
            taken = self.intake.take(False, spin_us, wait_us, *inbox)
            if taken[0] != bridge.SESSION_END:
                return taken
            self._ended.append((self.intake.infos[0].session, bool(self.intake.infos[0].step)))

    def run(self, session, *fetches, **options):
        """Runs each of `fetches` in a thread of its own; returns what came of each: values, or the error."""
        with session.graph.as_default():
            conduct = library.call("test.conduct", ConductConfig(self._number), [], [], [], host_dtypes=[tf.int32],
                                   host_shapes=[[]])[0]
        results = [None] * len(fetches)

        def collect(place, fetch):
            try:
                results[place] = session.run(fetch, **options)
            except tf.errors.OpError as error:
                results[place] = error

        threads = [threading.Thread(target=session.run, args=[conduct])]
        threads[0].start()
        assert self._started.wait(_LATE)
        threads += [threading.Thread(target=collect, args=[place, fetch]) for place, fetch in enumerate(fetches)]
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join(_LATE)
            assert not thread.is_alive()
        if self._error is not None:
            raise self._error
        return results


def array(pointer, dtype, shape):
    """A NumPy array over memory that a group has told of."""
    size = 1
    for length in shape:
        size *= int(length)
    return bridge.Array(int(pointer), dtype, tuple(int(length) for length in shape), size).numpy()


def tensor(info, dtype):
    """A NumPy array over the memory of one `TENSOR`."""
    return array(info["data"], dtype, info["dims"][:info["rank"]])
