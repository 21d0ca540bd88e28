"""The coordinator's messages over MPI: nonblocking, on a communicator of their own.

All calls come from the executor's thread, except `peek`.
"""
import collections
import ctypes
import time

from . import inbox
from .errors import LaunchError

_TAG = 2
_GATE_SECONDS = 0.1


class MpiTransport:
    """Sends and receives bytes between ranks without ever waiting for one (interface: see coordinator).

    Args:
        MPI: The module mpi4py.MPI.
        comm: An mpi4py communicator used by nothing else at the same time.
        gate: mpi_library.Gate around every call.
    """

    def __init__(self, MPI, comm, gate):
        self._MPI, self._comm, self._gate = MPI, comm, gate
        self._status = MPI.Status()
        # A message's bytes must live until MPI has sent them.
        self._sending = []  # (request, bytes, to whom)
        # Messages that MPI has begun to bring: (request, source, bytearray), in the order in which they were sent. A
        # long one comes in pieces, for which its sender must look after MPI too, and it may be busy for long.
        self._coming = collections.deque()
        # What has come and the executor has not taken; changed inside the gate.
        self._came = []
        self._probed = MPI.Status()
        self._inbox = inbox.of_mpi(MPI, comm, _TAG, self._probed)

    @property
    def closed(self):
        """True once MPI is finalised: sends are dropped, nothing comes."""
        return not self._gate.open

    def send(self, rank, data):
        """Starts sending `data` (bytes) to `rank`; messages to one rank arrive in order."""
        try:
            with self._gate:
                request = self._comm.Isend([data, self._MPI.BYTE], rank, _TAG)
                if not request.Test():
                    self._sending.append((request, data, rank))
        except LaunchError:
            return

    def receive(self):
        """Takes in what has come: a list of (rank, bytes)."""
        try:
            with self._gate:
                self._take_in()
                self._look_after_sent()
                came, self._came = self._came, []
        except LaunchError:
            # The gate is shut, so nobody else is at the list either.
            came, self._came = self._came, []
        return came

    def watch(self, wait):
        """Has `wait` called with the address of an `Inbox`, or None once MPI is finalised; returns what that returns.

        It must not take long: nobody else calls MPI meanwhile. It may receive messages itself, as they come.
        """
        if not self._gate.try_enter(_GATE_SECONDS):
            return wait(None)
        try:
            # MPI goes on with long messages that are under way only when it is called about them; and what has come
            # comes before what is looked for.
            return wait(None if self._coming or self._came else ctypes.addressof(self._inbox))
        finally:
            self._gate.leave()

    def peek(self):
        """What `receive` would give, left there; nothing where MPI is in use for some time. Any thread."""
        if not self._gate.try_enter(_GATE_SECONDS):
            return []
        try:
            self._take_in()
            return list(self._came)
        finally:
            self._gate.leave()

    def _take_in(self):
        MPI, status = self._MPI, self._status
        while True:
            message = self._comm.Improbe(MPI.ANY_SOURCE, _TAG, status)
            if message is None:
                break
            data = bytearray(status.Get_count(MPI.BYTE))
            source = status.Get_source()
            self._coming.append((message.Irecv([data, MPI.BYTE]), source, data))
        if not self._coming:
            return
        late = set()
        for _ in range(len(self._coming)):
            request, source, data = entry = self._coming.popleft()
            if source not in late and request.Test():
                self._came.append((source, bytes(data)))
            else:  # of one sender, what comes after waits for what comes before
                late.add(source)
                self._coming.append(entry)

    def _look_after_sent(self):
        if self._sending:
            self._sending = [entry for entry in self._sending if not entry[0].Test()]

    def flush(self, seconds, but=None):
        """Waits up to `seconds` until everything is sent, but for messages to rank `but`.

        Returns:
            True if it is (or never will be: MPI is finalised).
        """
        begin = time.monotonic()
        while self._gate.open:
            try:
                with self._gate:
                    self._look_after_sent()
            except LaunchError:  # finalised since the look above
                return True
            if not any(rank != but for _, _, rank in self._sending):
                return True
            waited = time.monotonic() - begin
            if waited >= seconds:
                return False
            time.sleep(0 if waited < 0.002 else 0.001)
        return True

    def close(self):
        """Frees the communicator, where MPI is still there."""
        if self._gate.open:
            with self._gate:
                self._comm.Free()
