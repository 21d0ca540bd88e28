"""A small executor thread in the place of graph_ops': drives launch/ as launch/__init__.py says, on any device."""
import atexit
import queue
import threading
import time

import devices
import numpy as np
from launch_simulation import ready

import sok1x.launch as launch
from sok1x.launch.errors import CANCELLED, LaunchError


class Executor(threading.Thread):
    """`start_world` and `exchange` are called on the main thread; all else happens on this one."""

    def __init__(self):
        super().__init__(daemon=True)
        self.world = self.device = self.mark = self._communicator = None
        self._requests = queue.Queue()
        self._waiting = {}
        self._stopping = False
        self.start()

    def _ask(self, kind, content):
        answer = queue.Queue()
        self._requests.put((kind, content, answer))
        result = answer.get()
        if isinstance(result, Exception):
            raise result
        return result

    def start_world(self, **arguments):
        """sok.Init."""
        return self._ask("start", arguments)

    def exchange(self, index, number=0, plan="a\nb\nc", error=None, work=0.0, how="wait"):
        """An op: gathers `number` of all ranks by way of the headers, and sums it over ranks by an all_reduce.

        how: 'wait' for the sum, only 'enqueue' the exchange (the GPU has come by at `mark`), or 'skip' it, so that the
        others wait for ever.
        """
        return self._ask("op", ((0, index), number, plan, error, work, how))

    def post(self, index):
        """An exchange that nobody waits for."""
        self._requests.put(("op", ((0, index), 0, "a\nb\nc", None, 0.0, "wait"), queue.Queue()))

    def run(self):
        while not self._stopping:
            self._serve()
        if self.world is not None:
            coordinator = self.world.coordinator
            coordinator.leaving.begin()
            while not coordinator.leaving.left:
                self._carry_out()
                time.sleep(0.001)
            self._carry_out()
            while not self._requests.empty():
                self._requests.get()[2].put(LaunchError(CANCELLED, "the program ends"))
            launch.finish(self.world)

    def _serve(self):
        wait = None if self.world is None else self.world.coordinator.wait_microseconds()
        try:
            if wait == 0:
                request = self._requests.get_nowait()
            else:
                request = self._requests.get(timeout=None if wait is None else wait * 1e-6)
        except queue.Empty:
            request = None
        if request is not None:
            self._take(*request)
        if self.world is not None:
            self._carry_out()
            if self.world.farewell.wanted:
                self.world.farewell.go_on(self._carry_out)

    def _take(self, kind, content, answer):
        if kind == "stop":
            self._stopping = True
        elif kind == "start":
            try:
                first = self.world is None
                self.world = launch.start(content)
                if first:
                    atexit.register(self._end)
                    self.device = devices.chosen(self.world)
                with self.device.active():
                    self._communicator = self.device.connect()
                answer.put(self.world)
            except LaunchError as error:
                answer.put(error)
        else:
            op, number, plan, error, work, how = content
            coordinator = self.world.coordinator
            if coordinator.job_error is not None:
                answer.put(coordinator.job_error)
                return
            ticket = coordinator.announce(ready(op, (number,), error, plan))
            self._waiting[ticket] = (number, answer, work, how)

    def _carry_out(self):
        for decision in self.world.coordinator.poll():
            number, answer, work, how = self._waiting.pop(decision.ticket)
            if decision.error is not None:
                answer.put(decision.error)
                continue
            self._communicator.op = decision.name
            time.sleep(work)
            try:
                total = self._sum(number, how)
            except LaunchError as error:
                answer.put(error)
                # The others wait for this rank.
                self.world.coordinator.fail_job("op '{}' failed on rank {} in the middle of an exchange: {}".format(
                    decision.name, self.world.rank, error))
                continue
            assert total is None or decision.headers.sum() == total, (decision.headers, total)
            answer.put(decision.headers.ravel().tolist())

    def _sum(self, number, how):
        if how == "skip":
            return None
        with self.device.active():
            pointer = self.device.put(np.array([number], np.int64))
            self._communicator.all_reduce(pointer, 1, "int64")
            if how == "enqueue":
                self.mark = self.device.gpu.record()
                return None
            total = self.device.get(pointer, (1,), np.int64)[0]
            self.device.clear()
        if self._communicator.failure is not None:
            raise self._communicator.failure
        return total

    def _end(self):
        self._requests.put(("stop", None, None))
        launch.conclude(self.world, self)
