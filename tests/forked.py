"""Runs a program in a process that a server (fork_server.py) forks: `forked.py SOCKETS PROGRAM ARGUMENTS...`.

PROGRAM is a file or '-c TEXT', as of `python`. To whoever starts this process it is the program: its output, signals
and end are the program's. It imports next to nothing, for it costs what it saves.
"""
import array
import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)


def asked(sockets, argv):
    """A connection to the server whose hash seed this rank has, which has been sent all that makes this process."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("{}/{}".format(sockets, int(os.environ.get("OMPI_COMM_WORLD_RANK", "0")) % 2))
    # The writing end of this pipe lives as long as this process.
    alive, _ = os.pipe()
    descriptors = array.array("i", [0, 1, 2, alive])
    text = json.dumps({"argv": argv, "environ": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid(),
                       "affinity": sorted(os.sched_getaffinity(0))}).encode()
    sent = connection.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    connection.sendall(text[sent:])
    connection.shutdown(socket.SHUT_WR)
    return connection


def main():
    connection = asked(sys.argv[1], sys.argv[2:])
    # Signals that come before there is a child wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    lines = connection.makefile()
    pid = int(lines.readline())
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    status = int(lines.readline())
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


main()
