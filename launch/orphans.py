"""What is left of Open MPI once a host is lost: an mpiexec, or its daemon, that waits for the other side for ever.

mpiexec ends a job by telling its daemons to. One that is cut off cannot hear that, and is waited for until Linux gives
up sending, after a quarter of an hour; the daemon there waits likewise. So a rank that has lost a host leaves a process
behind, which sees whether the launcher ends by itself, and asks it to (SIGTERM) if it does not. Run as a program:
`orphans.py SECONDS PID START`; it imports next to nothing, for it starts while the job ends.
"""
import os
import signal
import subprocess
import sys
import time

LAUNCHERS = ("mpiexec", "mpirun", "orterun", "orted")
_TIMES, _BETWEEN_SECONDS = 2, 5.0


def look(pid):
    """(name, state, parent, start time) of a process; (None, None, 0, None) where there is none."""
    try:
        with open("/proc/{}/stat".format(pid)) as file:
            before, _, after = file.read().rpartition(")")
    except OSError:
        return None, None, 0, None
    fields = after.split()
    return before.partition("(")[2], fields[0], int(fields[1]), fields[19]


def launcher_above(pid):
    """The mpiexec or daemon that a process descends from, as (pid, start time); None where there is none."""
    while pid > 1:
        name, _, parent, start = look(pid)
        if name in LAUNCHERS:
            return pid, start
        pid = parent
    return None


def see_off_launcher(seconds):
    """Has the launcher of this process asked to end if it still runs after `seconds`, in a process of its own."""
    found = launcher_above(os.getppid())
    if found is None:
        return
    try:
        # It must hold nothing of this process: mpiexec waits until nobody can write to a rank's output any more.
        subprocess.Popen([sys.executable, "-E", "-S", os.path.abspath(__file__), str(seconds), str(found[0]), found[1]],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         close_fds=True, start_new_session=True)
    except OSError:  # no more processes: the launcher goes when Linux gives up
        return


def main(seconds, pid, start):
    """Waits, then asks, as long as the process is the one that was meant."""
    for _ in range(_TIMES):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if look(pid)[3] != start:
                return
            time.sleep(0.2)
        os.kill(pid, signal.SIGTERM)
        seconds = _BETWEEN_SECONDS


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
