"""Bad networks and lost hosts: right values to the last bit, or every rank that is left ends and says whom it misses.

Never a hang, never other values. The wires are processes of ours (wire.cc), for few machines have Linux's netem.
"""
import os
import re
import signal
import socket
import subprocess
import time

import pytest
from network import HERE, Network, reports
from ranks import environment

PROGRAM = os.path.join(HERE, "program_hosts.py")
SILENT = 4.0
# Short times for tests; what a user has is in README's words: 30 s, 5 s.
SHORT = {"SOK1X_HEARTBEAT_SECONDS": str(SILENT), "SOK1X_GRACE_SECONDS": "2"}
# The kernel asks every SILENT / 6 s, a second at least; a rank ends after the grace, and on a busy machine not at once.
ENDS = SILENT + 1 + 2 + 20


@pytest.fixture(scope="module")
def two_hosts():
    with Network(2, 1, wires=True) as made:
        yield made


@pytest.fixture(autouse=True)
def perfect_again(request):
    yield
    for hosts in [request.getfixturevalue(name) for name in ("two_hosts",) if name in request.fixturenames]:
        for wire in hosts.wires:
            wire.become()


@pytest.fixture(scope="module")
def undisturbed(two_hosts):
    """What a run of so many steps reports where nothing is wrong."""
    known = {}

    def run(steps):
        if steps not in known:
            known[steps] = bits(two_hosts.run(2, PROGRAM, "--steps", steps))
        return known[steps]
    return run


def bits(finished):
    return [(one["rank"], one["tables"], one["dense"], one["losses"]) for one in reports(finished)]


def messages(hosts, tmp_path):
    """What each rank has written about its end: {rank: text}. Ranks that are cut off cannot write to mpiexec."""
    return {rank: (tmp_path / "err.{}".format(rank)).read_text() for rank in range(len(hosts.hosts) * hosts.slots)}


def start(hosts, tmp_path, *arguments, env=None, fresh=False):
    """A job whose ranks leave what they write to stderr, and their exit codes, in files."""
    shell = 'exec 2>"$0/err.$OMPI_COMM_WORLD_RANK"; "$@"; echo $? >"$0/code.$OMPI_COMM_WORLD_RANK"'
    values = environment(env)
    python = [os.path.join(os.path.dirname(os.path.dirname(HERE)), ".venv", "bin", "python")]
    words = ["sh", "-c", shell, str(tmp_path)] + (python if fresh else hosts.python(values)) + [PROGRAM]
    return hosts.start(len(hosts.hosts) * hosts.slots, words, *arguments, env=env)


def wait_for_ends(tmp_path, ranks, limit):
    """Waits until these ranks have ended; their exit codes."""
    until = time.monotonic() + limit
    paths = [tmp_path / "code.{}".format(rank) for rank in ranks]
    while not all(path.exists() and path.read_text() for path in paths):
        assert time.monotonic() < until, "ranks {} run after {} s: {}".format(
            ranks, limit, [path.read_text() for path in tmp_path.glob("err.*")])
        time.sleep(0.1)
    return [int(path.read_text()) for path in paths]


def test_the_wire_does_what_it_is_told(two_hosts):
    """Else the tests below could not fail: packets between the hosts, counted and timed."""
    text = ("import socket, sys, time\n"
            "ends = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); ends.bind(('', 7000)); ends.settimeout(1.5)\n"
            "ends.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE: room for all\n"
            "if sys.argv[1] == 'echo':\n"
            "    print('ready', flush=True); ends.settimeout(None)\n"
            "    while True: ends.sendto(*ends.recvfrom(2000))\n"
            "started, came, times = time.time(), set(), []\n"
            "for i in range(300):\n"
            "    ends.sendto(b'%d' % i + b'.' * 1000, ('hostb', 7000)); time.sleep(0.001)\n"
            "try:\n"
            "    while len(came) < 300: came.add(ends.recv(2000)); times.append(time.time() - started)\n"
            "except socket.timeout: pass\n"
            "print(len(came), times[0] if times else 0, times[-1] if times else 0)\n")
    hosts, python = two_hosts.hosts, environment()["PYTHONPATH"] and [os.sys.executable]
    echo = subprocess.Popen(hosts[1].entering() + python + ["-c", text, "echo"], stdout=subprocess.PIPE)
    assert echo.stdout.readline() == b"ready\n"
    try:
        def send(**conditions):
            two_hosts.wires[1].become(**conditions)
            came, first, last = hosts[0].output(*python, "-c", text, "send").split()
            return int(came), float(first), float(last)

        assert send()[0] == 300
        assert 150 <= send(loss=0.1)[0] < 300, "243 are expected; each is lost on the way there or back"
        came, first, _ = send(delay=0.1)
        assert came == 300 and first >= 0.2
        # A queue of a quarter of a second; 300 packets take 8 s at this rate, and 0.3 s to send, or some times as long.
        assert 5 <= send(bits_per_second=3e5)[0] < 200
        assert send(cut=True)[0] == 0
        assert send()[0] == 300
    finally:
        echo.kill()
        echo.wait()


