"""Ranks of several hosts watch over each other; tests/hosts has real networks between them, and what breaks there."""
import errno
import os
import queue
import signal
import socket
import subprocess
import sys
import time

import pytest
from ranks import environment

from sok1x.launch import heartbeat_sockets, hosts
from sok1x.launch.environment import heartbeat_port, heartbeat_seconds
from sok1x.launch.errors import LaunchError
from sok1x.launch.heartbeat import Heartbeat

TOKEN = b"0123456789abcdef"
SECONDS = 60.0


class Ranks:
    """Three ranks, each of a host of its own or the first two of one: what each is told of those that are gone."""

    def __init__(self, spread):
        listeners = {rank: heartbeat_sockets.Listener(0) for rank in ((0, 1, 2) if spread else (0, 2))}
        places = {rank: {"addresses": ["127.0.0.1"], "port": one.place["port"]} for rank, one in listeners.items()}
        self.heard = [queue.Queue() for _ in range(3)]
        self.warned = queue.Queue()
        heads = [{head: places[head] for head in places if head < rank} for rank in range(3)]
        self.beats = [Heartbeat(rank, TOKEN, listeners.get(rank), heads[rank],
                                SECONDS, lambda text, gone, rank=rank: self.heard[rank].put((text, gone)),
                                self.warned.put) for rank in range(3)]
        self.places = places
        for beat in self.beats:
            beat.begin()
        expected = [[1, 2], [0, 2], [0, 1]] if spread else [[1, 2], [0], [0]]
        until = time.monotonic() + 60
        while [beat.peers for beat in self.beats] != expected:
            assert time.monotonic() < until, [beat.peers for beat in self.beats]
            time.sleep(0.01)

    def close(self):
        for beat in self.beats:
            if beat.is_alive():
                beat.close()
        assert self.warned.empty()


@pytest.fixture(params=[True, False], ids=["three_hosts", "two_hosts"])
def ranks(request):
    made = Ranks(request.param)
    yield made
    made.close()


def test_a_rank_that_is_gone_is_named_by_all(ranks):
    """With two hosts rank 1 has no connection to rank 2: it hears of it from rank 0."""
    hosts.know(["one", "one", "other"])
    try:
        ranks.beats[2].close()
        for heard in ranks.heard[:2]:
            text, gone = heard.get(timeout=60)
            assert gone == 2 and text.startswith("rank 2 (host other) is gone"), text
        ranks.beats[0].close()
        time.sleep(0.1)
        assert ranks.heard[1].empty(), "only the first is told of"
    finally:
        hosts.know(["one"])


def test_ranks_that_leave_are_not_missed(ranks):
    for rank in (2, 0, 1):
        ranks.beats[rank].leave()
        ranks.beats[rank].close()
    assert all(heard.empty() for heard in ranks.heard)


def test_strangers_change_nothing(ranks):
    """Somebody else at the port: silent, talking nonsense, with another job's token, or gone at once."""
    at = "127.0.0.1", ranks.places[0]["port"]
    with socket.create_connection(at), socket.create_connection(at) as gone:
        gone.close()
        other_job = heartbeat_sockets.hello(b"f" * 16, 1, 0)
        meant_for_another = heartbeat_sockets.hello(TOKEN, 1, 2)
        for said in (b"GET / HTTP/1.0\r\n\r\n".ljust(heartbeat_sockets.HELLO_BYTES), other_job, meant_for_another):
            with socket.create_connection(at) as stranger:
                stranger.settimeout(60)
                stranger.sendall(said)
                assert stranger.recv(100) == b"", "closed without a word"
        assert heartbeat_sockets.connect(ranks.places[0], b"f" * 16, 1, 0, SECONDS) is None
        # It is nobody's port: the answer is no rank's.
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen(1)
            child = os.fork()
            if child == 0:
                other.accept()[0].sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                os._exit(0)
            place = {"addresses": ["127.0.0.1"], "port": other.getsockname()[1]}
            assert heartbeat_sockets.connect(place, TOKEN, 1, 0, SECONDS) is None
            os.waitpid(child, 0)
        assert all(heard.empty() for heard in ranks.heard) and ranks.beats[0].is_alive()
    ranks.beats[1].close()
    assert ranks.heard[0].get(timeout=60)[1] == 1, "the watch goes on"


class ListenerAt:
    """A host that has this address only."""

    def __init__(self, address, port):
        self.socket = socket.socket()
        self.socket.bind((address, port))
        self.socket.listen(10)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]


def listeners_at_one_port(one, other):
    """A port that is free at one address may be another test's, or anybody's, at the other one."""
    while True:
        first = ListenerAt(one, 0)
        try:
            return first, ListenerAt(other, first.port)
        except OSError as error:
            first.socket.close()
            if error.errno != errno.EADDRINUSE:
                raise


