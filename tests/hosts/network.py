"""Hosts on one machine: network namespaces with interfaces, addresses and names of their own, and a bridge.

    with network.Network(2, slots=2) as hosts:
        finished = hosts.run(4, "program.py", "argument")

A host is a network, a hostname and a mount namespace: its processes see their own `eth0`, /dev/shm and /etc/hosts, and
no other interface; so nothing leaves the machine, nor the namespaces. The bridge is in a namespace of its own. mpiexec
runs on the first host, and `agent.sh`, in place of ssh, starts its daemons on the others.

All of it goes when this process does, however it ends: by a process that waits for that (`_Cleaner`).
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ranks import environment, python
from running import Running
from wire import Wire

HERE = os.path.dirname(os.path.abspath(__file__))
LETTERS = "abcdefgh"
# What of the environment goes to every host, as `mpiexec -x` does it: the agent starts with none, as ssh does.
_EXPORTED = ("OMP_", "PYTHON", "SETUPTOOLS_", "SOK1X_", "TF_", "HOROVOD_", "MALLOC_", "TMPDIR")
_HOLD = """
hostname "$1"
mount -t tmpfs -o size=512m tmpfs /dev/shm
mount --bind "$2/etc_hosts" /etc/hosts
shift 2
for folder; do mount -t tmpfs tmpfs "$folder"; done
echo ready
exec cat
"""


class Unavailable(Exception):
    """Why this machine cannot have such hosts."""


def _do(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode:
        raise Unavailable("`{}` ended with code {}: {}".format(" ".join(command), done.returncode, done.stdout.strip()))
    return done.stdout


def expect_possible():
    """Raises Unavailable, with the reason, where hosts cannot be made."""
    if not sys.platform.startswith("linux"):
        raise Unavailable("network namespaces are Linux's")
    for tool in ("ip", "unshare", "nsenter", "mpiexec"):
        if shutil.which(tool) is None:
            raise Unavailable("there is no `{}` here".format(tool))
    name = "sok1x-{}-try".format(os.getpid())
    try:
        _do("ip", "netns", "add", name)
        _do("ip", "netns", "exec", name, "unshare", "--uts", "--mount", "sh", "-c",
            "hostname tried && mount -t tmpfs tmpfs /dev/shm && ip link add va type veth peer name vb && "
            "ip link add bridge0 type bridge")
    finally:
        subprocess.run(["ip", "netns", "del", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class _Cleaner:
    """Removes namespaces, and all that runs in them, when this process ends or `close` is called."""

    def __init__(self, namespaces, folder):
        self._child = subprocess.Popen(["sh", os.path.join(HERE, "clean.sh"), folder] + namespaces,
                                       stdin=subprocess.PIPE, start_new_session=True)

    def close(self):
        self._child.stdin.close()
        self._child.wait(60)


def _threads(pid):
    try:
        return len(os.listdir("/proc/{}/task".format(pid)))
    except FileNotFoundError:
        return 0


class Host:
    """One of the hosts. Attributes: name, address, namespace."""

    def __init__(self, network, number):
        self.name, self.address = "host" + LETTERS[number], "10.77.0.{}".format(number + 1)
        self.namespace = network.prefix + self.name
        self._network, self._holder = network, None

    def hold(self, private):
        """Makes the namespaces besides the network's, and a process that keeps them until it is killed."""
        folder = self._network.folder
        self._holder = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "--mount", "sh", "-ec", _HOLD, "sh", self.name,
             folder] + [str(path) for path in private], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._holder.stdout.readline() != b"ready\n":
            raise Unavailable("host {} could not be made".format(self.name))
        with open(os.path.join(folder, self.name + ".pid"), "w") as file:
            file.write(str(self._holder.pid))

    def entering(self):
        """The words before a command that is to run on this host."""
        return ["ip", "netns", "exec", self.namespace, "nsenter", "--target", str(self._holder.pid), "--uts", "--mount",
                "--"]

    def output(self, *command):
        """What a command writes on this host."""
        return _do(*self.entering(), *command)

    def received(self):
        """Bytes that have come to this host from others, by its interface's counter."""
        return int(self.output("cat", "/sys/class/net/eth0/statistics/rx_bytes"))

    def vanish(self):
        """Kills every process of the host.

        As on a host that loses its power none hears of another's end: so all are stopped first, and those with many
        threads, the ranks, are killed a second before mpiexec's daemon, whose end has mpiexec kill the other ranks.
        """
        pids = _do("ip", "netns", "pids", self.namespace).split()
        ranks = [pid for pid in pids if _threads(pid) > 4]
        for number, some in ((signal.SIGSTOP, pids), (signal.SIGKILL, ranks), (signal.SIGKILL, pids)):
            for pid in some:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), number)
            if some is ranks:
                until = time.monotonic() + 10
                while any(_threads(pid) for pid in ranks) and time.monotonic() < until:
                    time.sleep(0.01)
                time.sleep(1)


