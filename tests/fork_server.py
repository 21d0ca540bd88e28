"""Has TensorFlow imported, and forks a process for each program that tests start: `fork_server.py SOCKET`.

TensorFlow's import is most of what a small program costs, and tests start hundreds of them. A process forked here is
what `python PROGRAM` is once it has imported TensorFlow: it has the environment, folder, descriptors, cores and
namespaces (tests/hosts) of the process that asks for it (forked.py), random numbers, `__main__` and `sys.path` of its
own, and one thread. The server ends when its stdin does.
"""
import array
import ctypes
import fcntl
import json
import os
import random
import select
import signal
import socket
import sys
from importlib.machinery import BuiltinImporter, SourceFileLoader

import numpy as np
import tensorflow  # noqa: F401

F_SETSIG = 10


def received(connection):
    """What forked.py has sent: a dict, and descriptors."""
    descriptors = array.array("i")
    text, ancillary, _, _ = connection.recvmsg(1 << 16, socket.CMSG_SPACE(4 * descriptors.itemsize))
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    more = text
    while more:
        more = connection.recv(1 << 16)
        text += more
    return json.loads(text.decode()), list(descriptors)


def enter_namespaces(pid):
    """Those of the process that asks: a host of tests/hosts is its network, its name and what is mounted."""
    theirs, libc = "/proc/{}/ns/".format(pid), ctypes.CDLL(None, use_errno=True)
    different = [name for name in ("net", "uts", "mnt") if os.readlink(theirs + name) != os.readlink(
        "/proc/self/ns/" + name)]
    entrances = [os.open(theirs + name, os.O_RDONLY) for name in different]  # before /proc is another's
    for entrance in entrances:
        if libc.setns(entrance, 0):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(entrance)


def become(asked, descriptors):
    """Makes this process, just forked, the one that was asked for."""
    enter_namespaces(asked["pid"])
    for target, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, target)
        os.close(descriptor)
    # Who kills the process that asked, kills this one: SIGKILL comes when the last writer of a pipe is gone.
    alive = descriptors[3]
    os.set_inheritable(alive, False)
    fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(alive, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(alive, fcntl.F_SETFL, fcntl.fcntl(alive, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([alive], [], [], 0)[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    os.environ.clear()
    os.environ.update(asked["environ"])
    os.chdir(asked["cwd"])
    os.sched_setaffinity(0, asked["affinity"])
    random.seed()
    np.random.seed()


def code_of(argv):
    """The code of `python ARGV...`, and the file that it is from; sets sys.argv and sys.path as Python does."""
    if argv[0] == "-c":
        sys.argv, sys.path[0] = ["-c"] + argv[2:], ""
        return compile(argv[1], "<string>", "exec"), None
    sys.argv, sys.path[0] = argv, os.path.dirname(os.path.realpath(argv[0]))
    with open(argv[0], "rb") as file:
        return compile(file.read(), argv[0], "exec"), argv[0]


def serve(path):
    """Forks whenever asked, and tells of each end. Returns in forked processes alone: what was asked for."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    ended, note = os.pipe()
    os.set_blocking(note, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(note)
    print("ready", flush=True)
    children = {}
    while True:
        ready = select.select([listener, ended, sys.stdin], [], [])[0]
        if sys.stdin in ready:
            os.unlink(path)
            try:
                os.rmdir(os.path.dirname(path))
            except OSError:  # the other server is still there
                pass
            os._exit(0)
        if ended in ready:
            os.read(ended, 4096)
            for pid, connection in list(children.items()):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    tell(connection, status)
                    children.pop(pid).close()
        if listener in ready:
            connection, _ = listener.accept()
            asked, descriptors = received(connection)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                # Also where the tests run behind a shell's back, which has them ignore it.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for other in [connection, listener] + list(children.values()):
                    other.close()
                os.close(ended)
                os.close(note)
                become(asked, descriptors)
                return asked["argv"]
            for descriptor in descriptors:
                os.close(descriptor)
            children[pid] = connection
            tell(connection, pid)


def tell(connection, number):
    """Sends a line to forked.py, which may have been killed."""
    try:
        connection.sendall(b"%d\n" % number)
    except BrokenPipeError:
        pass


def main():
    code, file = code_of(serve(sys.argv[1]))
    names = sys.modules["__main__"].__dict__
    # By a module's loader Python finds its source.
    loader = SourceFileLoader("__main__", file) if file else BuiltinImporter
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    names.pop("__file__")
    names.update({"__doc__": None, "__loader__": loader}, **{"__file__": file} if file else {})
    exec(code, names)


if __name__ == "__main__":
    main()
