"""Requests that are taken together, sorted into groups, and run: a group at once where its operation knows how.

A group's requests run the same operation on the same device. An operation's `group` (groups/form.py) runs the usual
case for all of them in as many kernels and exchanges as for one; what it leaves, and whatever has no such form, runs
one by one, in order. Results are the same bits.

On several ranks what a group is made of must be the same on all: it follows from the operation and from the headers,
which all ranks see, and from nothing else.
"""
import itertools
import operator
import time

import numpy as np

from sok1x import launch
from sok1x.graph_ops.bridge import bulk, devices, timeline
from sok1x.graph_ops.bridge.errors import CallError, status_of


class Taken:
    """A request that has been taken out of the queue.

    Attributes:
      request: the Request. call: its Call.
      header, error: what it is announced with. headers: int64 [N, h] of all ranks, once it has been decided.
      prepared: what its group's `prepare` leaves for `run`; None where it was prepared by itself.
    """

    # What it begins with; here, because there are many of them.
    header = error = headers = prepared = None

    def __init__(self, request, call):
        self.request, self.call = request, call
        self._since = time.monotonic()

    def waited(self, headers):
        """It has been decided, after it has waited for other ranks. headers: of all, as they were announced."""
        if self.call.waits is not None:
            self.call.waits(time.monotonic() - self._since)
        self.request.come(timeline.AGREED, timeline.last_of(headers))

    @property
    def config(self):
        """The config of its call."""
        return self.call.config


def batches(decisions):
    """The decisions of the leader (a list), those of one word together: lists of them, in order."""
    return [list(batch) for _, batch in itertools.groupby(decisions, operator.attrgetter("batch"))]


def sort(everything, world):
    """Groups of Taken, in the order in which each group's first one comes."""
    groups = {}
    for taken in everything:
        call = taken.call
        key = call.alike
        if key is None or taken.headers is not None:
            key = _key(call.operation.group, taken, world)
            # Who is alone is known by itself.
            key = taken if key is None else (call.operation, call.gpu, key)
        found = groups.get(key)
        if found is None:
            found = groups[key] = Group(call.operation, key is not taken)
        found.members.append(taken)
    return groups.values()


def _kernel(taken):
    return taken.request.kernel


def _key(form, taken, world):
    try:
        return None if form is None or world is None else form.key(taken, world)
    except CallError:  # which it meets again by itself
        return None


