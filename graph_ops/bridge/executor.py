"""The one thread of a process that runs our ops' requests.

TensorFlow's threads only put requests into the bridge's queue. This thread takes them, runs those that need no other
rank at once, and brings those that communicate into the order that the coordinator gives, equal on all ranks. It
also makes every MPI call of ours.

Nothing may escape from the loop: a request that is never finished would hang its `sess.run` for good.
"""
import atexit
import os
import threading
import time
import traceback

from sok1x import launch
from sok1x.graph_ops.bridge import bridge, bulk, devices, forked, lane_ranks, plan, session_runs, timeline, together
from sok1x.graph_ops.bridge.asked import Asked
from sok1x.graph_ops.bridge.calls import Calls
from sok1x.graph_ops.bridge.contexts import Contexts, on_end
from sok1x.graph_ops.bridge.errors import CANCELLED, FAILED_PRECONDITION, INTERNAL, CallError, status_of
from sok1x.graph_ops.bridge.joined import INIT_FIRST
from sok1x.launch import launcher
from sok1x.launch.lines import print_line

_LAST = (1 << 62, 0)  # after all places in a plan
# How many requests are taken out of the queue at a time.
_MOST_AT_ONCE = 512

# How long to wait for the leader's word at most between two turns of the loop, which keeps the clocks.
_WORD_MICROSECONDS = 1000

_executor = None


