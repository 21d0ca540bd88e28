"""Collective order, as every rank's executor sees it: announce what is ready, run what comes back, in that order.

Why an order: an exchange needs all ranks, and TensorFlow runs independent ops in another order on each. So an op is
announced when its inputs are there; rank 0 (`leader.Leader`) hears all announcements, and its word says which ops all
ranks run next, with every rank's headers. Failures travel the same way, so all ranks agree on them before anybody
exchanges anything. Ops that are announced together go in one message and are decided in one word, where they can be.

Pure protocol: messages go through a transport with
    send(rank, data)     gives bytes to a rank; never blocks
    receive()            list of (rank, bytes) that have come; never blocks; in order for each sender
    flush(seconds, but)  waits until what was sent has gone, but for messages to rank `but`; False if it has not
    closed               True when nothing can be sent any more (MPI was finalised)
    peek()               what `receive` would give, left there; for exchange_watch, on any thread
"""
import time

from . import messages, tree
from .announcements import Announcements
from .announcing import Announcer
from .channel import Channel
from .ending import Notice
from .errors import FAILED_PRECONDITION, INTERNAL, LaunchError
from .hosts import named
from .job_failure import JobFailure
from .leader import Leader
from .leader_watch import LeaderWatch
from .leaving import Leaving, finalised
from .lines import print_line
from .pauses import idle_pause, waiting_pause
from .stillness import Stillness, waits_eagerly

_CHECK_SECONDS = 0.05
# Seconds that rank 0 waits at most until its words have gone to all ranks, before it acts on them itself.
_SENT_SECONDS = 10.0