def test_hosts_that_have_an_address_in_common():
    """As docker0's: who connects there, by one port for all, reaches itself."""
    first, second = listeners_at_one_port("127.0.0.2", "127.0.0.1")
    place = {"addresses": ["127.0.0.1", "127.0.0.2"], "port": first.port}
    heard = queue.Queue()
    beats = [Heartbeat(rank, TOKEN, listener, heads, SECONDS, lambda *gone: heard.put(gone), heard.put)
             for rank, listener, heads in ((0, first, {}), (2, second, {0: place}))]
    for beat in beats:
        beat.begin()
    until = time.monotonic() + 60
    while [beat.peers for beat in beats] != [[2], [0]]:
        assert time.monotonic() < until, [beat.peers for beat in beats]
        time.sleep(0.01)
    time.sleep(0.2)
    assert heard.empty(), heard.get()
    beats[1].close()
    assert heard.get(timeout=60)[1] == 2
    beats[0].close()


def test_a_connection_for_which_there_is_no_file_is_not_asked_for_all_the_time():
    listener, asked = ListenerAt("127.0.0.1", 0), []
    real = listener.socket

    class Full:
        """The process has as many files as it may."""
        fileno, close = real.fileno, real.close

        @staticmethod
        def accept():
            asked.append(time.monotonic())
            if len(asked) < 4:
                raise OSError(errno.EMFILE, "Too many open files")
            return real.accept()

    listener.socket = Full
    beat = Heartbeat(0, TOKEN, listener, {}, SECONDS, None)
    beat.begin()
    connection = heartbeat_sockets.connect({"addresses": ["127.0.0.1"], "port": listener.port}, TOKEN, 1, 0, SECONDS)
    with connection:
        assert asked[3] - asked[0] > 0.25
        connection.sendall(b'{"left": true}\n')
    beat.close()


def test_a_forked_child_does_not_hold_connections(ranks):
    """As a process that reads data would, after its rank has been killed."""
    pipe, others = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(others)
        os.read(pipe, 1)
        os._exit(0)
    ranks.beats[2].close()
    assert ranks.heard[0].get(timeout=60)[1] == 2
    os.close(others)
    os.waitpid(child, 0)


def test_the_kernel_asks():
    with socket.socket() as one:
        heartbeat_sockets.watch_over(one, 30.0)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for option, value in ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_USER_TIMEOUT, 30000)):
            assert one.getsockopt(socket.IPPROTO_TCP, option) == value
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) * 5 > 30, "the time alone counts"
    assert [heartbeat_sockets.interval(seconds) for seconds in (0.5, 6, 30, 600)] == [1, 1, 5, 100]


def test_addresses_are_those_that_others_can_reach():
    found = heartbeat_sockets.addresses()
    assert not [address for address in found if address.startswith(("127.", "fe80"))]
    said = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, universal_newlines=True).stdout.split()
    assert set(said) & set(found) or not said


def test_settings(monkeypatch):
    assert (heartbeat_seconds(), heartbeat_port()) == (30.0, 0)
    monkeypatch.setenv("SOK1X_HEARTBEAT_SECONDS", "0")
    monkeypatch.setenv("SOK1X_HEARTBEAT_PORT", "7777")
    assert (heartbeat_seconds(), heartbeat_port()) == (None, 7777)
    for port in ("70000", "-1", "ssh", "\u00b2"):
        monkeypatch.setenv("SOK1X_HEARTBEAT_PORT", port)
        with pytest.raises(LaunchError, match="SOK1X_HEARTBEAT_PORT must be a port, 1 to 65535, or 0 for any; got "
                                              "'{}'".format(port)):
            heartbeat_port()


def test_ranks_with_their_hosts():
    hosts.know(["a", "a", "a", "a", "b", "b"])
    try:
        assert hosts.named(4) == "rank 4 (host b)" and hosts.named(-1) == "rank -1" and hosts.named(9) == "rank 9"
        assert hosts.rank_list([1]) == "rank 1 (host a)"
        assert hosts.described() == {"hosts": "a (ranks 0-3), b (ranks 4, 5)"}
        assert hosts.rank_list([5, 0, 1, 2, 4]) == "ranks 0-2 (host a), 4, 5 (host b)"
    finally:
        hosts.know(["a", "a"])
    assert hosts.described() == {} and hosts.starting(1) == "Rank 1"
    assert hosts.named(1) == "rank 1" and hosts.rank_list([0, 1, 2]) == "ranks 0-2"
    assert hosts.several({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert not hosts.several({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"})
    assert hosts.several({"SLURM_STEP_NUM_NODES": "2"}) and not hosts.several({})


@pytest.mark.parametrize("name", ["mpiexec", "bash"])
def test_a_launcher_that_stays_is_asked_to_end(tmp_path, name):
    """It has started a shell, and that a rank which leaves; nobody asks what is no launcher."""
    launcher = tmp_path / name
    launcher.symlink_to("/bin/bash")
    said = subprocess.Popen(
        [str(launcher), "-c", "trap 'echo asked; exit 3' TERM; sh -c '\"$@\"; exit 0' sh \"$@\"; echo stays; "
         "read -t $STAYS never; echo over", "x", sys.executable, "-c",
         "from sok1x.launch import orphans; orphans.see_off_launcher(1.0)"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True,
        env=environment({"STAYS": "60" if name == "mpiexec" else "2.5"}))
    out = said.stdout.read()
    assert said.wait(60) == (3 if name == "mpiexec" else 0), out
    assert out == "stays\n" + ("asked\n" if name == "mpiexec" else "over\n")
    assert signal.SIGTERM not in signal.sigpending()