BAD = {"loses_10_percent": (dict(loss=0.1), 12), "takes_50_ms": (dict(delay=0.05), 12)}
WORSE = {"loses_1_percent": (dict(loss=0.01), 40), "takes_1_ms": (dict(delay=0.001), 40),
         "takes_200_ms": (dict(delay=0.2), 40), "100_megabit": (dict(bits_per_second=1e8), 40),
         "loses_10_percent_and_takes_200_ms": (dict(loss=0.1, delay=0.2), 12)}


@pytest.mark.parametrize("name", list(BAD) + [pytest.param(name, marks=pytest.mark.slow) for name in WORSE])
def test_a_bad_network_changes_no_value(two_hosts, undisturbed, name):
    """From the first packet on: also what starts the job goes over it. (mpiexec itself is on the first host.)"""
    conditions, steps = {**BAD, **WORSE}[name]
    expected = undisturbed(steps)
    two_hosts.wires[1].become(**conditions)
    assert bits(two_hosts.run(2, PROGRAM, "--steps", steps, timeout=600)) == expected


def cut_for(hosts, tmp_path, seconds, steps, env):
    """Cuts the link once the job trains, and mends it; the job goes on for longer than that in any case."""
    job = start(hosts, tmp_path, "--steps", steps, "--pause", max(0.05, 1.5 * seconds / steps), env=env)
    job.expect("begun", 2)
    hosts.wires[1].become(cut=True)
    time.sleep(seconds)
    assert len(re.findall('"rank"', job.out)) == 0, "the job was over before the link was mended"
    hosts.wires[1].become()
    return job


@pytest.mark.parametrize("seconds, steps", [(1, 30), pytest.param(10, 30, marks=pytest.mark.slow),
                                            pytest.param(60, 30, marks=pytest.mark.slow)])
def test_a_link_that_comes_back(two_hosts, undisturbed, tmp_path, seconds, steps):
    """In time, that is: the job goes on, to the same end."""
    expected = undisturbed(steps)
    job = cut_for(two_hosts, tmp_path, seconds, steps, {"SOK1X_HEARTBEAT_SECONDS": str(2 * seconds + 30)})
    finished = job.finish(seconds * 4 + 120)
    assert finished.code == 0 and bits(finished) == expected, str(finished)


@pytest.mark.slow
def test_a_link_that_comes_back_too_late(two_hosts, tmp_path):
    """After 60 s, where 30 are the limit (the default): every rank has ended before, and mpiexec with them."""
    job = cut_for(two_hosts, tmp_path, 60, 300, {})
    assert wait_for_ends(tmp_path, [0, 1], 10) == [1, 1]
    assert job.finish(30).code != 0
    for rank, text in messages(two_hosts, tmp_path).items():
        assert "has not answered" in text and "for 30 s (SOK1X_HEARTBEAT_SECONDS)" in text


def test_a_host_that_is_cut_off_for_good(tmp_path):
    """Both sides end by themselves, though mpiexec cannot tell the other one to; and so does what started them."""
    with Network(2, 1, wires=True) as hosts:
        job = start(hosts, tmp_path, "--steps", 100000, env=SHORT, fresh=True)
        job.expect("begun", 2)
        hosts.wires[1].become(cut=True)
        began = time.monotonic()
        assert wait_for_ends(tmp_path, [0, 1], ENDS) == [1, 1]
        assert time.monotonic() - began >= SILENT - 0.1
        for rank, text in messages(hosts, tmp_path).items():
            one, other = ("rank {} (host host{})".format(number, "ab"[number]) for number in (rank, 1 - rank))
            line = ("sok1x: {0}: {1} is gone: its host has not answered {0} for 4 s (SOK1X_HEARTBEAT_SECONDS); it is "
                    "down, or the network between the two is cut").format(one, other)
            assert line in text, text
        assert job.finish(60).code != 0
        until = time.monotonic() + 60
        while "orted" in running(hosts.hosts[1]):
            assert time.monotonic() < until, running(hosts.hosts[1])
            time.sleep(0.2)