class Network:
    """Hosts and the bridge between them; a context manager.

    Args:
        count: Number of hosts.
        slots: Ranks a host, in the hostfile.
        private: Folders that each host has for itself, empty at first.
        wires: Whether the hosts' links are processes of ours, which lose and delay packets as told (wire.py).

    Attributes: hosts, folder, prefix, hostfile, agent; wires: one for each host, with `wires`.
    """

    def __init__(self, count, slots=1, private=(), wires=False):
        expect_possible()
        self.folder = tempfile.mkdtemp(prefix="sok1x_hosts_")
        self.prefix = "sok1x-{}-{}-".format(os.getpid(), os.path.basename(self.folder)[-4:])
        self.hosts = [Host(self, number) for number in range(count)]
        self.slots = slots
        self._switch, self.wires = self.prefix + "switch", []
        self._cleaner = _Cleaner([host.namespace for host in self.hosts] + [self._switch], self.folder)
        try:
            self._make(slots, private, wires)
        except BaseException:
            self.close()
            raise

    def _make(self, slots, private, wires):
        self._write("etc_hosts", "127.0.0.1 localhost\n" + "".join(
            "{} {}\n".format(host.address, host.name) for host in self.hosts))
        self.hostfile = self._write("hostfile", "".join(
            "{} slots={}\n".format(host.name, slots) for host in self.hosts))
        switch = ["ip", "-n", self._switch]
        _do("ip", "netns", "add", self._switch)
        _do(*switch, "link", "add", "bridge0", "type", "bridge")
        _do(*switch, "link", "set", "bridge0", "up")
        for host in self.hosts:  # before any of them has mounts of its own, so that each knows the others' names
            _do("ip", "netns", "add", host.namespace)
        for host in self.hosts:
            if wires:
                self.wires.append(Wire(host.namespace, "eth0", self._switch, host.name))
            else:
                _do("ip", "link", "add", "eth0", "netns", host.namespace, "type", "veth", "peer", "name", host.name,
                    "netns", self._switch)
            _do(*switch, "link", "set", host.name, "master", "bridge0", "up")
            inside = ["ip", "-n", host.namespace]
            _do(*inside, "link", "set", "lo", "up")
            _do(*inside, "addr", "add", host.address + "/24", "dev", "eth0")
            _do(*inside, "link", "set", "eth0", "up")
            host.hold(private)
        # In place of ssh, to mpiexec by its name here and to horovodrun by its own.
        self.agent = self._write("ssh", "#!/bin/sh\nexec sh {}/agent.sh {} {} \"$@\"\n".format(
            HERE, self.folder, self.prefix))
        os.chmod(self.agent, 0o755)

    def _write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def close(self):
        """Removes all of it."""
        self._cleaner.close()
        for wire in self.wires:
            wire.close()
        for child in [host._holder for host in self.hosts if host._holder is not None]:
            child.kill()
            child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def python(values):
        """The words that run a program's file on any host: in a process that has imported TensorFlow already."""
        return python(__file__, values)[:-1]

    def start(self, ranks, program, *arguments, env=None, mpiexec=("--bind-to", "none"), fresh=False, hostfile=True):
        """Starts mpiexec on the first host; a Running.

        Args:
            ranks: Number of ranks, placed as the hostfile has it.
            program: Path of a Python file; or a list of words: any program.
            arguments: Of the program.
            env: Dict of variables for all ranks, and for mpiexec.
            mpiexec: More words for mpiexec.
            fresh: Whether each rank is a Python process of its own.
        """
        values = environment(env)
        words = list(program) if isinstance(program, (list, tuple)) else (
            [sys.executable] if fresh else self.python(values)) + [program]
        exported = [word for name in sorted(values) if name.startswith(_EXPORTED) for word in ("-x", name)]
        command = self.hosts[0].entering() + ["mpiexec", "-np", str(ranks)] + (
            ["--hostfile", self.hostfile] if hostfile else []) + exported + list(mpiexec)
        return self.start_command(command + words + [str(argument) for argument in arguments], values)

    def start_command(self, command, values):
        """Starts a command whose words begin with a host's `entering`; ssh is the agent there. A Running."""
        values = dict(values, OMPI_MCA_plm_rsh_agent=self.agent, PATH=self.folder + os.pathsep + values["PATH"])
        return Running(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=values,
                                        universal_newlines=True, start_new_session=True), self)

    def run(self, *arguments, timeout=120, check=True, **options):
        """As `start`, to the end: a ranks.Finished. `check` asserts exit code 0."""
        finished = self.start(*arguments, **options).finish(timeout)
        if check:
            assert finished.code == 0, str(finished)
        return finished


def reports(finished):
    """The ranks' lines of JSON, in rank order."""
    lines = [json.loads(line) for line in finished.out.splitlines() if line.startswith("{")]
    return sorted(lines, key=lambda line: line["rank"])
