"""Whether the other hosts are still there, beside the exchanges: a rank that is gone ends the job.

An exchange with a host that has vanished waits for as long as Linux goes on sending, a quarter of an hour by default,
and nobody else knows. So ranks of different hosts hold connections of their own: each rank one to the first rank of
each host before its own, and to that of its own host. Nothing travels on them. The kernels at both ends ask each other
(TCP keepalive) whether the connection still stands:

- a process that is gone closes it, at once;
- a host that is down, or cut off, does not answer, and after `seconds` of that the connection fails;
- a process that is busy, stopped in a debugger or waiting for a disk is there: its kernel answers for it.

Who loses a connection tells all that it still has one to, so that ranks hear of it which do not see it themselves. A
rank that has left in good order says so first. The thread sleeps until something comes, and no step waits for it.
"""
import errno
import json
import os
import secrets
import selectors
import socket
import threading
import time

from . import agreement, environment, heartbeat_sockets
from .hosts import named
from .lines import print_line

# After which a rank says that it cannot connect; it goes on trying.
_CONNECT_SECONDS = 60.0
_SAID_SECONDS = 1.0
# What accept says where this process, or the machine, has no file or memory left for a connection.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_ROOM_SECONDS = 0.1


def prepare(MPI, comm, first, several, failed, patience):
    """Has the ranks tell each other where they hear of others (collective).

    Args:
        MPI: The module mpi4py.MPI.
        comm: An mpi4py communicator of all ranks, used by nothing else meanwhile.
        first: The first rank of this rank's host.
        several: Whether there are several hosts.
        failed: As of Heartbeat.
        patience: agreement.Patience.

    Returns:
        A Heartbeat, which has not begun; None where there is one host, or SOK1X_HEARTBEAT_SECONDS is 0 on rank 0.
    """
    if not several:
        return None
    rank, seconds, listener = comm.Get_rank(), environment.heartbeat_seconds(), None
    if rank == first:
        try:
            listener = heartbeat_sockets.Listener(environment.heartbeat_port())
        except OSError as error:
            print_line("sok1x: {}: no port to hear of other hosts' ranks could be had (SOK1X_HEARTBEAT_PORT={}): {}; "
                       "if one of their hosts goes down, nobody will notice before the operating system does.".format(
                           named(rank), environment.heartbeat_port(), error))
    told = [json.loads(text.decode()) for text in agreement.exchange(MPI, comm, json.dumps({
        "first": first, "place": None if listener is None else listener.place, "seconds": seconds,
        "token": secrets.token_hex(heartbeat_sockets.TOKEN_BYTES)}).encode(), patience)]
    if not told[0]["seconds"]:
        if listener is not None:
            listener.socket.close()
        return None
    heads = {head: told[head]["place"] for head in {one["first"] for one in told}
             if head <= first and head != rank and told[head]["place"] is not None}
    return Heartbeat(rank, bytes.fromhex(told[0]["token"]), listener, heads, told[0]["seconds"], failed,
                     leads=rank == first)


class _Peer:
    """A connection to a rank."""

    def __init__(self, rank, connection):
        self.rank, self.connection = rank, connection
        self.came = b""
        self.left = False  # it has said that it has left


