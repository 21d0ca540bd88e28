"""The one thread of a process that runs our ops' requests.

TensorFlow's threads only put requests into the bridge's queue. This thread takes them, runs those that need no other
rank at once, and brings those that communicate into the order that the coordinator gives, equal on all ranks. It
also makes every MPI call of ours.

Nothing may escape from the loop: a request that is never finished would hang its `sess.run` for good.
"""
import atexit
import ctypes
import os
import sys
import threading
import time
import traceback

import numpy as np

from sok1x import launch
from sok1x.graph_ops.bridge import bridge, configs, devices, plan, registry
from sok1x.graph_ops.bridge.contexts import Contexts
from sok1x.graph_ops.bridge.errors import CANCELLED, FAILED_PRECONDITION, INTERNAL, CallError, status_of

INIT_FIRST = (
    "sok1x has not been initialized: run the op made by sok1x.Init(global_batch_size=...) first, also before variable "
    "initializers, as in sess.run(sok1x.Init(global_batch_size=...)); with MonitoredTrainingSession add "
    "sok1x.InitHook(global_batch_size=...) to its hooks")

# How long to look for the next request before sleeping: a step's ops follow each other closely, and waking a thread
# that sleeps costs about 50 us.
_SPIN_MICROSECONDS = 30
_KERNELS_REMEMBERED = 10000

_executor = None


class Call:
    """What a kernel (one node in one session) runs: its operation, with its config and where the op stands.

    plan: the number of its graph's plan, None where another process has built the graph.
    """

    __slots__ = ("operation", "config", "place", "plan")

    def __init__(self, function, config):
        self.operation = registry.get(function)
        self.config, self.place = configs.decode(self.operation.Config, config)
        self.plan = self.place.plan if self.place.process == plan.PROCESS else None

    def announced(self, request, context, header, error, rivals):
        """The Ready of a request."""
        index, digest = self.place.op
        of_graph = context.plans[self.plan]
        # In a loop of its own an op has one frame; the name of a frame in other loops tells which of theirs.
        loops = self.place.loops
        instance = launch.Instance(self.operation.tie(request), request.frame if loops > 1 else 0,
                                   request.iteration if loops else 0, request.signature)
        return launch.Ready(
            op=launch.Op(context.number, index, digest), name=request.name, header=header, error=error,
            step=request.step, instance=instance, plan=of_graph,
            graphs=plan.graphs() if of_graph is None or of_graph.counted else 0, rivals=rivals)