class Executor(threading.Thread):
    """See the module's text. One per process, started when the first op of ours is built.

    Attributes:
      asked: `Asked`, for other threads.
    """

    def __init__(self, library):
        super().__init__(name="sok1x-executor", daemon=True)
        self._library = library
        self._contexts = Contexts()
        self._calls = Calls(self._contexts, library)
        self._held = {}  # ticket of an announcement -> the Taken that waits for the leader's word
        self._tickets = {}  # id of a held request -> its ticket
        self._current = []  # the requests that are being taken in, or run
        self._alone = False  # whether C++ knows that there is no other rank
        self._among = None  # of several ranks, C++'s part in their order: LaneRanks
        self._stopping = False
        self.asked = Asked(library.wake)
        self._refused = 0  # requests that waited for other ranks when the program ended
        self._pid = os.getpid()

    # ---- called from other threads

    def stop(self):
        """Fails what is queued, lets the running request end, leaves the other ranks in good order."""
        if os.getpid() != self._pid:
            return  # a forked child has no such thread
        session_runs.shorten_errors()
        running = any(not request.finished for request in self._current)
        self._stopping = True
        self._library.wake()
        world = launch.current()
        if world is None:
            self.join()
        else:
            launch.conclude(world, self)
        if self._library.refused() or self._refused or running:
            session_runs.wait()

    # ---- the thread itself

    def run(self):
        """The thread's life."""
        try:
            self._loop()
            self._leave()
        except BaseException as error:  # the thread's last line of defence: see the module's text
            reason = "sok1x's executor died: {!r}".format(error)
            said = "{}\n{}".format(reason, traceback.format_exc().rstrip())
            self._close(INTERNAL, reason)
            for request in self._current:
                if not request.finished:
                    request.finish(INTERNAL, reason)
            world = launch.current()
            if world is not None:
                world.coordinator.fail_job(reason)
            print_line(said)  # after all that others wait for
            if world is not None:
                launch.finish(world)

    def _loop(self):
        intake = bulk.Intake(self._library, _MOST_AT_ONCE)
        infos = intake.infos
        spin = 0
        while not self._stopping:
            world = launch.current()
            coordinator = world.coordinator if world is not None else None
            if not self._alone and coordinator is not None and coordinator.size == 1:
                self._alone = True
                self._library.alone(not timeline.on)
            kind, count = self._take(intake, world, coordinator, spin)
            busy = kind != 0
            if kind == bridge.REQUEST and count:
                self._current = [bridge.Request(self._library, row) for row in intake.rows(count)]
                self._run_or_announce(self._look_at(self._current, world), world)
            self._take_over(world)
            self.asked.answer()
            if kind == bridge.CANCELLATION and infos[0].id in self._tickets:
                coordinator.withdraw(self._tickets[infos[0].id])
            elif kind == bridge.SESSION_END:
                self._end_session(infos[0].session, bool(infos[0].step), coordinator)
            if coordinator is not None and coordinator.size > 1 and not (self._among and self._among.pending):
                decisions = coordinator.poll()
                if decisions:
                    self._carry_out(decisions, world)
                    busy = True
            if world is not None and world.farewell.wanted:
                self._release_lane(world)
                world.farewell.go_on(lambda: self._carry_out(world.coordinator.poll(), world))
            spin = world.spin_microseconds if busy and world is not None else 0

    def _take(self, intake, world, coordinator, spin):
        """Takes what is next in the queue, or returns when it is time to hear the other ranks: as `Intake.take`."""
        if coordinator is None:
            return intake.take(None, spin, -1)
        pause = coordinator.wait_microseconds()
        lane = world.spin_microseconds if coordinator.job_error is None else None
        if coordinator.size == 1:
            return intake.take(lane, spin, -1 if pause is None else pause)
        if self._among is None:
            self._among = lane_ranks.LaneRanks(self._library, world)
        self._among.stand()
        wait = pause
        if coordinator.waits:
            wait = _WORD_MICROSECONDS
            if not pause:
                spin, pause = max(spin, coordinator.spin_microseconds), 1
        return coordinator.transport.watch(
            lambda inbox: intake.take(lane, spin, wait if inbox else pause, inbox, max(1, pause)))

    def _take_over(self, world):
        """Goes on with what C++ gives out of its part in the ranks' order."""
        for event in () if self._among is None else self._among.events():
            if event.kind == lane_ranks.MESSAGE:
                world.coordinator.hear(event.source, event.data)
                continue
            if event.kind == lane_ranks.SEND:
                world.coordinator.pass_on(event.source, event.data)
                continue
            members = [self._known(bridge.Request(self._library, row)) for row in event.rows]
            self._current = [taken.request for taken in members]
            group = together.Group(members[0].call.operation, event.kind == lane_ranks.HELD)
            group.members = members
            if event.kind == lane_ranks.HELD:
                self._hold(group, event.numbers, world)
                continue
            for taken, number in zip(members, event.numbers):
                taken.request.exchange = number
            if event.kind == lane_ranks.FAILED:
                group.fail(members, event.error or CallError(event.code, event.data.decode("utf-8", "replace")), world)
                continue
            for taken, headers in zip(members, event.headers):
                taken.headers = devices.check_marks(taken.request, headers)
            group.run_left(world)

    def _known(self, request):
        """The Taken of a request of an op that has run before."""
        call = self._calls.of(request)
        request.plan, request.gpu = call.plan, call.gpu
        return together.Taken(request, call)

    def _hold(self, group, tickets, world):
        """Prepares members that C++ has announced once more, and waits for the word on them."""
        group.prepare(world)
        world.coordinator.adopt(tickets, [taken.call.announced(taken, ()) for taken in group.members])
        self._held.update(zip(tickets, group.members))
        self._tickets.update(zip([taken.request.id for taken in group.members], tickets))

    def _leave(self):
        """The end of the thread: every request is answered, and the other ranks know that this one is gone."""
        world = launch.current()
        if world is not None:
            self._release_lane(world)
            world.coordinator.leaving.begin()
            while not world.coordinator.leaving.left:
                self._carry_out(world.coordinator.poll(), world)
                time.sleep(0.001)
        self._close(CANCELLED, "sok1x: the program is ending")
        if world is not None:
            launch.finish(world)

    def _release_lane(self, world):
        """C++ goes on with nothing more among several ranks."""
        while self._among is not None and self._among.stop():
            self._take_over(world)

    def _close(self, code, reason):
        self.asked.close(code, reason)
        self._library.close(code, reason.encode("utf-8", "replace"))
        held, self._held = self._held, {}
        self._refused += len(held)
        for taken in held.values():
            taken.request.finish(code, reason)

    def _end_session(self, session, variables_end, coordinator):
        number = self._calls.end(session)
        if number is not None and coordinator is not None:
            coordinator.forget(number)
        for function in on_end if variables_end else ():
            function(session)

    def _run_or_announce(self, everything, world):
        announced = []
        many = world is not None and world.size > 1
        if many and len(everything) > 1:  # in one order on all ranks, as far as they come together
            everything.sort(key=lambda taken: taken.call.place.op or _LAST)
        for group in together.sort(everything, world):
            if many and group.operation.communicates:
                group.prepare(world)
                announced += group.members
            else:
                group.run(world)
        if announced:
            self._announce(announced, world)

    def _look_at(self, requests, world):
        """What requests run: a list of `together.Taken` of those that can run; the others have been answered."""
        found, call_of, job_error = [], self._calls.of, None if world is None else world.coordinator.job_error
        usual = world is not None and job_error is None
        for request in requests:
            try:
                call = call_of(request)
                if not usual:
                    if job_error is not None:
                        raise job_error
                    if not call.operation.before_init:
                        raise CallError(FAILED_PRECONDITION, INIT_FIRST)
                request.plan, request.gpu = call.plan, call.gpu
                if not call.learned and world is not None:
                    call.learn(request, world)
            except BaseException as error:
                request.finish(*status_of(error))
                continue
            found.append(together.Taken(request, call))
        return found

    def _announce(self, everything, world):
        """Tells the other ranks what this rank is ready for, or why it cannot be."""
        ready = []
        for taken in everything:
            call = taken.call
            rivals = () if call.context.met else self._contexts.rivals(call.context, *call.place.op)
            ready.append(call.announced(taken, rivals))
        tickets = world.coordinator.announce_all(ready)
        self._held.update(zip(tickets, everything))
        self._tickets.update(zip([taken.request.id for taken in everything], tickets))

    def _carry_out(self, decisions, world):
        """Runs, or fails, the requests that the decisions answer; those of one batch together."""
        for batch in together.batches(decisions):
            decided = []
            for decision in batch:
                taken = self._held.pop(decision.ticket)
                del self._tickets[taken.request.id]
                if decision.error is not None:
                    devices.forget_counts(taken.request)
                    taken.request.finish(*status_of(decision.error))
                    continue
                taken.call.met(decision.number)
                taken.request.exchange = decision.number
                taken.waited(decision.headers)
                try:
                    if taken.error is not None:  # it has been announced by C++, for which all was well
                        raise taken.error
                    taken.headers = devices.check_marks(taken.request, decision.headers)
                except (CallError, launch.LaunchError) as error:
                    together.Group(taken.call.operation, False).fail([taken], error, world)
                else:
                    decided.append(taken)
            self._current = [taken.request for taken in decided]
            for group in together.sort(decided, world):
                group.run(world)


def start(library):
    """Starts the process's executor. Called once, when the op library has been loaded."""
    global _executor
    _executor = Executor(library)
    library.open()
    forked.watch(library)
    if launcher.is_one_of_several():
        library.own_process(plan.PROCESS.encode())
    _executor.start()
    atexit.register(_executor.stop)


def ask(function):
    """See `Asked.ask`. The op library must have been loaded."""
    return _executor.asked.ask(function)


def stop_last_registered():
    """Moves the executor's stop before the exit handlers that have been registered since it started.

    Called when MPI has been started: exit handlers run in reverse order, and Horovod, if it was initialized before
    and owns MPI, finalizes it in its own.
    """
    atexit.unregister(_executor.stop)
    atexit.register(_executor.stop)