class Heartbeat(threading.Thread):
    """This rank's connections, and the thread that sees them break.

    Args:
        rank: This rank.
        token: The job's token (bytes [16]): who does not know it is no rank.
        listener: A Listener, or None: this rank is not the first of its host.
        heads: {rank: its Listener's place} of those that this rank connects to.
        seconds: How long a host may be silent.
        failed: Function (message, rank), called at most once, on this thread: a rank is gone.
        warn: Function (str).
        leads: Whether this rank speaks for its host where no connection can be made.
    """

    def __init__(self, rank, token, listener, heads, seconds, failed, warn=print_line, leads=True):
        super().__init__(name="sok1x-heartbeat", daemon=True)
        self._rank, self._token, self._listener, self._heads = rank, token, listener, dict(heads)
        self._seconds, self._failed, self._warn, self._leads = seconds, failed, warn, leads
        self._selector = selectors.DefaultSelector()
        self._wakes, self._wake = socket.socketpair()
        self._wakes.setblocking(False)
        self._lock = threading.Lock()
        self._connected = []   # by the connector: peers that the thread has not seen
        self._peers = set()
        self._leaving = self._told = self._closed = False
        self._said = threading.Event()
        self._greeting = {}    # connection that has come -> what it has said, and until when it must say who it is
        os.register_at_fork(after_in_child=self._let_go)

    def begin(self):
        """Starts to watch; connects meanwhile."""
        self.start()
        if self._heads:
            threading.Thread(target=self._connect_all, name="sok1x-heartbeat-connect", daemon=True).start()

    def leave(self):
        """Says that this rank leaves in good order. Others are watched over for as long as the process lives."""
        self._leaving = True
        self._wake.send(b".")
        if self.is_alive():
            self._said.wait(_SAID_SECONDS)  # the process may end at once

    @property
    def peers(self):
        """The ranks to which there is a connection, in order (list of int)."""
        return sorted(peer.rank for peer in list(self._peers))

    def close(self):
        """Ends the thread (tests)."""
        self._closed = True
        self._wake.send(b".")
        self.join()
        self._let_go()

    def _let_go(self):
        """Closes everything: in a forked child too, which is not this rank and would keep connections open."""
        for peer in list(self._peers) + self._connected:
            peer.connection.close()
        for connection in list(self._greeting):
            connection.close()
        if self._listener is not None:
            self._listener.socket.close()
        self._selector.close()

    # ---- the connector's thread

    def _connect_all(self):
        waiting, give_up_at, pause = dict(self._heads), time.monotonic() + _CONNECT_SECONDS, 0.1
        while waiting and not self._closed:
            for rank, place in list(waiting.items()):
                connection = heartbeat_sockets.connect(place, self._token, self._rank, rank, self._seconds)
                if connection is not None:
                    del waiting[rank]
                    with self._lock:
                        self._connected.append(_Peer(rank, connection))
                    self._wake.send(b".")
            if waiting and time.monotonic() > give_up_at:
                give_up_at = float("inf")
                if self._leads:
                    self._warn_of(waiting)
            if waiting:
                time.sleep(pause)
                pause = min(10.0, 2 * pause)

    def _warn_of(self, waiting):
        rank, place = sorted(waiting.items())[0]
        self._warn((
            "sok1x: {} cannot connect to {} at {}, port {}: if one of their hosts goes down, the other one will not "
            "notice before the operating system does. Open the port (SOK1X_HEARTBEAT_PORT chooses which), or set "
            "SOK1X_HEARTBEAT_SECONDS=0.").format(
                named(self._rank), named(rank), " or ".join(place["addresses"]) or "no address", place["port"]))

    # ---- the thread

    def run(self):
        """The thread's loop."""
        self._selector.register(self._wakes, selectors.EVENT_READ, self._woken)
        if self._listener is not None:
            self._selector.register(self._listener.socket, selectors.EVENT_READ, self._accept)
        while not self._closed:
            try:
                for key, _ in self._selector.select(heartbeat_sockets.HELLO_SECONDS if self._greeting else None):
                    key.data()
                self._drop_strangers()
            except Exception as error:
                # Nobody else would notice that this rank watches no more.
                self._warn("sok1x: {}: the watch over other hosts failed: {!r}".format(named(self._rank), error))
                return

    def _woken(self):
        self._wakes.recv(1 << 10)
        with self._lock:
            connected, self._connected = self._connected, []
        for peer in connected:
            self._add(peer)
        if self._leaving:
            self._tell({"left": True})
            self._said.set()

    def _accept(self):
        try:
            connection, _ = self._listener.socket.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:  # it waits on, and is to be tried again: not at once, for ever
                time.sleep(_NO_ROOM_SECONDS)
            return  # else it has gone again
        connection.setblocking(False)
        self._greeting[connection] = b"", time.monotonic() + heartbeat_sockets.HELLO_SECONDS
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._greeted(connection))

    def _greeted(self, connection):
        said, until = self._greeting[connection]
        try:
            came = connection.recv(heartbeat_sockets.HELLO_BYTES - len(said))
        except OSError:
            came = b""
        said += came
        self._greeting[connection] = said, until
        if came and len(said) < heartbeat_sockets.HELLO_BYTES:
            return
        del self._greeting[connection]
        self._selector.unregister(connection)
        rank = heartbeat_sockets.rank_of(said, self._token, self._rank)
        if rank is None:
            connection.close()
            return
        heartbeat_sockets.watch_over(connection, self._seconds)
        peer = _Peer(rank, connection)
        self._send(peer, heartbeat_sockets.hello(self._token, self._rank, rank))
        self._add(peer)

    def _drop_strangers(self):
        for connection, (_, until) in list(self._greeting.items()):
            if time.monotonic() > until:
                del self._greeting[connection]
                self._selector.unregister(connection)
                connection.close()

    def _add(self, peer):
        self._peers.add(peer)
        self._selector.register(peer.connection, selectors.EVENT_READ, lambda: self._hear(peer))
        if self._leaving:
            self._send(peer, _line({"left": True}))

    def _hear(self, peer):
        try:
            came = peer.connection.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(peer, error)
            return
        if not came:
            self._lose(peer, None)
            return
        *lines, peer.came = (peer.came + came).split(b"\n")
        for line in lines:
            said = json.loads(line.decode())
            peer.left = peer.left or "left" in said
            if "failed" in said:
                self._fail(said["failed"], said["rank"])

    def _lose(self, peer, error):
        self._peers.discard(peer)
        self._selector.unregister(peer.connection)
        peer.connection.close()
        gone = heartbeat_sockets.closed_by_peer(error)
        if gone and peer.left:
            return
        if gone:
            text = ("{} is gone: its process has ended without leaving the job; it was killed, or its host went "
                    "down.").format(named(peer.rank))
        else:
            text = ("{} is gone: its host has not answered {} for {:g} s (SOK1X_HEARTBEAT_SECONDS); it is down, or the "
                    "network between the two is cut ({}).").format(
                        named(peer.rank), named(self._rank), self._seconds, error.strerror)
        self._fail(text, peer.rank)

    def _fail(self, text, rank):
        if not self._told:
            self._told = True
            self._tell({"failed": text, "rank": rank})
            self._failed(text, rank)

    def _tell(self, said):
        for peer in list(self._peers):
            self._send(peer, _line(said))

    @staticmethod
    def _send(peer, data):
        """Sends a few bytes. A connection on which they cannot go is broken, as will be heard of."""
        try:
            peer.connection.send(data)
        except OSError:
            pass


def _line(said):
    return json.dumps(said).encode() + b"\n"