class Executor(threading.Thread):
    """See the module's text. One per process, started when the first op of ours is built."""

    def __init__(self, library):
        super().__init__(name="sok1x-executor", daemon=True)
        self._library = library
        self._calls = {}
        self._contexts = Contexts()
        self._held = {}  # ticket of an announcement -> (request, call, context) that waits for the leader's word
        self._tickets = {}  # id of a held request -> its ticket
        self._current = None  # the request that is being taken in
        self._stopping = False
        self._pid = os.getpid()

    # ---- called from other threads

    def stop(self):
        """Fails what is queued, lets the running request end, leaves the other ranks in good order."""
        if os.getpid() != self._pid:
            return  # a forked child has no such thread
        self._stopping = True
        self._library.wake()
        world = launch.current()
        if world is None:
            self.join()
        else:
            launch.conclude(world, self)

    # ---- the thread itself

    def run(self):
        """The thread's life."""
        try:
            self._loop()
            self._leave()
        except BaseException as error:  # the thread's last line of defence: see the module's text
            reason = "sok1x's executor died: {!r}".format(error)
            sys.stderr.write("{}\n{}".format(reason, traceback.format_exc()))
            self._close(INTERNAL, reason)
            if self._current is not None and not self._current.finished:
                self._current.finish(INTERNAL, reason)
            world = launch.current()
            if world is not None:
                world.coordinator.fail_job(reason)
                launch.finish(world)

    def _loop(self):
        info = bridge.RequestInfo()
        taken = ctypes.byref(info)
        spin = 0
        while not self._stopping:
            world = launch.current()
            coordinator = world.coordinator if world is not None else None
            wait = coordinator.wait_microseconds() if coordinator is not None else None
            kind = self._library.pop(spin, -1 if wait is None else int(wait), taken)
            spin = _SPIN_MICROSECONDS if kind else 0
            if kind == bridge.REQUEST:
                self._current = bridge.Request(self._library, info)
                self._accept(self._current, info, world)
                self._current = None
            elif kind == bridge.CANCELLATION and info.id in self._tickets:
                coordinator.withdraw(self._tickets[info.id])
            elif kind == bridge.SESSION_END:
                self._end_session(info.session, coordinator)
            if coordinator is not None and coordinator.size > 1:
                for decision in coordinator.poll():
                    self._carry_out(decision, world)
                    spin = _SPIN_MICROSECONDS

    def _leave(self):
        """The end of the thread: every request is answered, and the other ranks know that this one is gone."""
        world = launch.current()
        if world is not None:
            world.coordinator.leave()
            while not world.coordinator.left:
                for decision in world.coordinator.poll():
                    self._carry_out(decision, world)
                time.sleep(0.001)
        self._close(CANCELLED, "sok1x: the program is ending")
        if world is not None:
            launch.finish(world)

    def _close(self, code, reason):
        self._library.close(code, reason.encode())
        held, self._held = self._held, {}
        for request, _, _ in held.values():
            request.finish(code, reason)

    def _end_session(self, session, coordinator):
        number = self._contexts.end(session)
        if number is not None and coordinator is not None:
            coordinator.forget(number)

    def _accept(self, request, info, world):
        """Takes one request in: runs it, or announces it to the other ranks."""
        try:
            call = self._call(request, info)
            request.plan = call.plan
            context = self._contexts.of(request.session, call.plan)
            if world is None and not call.operation.before_init:
                raise CallError(FAILED_PRECONDITION, INIT_FIRST)
            if world is not None and world.coordinator.job_error is not None:
                raise world.coordinator.job_error
            devices.find(request, info.stream)
            if world is not None and world.size > 1 and call.operation.communicates:
                self._announce(request, call, context, world)
                return
            with devices.use(request):
                header = None
                if call.operation.communicates:
                    request.communicator = world.communicator  # of one rank: it moves nothing
                    header = call.operation.prepare(request, call.config, world)[np.newaxis]
                call.operation.run(request, call.config, world, header)
        except BaseException as error:
            if request.finished:
                raise
            devices.forget_counts(request)
            request.finish(*status_of(error))
        else:
            request.finish()

    def _announce(self, request, call, context, world):
        """Prepares a request and tells the others that this rank is ready for it, or why it cannot be."""
        error, header = None, None
        try:
            if hasattr(call.config, "table"):
                request.check_initialized(call.config.table.name, " on rank {}".format(world.rank))
            with devices.use(request):
                header = devices.mark(request, call.operation.prepare(request, call.config, world))
        except BaseException as caught:  # whatever it is, the other ranks must hear of it
            devices.forget_counts(request)
            error = launch.LaunchError(*status_of(caught), rank=world.rank)
        rivals = () if context.met else self._contexts.rivals(context, *call.place.op)
        ticket = world.coordinator.announce(call.announced(request, context, header, error, rivals))
        self._held[ticket] = request, call, context
        self._tickets[request.id] = ticket

    def _carry_out(self, decision, world):
        """Runs, or fails, the request that the decision answers."""
        request, call, context = self._held.pop(decision.ticket)
        del self._tickets[request.id]
        try:
            if decision.error is not None:
                raise decision.error
            context.met, request.exchange = True, decision.number
            headers = devices.check_marks(request, decision.headers)
            request.communicator = devices.communicator(request, world)
            request.communicator.op = world.communicator.op = request.name
            with devices.use(request):
                call.operation.run(request, call.config, world, headers)
            if request.communicator.failure is not None:  # an exchange that was given up ends without its data
                raise request.communicator.failure
        except BaseException as error:
            devices.forget_counts(request)
            code, message = status_of(error)
            agreed = getattr(error, "agreed", False)
            if decision.error is None and agreed:
                world.coordinator.undone(decision.number)  # before the next step can announce anything
            request.finish(code, message)
            if decision.error is None and not agreed:
                # The others are in the middle of this exchange and will wait for ever: the job is lost.
                world.coordinator.fail_job("op '{}' failed on rank {} in the middle of an exchange: {}".format(
                    request.name, world.rank, message))
        else:
            request.finish()

    def _call(self, request, info):
        call = self._calls.get(request.kernel)
        if call is None:
            if len(self._calls) >= _KERNELS_REMEMBERED:  # kernels of sessions long closed
                self._calls.clear()
            call = Call(info.function.decode(), info.config.decode())
            self._calls[request.kernel] = call
        return call


def start(library):
    """Starts the process's executor. Called once, when the op library has been loaded."""
    global _executor
    _executor = Executor(library)
    library.open()
    _executor.start()
    atexit.register(_executor.stop)


def stop_last_registered():
    """Moves the executor's stop before the exit handlers that have been registered since it started.

    Called when MPI has been started: exit handlers run in reverse order, and Horovod, if it was initialized before
    and owns MPI, finalizes it in its own.
    """
    atexit.unregister(_executor.stop)
    atexit.register(_executor.stop)