class Coordinator:
    """One rank's part in the order. All methods but `fail_job` belong to the executor thread.

    Args:
        rank, size: This rank, and N.
        transport: See the module's text; None where N is 1.
        stall_seconds: Seconds before a waiting op is warned about, or None.
        abort_seconds: Seconds before a waiting op fails the job, or None.
        warn: Function (str).
        clock: Function giving seconds.
        deadlock_seconds: Seconds after which the job fails if every rank waits and nothing moves on any, or None.
        still: Function giving whether nothing has moved on this rank since it was last called.
        parents: By way of which ranks messages go to rank 0 and back: see tree.py. None: all talk with rank 0.

    Attributes:
        job_error: None, or the LaunchError with which every request must fail from now on. Decisions to run that
            still come must be run: other ranks run them too.
        leaving: How this rank leaves the others: see leaving.py.
        on_job_error: None, or a function (LaunchError) called once when the job has failed, on the thread that
            noticed.
        notice: This rank's part where the job is told to end: see ending.py.
        spin_microseconds: How long `wait_microseconds` asks to look again at once; 0 where ranks share a CPU.
        tree: This rank's tree.Tree.
        transport, stall_seconds, abort_seconds, warn: As given.
    """

    def __init__(self, rank, size, transport, stall_seconds=60.0, abort_seconds=None, warn=print_line,
                 clock=time.monotonic, deadlock_seconds=10.0, still=None, parents=None):
        self.rank, self.size = rank, size
        self.transport, self.warn, self._clock = transport, warn, clock
        self.stall_seconds, self.abort_seconds = stall_seconds, abort_seconds
        self.spin_microseconds = 60
        self.tree = tree.of(rank, parents or tree.flat(size))
        self._announcer, self._announcements = Announcer(), Announcements(rank)
        self._channel = Channel(self.tree, transport, lambda word: self._handlers[type(word)](word),
                                lambda: self._announcements.decided, lambda message: self._failure.alarmed(message))
        self._failure = JobFailure(rank, self._channel, self._announcements, transport, clock)
        if size > 1 and rank == 0:
            self._channel.leader = Leader(size, self._channel.tell, self._channel.tell_all, stall_seconds,
                                          abort_seconds, clock, deadlock_seconds, self.tree)
        self.leaving = Leaving(rank, size, self._channel, self._announcements, self._failure, clock)
        self.notice = Notice(self._channel.say)
        self._still = still or Stillness(clock).still
        self._leader_watch = LeaderWatch(rank, stall_seconds, abort_seconds, self.tree.way(rank))
        self._next_check = 0.0
        self._active_at = clock()
        self._handlers = {
            messages.Run: self._run, messages.Refuse: self._announcements.refuse,
            messages.Cancel: self._announcements.cancel,
            messages.AskPlace: self.notice.answer, messages.EndAt: self.notice.agreed,
            messages.JobFailed: self._failure.heard, messages.Ask: self._asked, messages.Warn: self._warned,
            messages.Left: self.leaving.heard, messages.LeaderLeft: self.leaving.leader_has_left,
            messages.AllLeft: self.leaving.all_have_left, messages.AllEnded: self.leaving.all_have_ended}

    @property
    def job_error(self):
        """See the class."""
        return self._failure.error

    @property
    def is_failure_told(self):
        """Whether the job has failed, and rank 0 knows it, or takes too long to say so. Any thread may ask."""
        return self._failure.settled

    @property
    def on_job_error(self):
        """See the class."""
        return self._failure.on_error

    @on_job_error.setter
    def on_job_error(self, function):
        self._failure.on_error = function

    def fail_job(self, message, code=INTERNAL, rank=None):
        """Fails the job on all ranks, with a message that names `rank` (None: this one). Any thread may call it."""
        self._failure.fail(message, code, rank)

    def announce(self, ready):
        """Says that an op is ready here: `announce_all` of one. Returns its ticket."""
        return self.announce_all([ready])[0]

    def announce_all(self, readies):
        """Says that ops are ready here. An op may be announced again before it is decided.

        They cost little more than one where all ranks announce the same ones together, in one order: take them by
        their places in the plan, say. Where ranks differ, an op is decided as soon as all ranks have announced it all
        the same, together with what else is ready then.

        Args:
            readies: List of Ready: what the executor has taken in by now.

        Returns:
            List of tickets (int), in the same order, which their Decisions will carry.
        """
        refusal = self.leaving.refusal()
        if refusal is not None:
            return list(self._announcements.add_refused(readies, refusal))
        if self.size == 1:
            return list(self._announcements.add_alone(readies))
        self._active_at = self._clock()
        tickets = self._announcements.add(readies, self._active_at)
        self._channel.say(*self._announcer.messages(tickets.start, readies))
        self._channel.send()
        return list(tickets)

    def adopt(self, tickets, readies):
        """Takes over what C++ has announced on this rank: a list of Ready, which have these tickets already."""
        self._active_at = self._clock()
        self._announcements.adopt(tickets, readies, self._active_at)
        if self.leaving.left or self._failure.settled:
            self._failure.fail_waiting(self.leaving.error())  # those before have failed

    def share(self, through, plain, lane):
        """Lets C++ announce, decide and hear as well: see Channel.through, plain, and lane.py for rank 0's leader."""
        self._channel.through, self._channel.plain = through, plain
        if self._channel.leader is not None:
            self._channel.leader.lane = lane

    def hear(self, source, data):
        """Hears a message (bytes) that has come from a rank."""
        self._active_at = self._clock()
        self._channel.hear([(source, data)], self.fail_job)

    def take(self, came):
        """Takes messages that have come when C++ does no more: a list of (rank, bytes)."""
        self._active_at = self._clock()
        self._channel.through = None
        self._channel.take(came, self.fail_job)

    def pass_on(self, rank, data):
        """Sends a message (bytes) of C++'s to a rank, which C++ acts on when it has gone."""
        self._channel.pass_on(rank, data)
        self.transport.flush(_SENT_SECONDS, self.tree.parent)

    @property
    def decided(self):
        """Whether `poll` has something to give that has come already."""
        return self._announcements.decided

    @property
    def may_announce(self):
        """Whether C++ may announce: what this rank has said before has been sent, what it was told has been run."""
        return (self.job_error is None and not self.leaving.begun and not self._channel.unsent
                and not self._announcements.decided)

    @property
    def may_decide(self):
        """Whether C++ may decide on rank 0: its leader has nothing that waits."""
        leader = self._channel.leader
        return leader is not None and leader.idle and not self._announcements.decided

    def undone(self, number):
        """Says that what the decision of this number had all ranks run has failed, on all of them alike."""
        if self.size > 1:
            self._channel.say(messages.Undone(number))

    def forget(self, context):
        """Says that the session which this rank numbers `context` is gone."""
        self._announcer.forget(context)
        if self.size > 1:
            self._channel.say(messages.Gone(context))

    def withdraw(self, ticket):
        """Asks to take an announcement back. Its Decision comes all the same: CANCELLED, or what was decided before."""
        if self.size > 1:
            self._channel.say(messages.Withdraw(ticket))

    def poll(self):
        """Hears all that has come, keeps the clocks, and sends what has been said since.

        Returns:
            List of Decision, to be carried out in this order; those to run on every rank in the same order.
        """
        if self.size > 1:
            self._failure.tell()
            self.notice.poll()
            if self._channel.receive(self.fail_job):
                self._active_at = self._clock()
            now = self._clock()
            if now >= self._next_check:
                self._next_check = now + _CHECK_SECONDS
                self._check(now)
            self._channel.send()
        decisions = self._announcements.take()
        if decisions and self.tree.children:
            # MPI sends a long word in pieces, and only while this rank is inside MPI. Who runs what the word has
            # decided may wait outside of it (for a GPU) for ranks that have not got all of the word. What goes up is
            # not waited for: the rank above may wait for this one.
            self.transport.flush(_SENT_SECONDS, self.tree.parent)
        return decisions

    def part(self):
        """Says to the rank above, at the very end, that nothing more will come."""
        self._channel.part()

    @property
    def undecided(self):
        """Whether something announced has no answer."""
        return self._announcements.undecided

    @property
    def serves(self):
        """Whether ranks whose messages go by way of this one may still have something to say."""
        return self.tree.relays and len(self._channel.parted) < len(self.tree.children)

    @property
    def waits(self):
        """Whether something announced waits for rank 0's word, and nothing here is to be done meanwhile."""
        announcements = self._announcements
        return announcements.undecided and not announcements.decided and not self._channel.unsent

    def wait_microseconds(self):
        """How long the executor may sleep on its own queue before it polls again; None: until a request comes.

        Where it `waits`, it may also sleep longer, and look that often whether something has come: `transport.watch`.
        """
        if self._announcements.decided or self._channel.unsent:
            return 0
        if self.size == 1:
            return None
        quiet = self._clock() - self._active_at
        if self._announcements.undecided:
            return waiting_pause(quiet, self.spin_microseconds * 1e-6)
        return idle_pause(quiet)

    def _run(self, word):
        self._announcer.met([decision.op.context for decision in self._announcements.run(word)])

    def _asked(self, word):
        still = self._still()
        self._channel.say(messages.Answer(word.serial, still, still and waits_eagerly()))

    def _warned(self, word):
        self._leader_watch.warned(self._clock())
        self.warn("sok1x: {}: {}".format(named(self.rank), word.text))

    def _check(self, now):
        leader = self._channel.leader
        if leader is not None and not self.transport.closed:
            leader.tick()
        if self.transport.closed and (self._announcements.undecided or self.job_error is not None):
            self._failure.fail_here(LaunchError(FAILED_PRECONDITION, finalised(self.rank), self.rank))
        self._failure.check(now)
        self.leaving.check(now)
        if self._announcements.undecided and leader is None:
            error, warning = self._leader_watch.judge(self._announcements.oldest(), self.leaving.leader_left_at, now)
            if error is not None:
                self._failure.fail_here(error)
            elif warning is not None:
                self._warned(messages.Warn(warning))