class Group:
    """Requests of one operation. members: list of Taken."""

    def __init__(self, operation, alike):
        self.operation = operation
        self.members = []
        self._alike = alike  # whether the operation's form can run them

    def together(self, world):
        """Whether they run at once."""
        return self._alike and (len(self.members) > 1 or self.operation.group.serves_one(self.members[0], world))

    def prepare(self, world):
        """Finds out each member's header, or why it cannot be run."""
        left = self._initialized(world)
        if left and self.together(world):
            try:
                with devices.use(left[0].request):
                    self.operation.group.prepare(left, world)
            except BaseException as error:  # whatever it is, the other ranks must hear of it
                devices.forget_counts(left[0].request)
                for taken in left:
                    taken.error = _error(error, world)
            left = [taken for taken in left if taken.error is None and taken.header is None]
        for taken in left:
            request = taken.request
            try:
                with devices.use(request):
                    header = self.operation.prepare(request, taken.config, world)
            except BaseException as error:
                devices.forget_counts(request)
                taken.error = _error(error, world)
            else:
                taken.header = devices.mark(request, header)
        if timeline.on:
            timeline.mark(self.members)

    def _initialized(self, world):
        """The members whose variables have been initialized; the others get an error."""
        members = self.members
        if not hasattr(members[0].config, "table") or bulk.all_initialized([taken.request for taken in members]):
            return members
        for taken in members:
            try:
                taken.request.check_initialized(taken.config.table.name, " on {}".format(world.name))
            except BaseException as error:
                taken.error = _error(error, world)
        return [taken for taken in members if taken.error is None]

    def run(self, world):
        """Runs all members and answers them."""
        left = self.members
        if not self.operation.communicates or world is None or world.size == 1:
            for taken in left:
                taken.request.come(timeline.AGREED)
        if world is not None and world.size == 1 and any([taken.request.needs_rows for taken in left]):
            names = [taken.config.table.name for taken in left]  # of lookups of one table the first stays the first
            left = self.members = [taken for taken, name in zip(left, names)
                                   if names.count(name) > 1 or not self._has_room(taken, world)]
        if left and self.together(world) and not all([taken.request.needs_rows for taken in left]):
            if world.size == 1 or not self.operation.communicates:
                left.sort(key=_kernel)  # in one order each time, as for all ranks those that communicate are
            try:
                with _device(left, world):
                    run = self.operation.group.run(left, world)
            except BaseException as error:
                self.fail(left, error, world)
                return
            run.finish()
            left = run.left
            for taken in left:
                taken.request.again = True
        for taken in left:
            try:
                with _device([taken], world):
                    self._run_one(taken, world)
            except BaseException as error:
                self.fail([taken], error, world)
            else:
                taken.request.finish()
        for taken in self.members:
            taken.prepared = None

    def _has_room(self, taken, world):
        """Whether a member's table, whose rows do not suffice for it, has got more: then it has come again; or fails to
        get them: then it has been answered."""
        if not taken.request.needs_rows or taken.request.grown:
            return False
        try:
            with _device([taken], world):
                has_room = self.operation.group.give_room(taken, world)
        except BaseException as error:
            self.fail([taken], error, world)
            return True
        if has_room:
            taken.request.come_again()
        return has_room

    def run_left(self, world):
        """Runs members that a group in C++ has left, one by one: each is prepared once more, by itself."""
        for taken in self.members:
            taken.request.again = True
        self.prepare(world)
        for taken in self.members:
            if taken.error is not None:
                self.fail([taken], taken.error, world)
        self.members = [taken for taken in self.members if taken.error is None]
        if self.members:
            self.run(world)

    def _run_one(self, taken, world):
        request = taken.request
        if self.operation.communicates and (world is None or world.size == 1):
            taken.headers = self.operation.prepare(request, taken.config, world)[np.newaxis]
        elif taken.prepared is not None:
            self.operation.group.hand_over(taken, world)
        self.operation.run(request, taken.config, world, taken.headers)

    def fail(self, members, error, world):
        """Answers members with an error; on several ranks the others hear of it."""
        code, message = status_of(error)
        many = world is not None and world.size > 1 and self.operation.communicates
        agreed = getattr(error, "agreed", False)
        name = members[0].call.name
        devices.forget_counts(members[0].request)
        for taken in members:
            if many and agreed:
                world.coordinator.undone(taken.request.exchange)  # before the next step can announce anything
        for taken in members:
            taken.request.finish(code, message)
            taken.prepared = None  # it knows its members
        if many and not agreed:
            # The others are in the middle of this exchange and will wait for ever: the job is lost.
            world.coordinator.fail_job("op '{}' failed on {} in the middle of an exchange: {}".format(
                name, world.name, message))


class _device:
    """Inside, kernels run on the members' device, and exchanges are those of its memory; at the end none has failed."""

    def __init__(self, members, world):
        self._members, self._world = members, world
        self._use = devices.use(members[0].request)
        self._communicator = None

    def __enter__(self):
        world, first = self._world, self._members[0]
        if world is not None and first.call.operation.communicates:
            communicator = devices.communicator(first.request, world) if world.size > 1 else world.communicator
            communicator.op = world.communicator.op = first.call.name
            for taken in self._members:
                taken.request.communicator = communicator
            self._communicator = communicator
        self._use.__enter__()

    def __exit__(self, kind, error, trace):
        self._use.__exit__(kind, error, trace)
        # An exchange that was given up ends without its data.
        if kind is None and self._communicator is not None and self._communicator.failure is not None:
            raise self._communicator.failure


def _error(caught, world):
    return launch.LaunchError(*status_of(caught), rank=world.rank)