def running(host):
    """Names of the processes on a host."""
    pids = subprocess.check_output(["ip", "netns", "pids", host.namespace]).split()
    return subprocess.run(["ps", "-o", "comm=", "-p", b",".join(pids).decode()], stdout=subprocess.PIPE,
                          universal_newlines=True).stdout.split()


def test_a_host_whose_processes_die(tmp_path):
    """The others end at once, and say which rank on which host is gone."""
    with Network(3, 1) as hosts:
        job = hosts.start(3, PROGRAM, "--steps", 100000, env=SHORT)
        job.expect("begun", 3)
        hosts.hosts[1].vanish()
        finished = job.finish(60)
        assert finished.code != 0
        for one, name in enumerate("ac"):
            assert ("sok1x: rank {} (host host{}): rank 1 (host hostb) is gone: its process has ended without leaving "
                    "the job").format(2 * one, name) in finished.err, str(finished)


def test_a_rank_that_is_busy_or_stopped_is_not_gone(two_hosts, undisturbed, tmp_path):
    """A debugger's stop, for three times as long as a host may be silent: no thread of the process runs."""
    expected = undisturbed(30)
    job = start(two_hosts, tmp_path, "--steps", 30, "--pause", 0.1, env=dict(SHORT, SOK1X_HEARTBEAT_SECONDS="1"))
    job.expect("begun", 2)
    stopped = ranks_of(two_hosts.hosts[1])
    assert len(stopped) == 1
    os.kill(stopped[0], signal.SIGSTOP)
    time.sleep(6)
    os.kill(stopped[0], signal.SIGCONT)
    finished = job.finish(120)
    assert finished.code == 0 and bits(finished) == expected, str(finished) + str(messages(two_hosts, tmp_path))


def ranks_of(host):
    """The processes that train on a host: those with many threads."""
    pids = [int(pid) for pid in subprocess.check_output(["ip", "netns", "pids", host.namespace]).split()]
    return [pid for pid in pids if len(os.listdir("/proc/{}/task".format(pid))) > 4]


def test_a_slow_host_is_named(two_hosts, tmp_path):
    """By the ranks that wait for it, with what it is at."""
    job = start(two_hosts, tmp_path, "--steps", 6, "--slow", 4, env={"SOK1X_STALL_SECONDS": "1"})
    assert job.finish(120).code == 0
    text = messages(two_hosts, tmp_path)[0]
    assert re.search(r"sok1x: rank 0 \(host hosta\): op '.*' has waited \d s for rank 1 \(host hostb\)\. "
                     r"Rank 1 \(host hostb\) has announced no op since", text), text


def test_a_firewall_before_the_heartbeat(tmp_path):
    """The job runs; a rank says what to open, and that lost hosts will not be noticed."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        assert taken.getsockname()[1]
    with Network(2, 1) as hosts:
        blocker = subprocess.Popen(hosts.hosts[0].entering() + [os.sys.executable, "-c", (
            "import socket; one = socket.socket(socket.AF_INET6); one.bind(('::', 4567)); one.listen(1); "
            "print('ready', flush=True); input()")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert blocker.stdout.readline() == b"ready\n"
        finished = hosts.run(2, PROGRAM, env={"SOK1X_HEARTBEAT_PORT": "4567"})
        assert re.search(r"sok1x: rank 0 \(host hosta\): no port to hear of other hosts' ranks could be had "
                         r"\(SOK1X_HEARTBEAT_PORT=4567\)", finished.err), str(finished)
        assert [one["peers"] for one in reports(finished)] == [[], []]
        blocker.communicate(b"\n")
        assert [one["peers"] for one in reports(hosts.run(2, PROGRAM, env={"SOK1X_HEARTBEAT_PORT": "4567"}))] == [
            [1], [0]]
        assert [one["peers"] for one in reports(hosts.run(2, PROGRAM, env={"SOK1X_HEARTBEAT_SECONDS": "0"}))] == [
            None, None]
