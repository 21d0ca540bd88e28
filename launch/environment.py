"""The environment variables that this folder reads, each in one place.

SOK1X_STALL_SECONDS   seconds that an op may wait for other ranks before they warn; 0 turns the warning off (60)
SOK1X_ABORT_SECONDS   seconds that an op may wait for other ranks before the job fails; unset: for ever
SOK1X_DEADLOCK_SECONDS  seconds after which the job fails if every rank waits for an op that another one has not
                      announced, and nothing moves on any of them; 0: never (10)
SOK1X_HEARTBEAT_SECONDS  seconds that another host may be silent before the job fails, where a job has several hosts;
                      0: nobody looks (30)
SOK1X_HEARTBEAT_PORT  the port on which the first rank of each host hears of the others'; unset: any
SOK1X_GRACE_SECONDS   seconds that a process has to end by itself after the job failed, before it is ended (5)
SOK1X_NUM_THREADS     threads of the host kernels; unset: this rank's share of the CPUs that it may run on
SOK1X_COMMUNICATOR    how GPUs exchange: nccl, mpi (through pinned host memory), or auto: NCCL where it can (auto)
SOK1X_WHOLE_HEADERS   up to how many ranks what an op tells all ranks goes through rank 0 whole; with more, counts of
                      keys go from rank to rank (8)
SOK1X_EXCHANGE_BY_HOSTS  1: lookups exchange inside each host before they do between hosts; L > 1: so many ranks that
                      follow each other are taken for a host; 0: every rank exchanges with every other (0)
SOK1X_TREE_RANKS      from how many ranks on what they say to rank 0, and its words, go by way of other ranks; 0: never.
                      Rank 0's counts for all (24)
SOK1X_TREE_WIDTH      how many ranks talk with one there. Rank 0's counts for all (3)
SOK1X_NCCL_LIBRARY    the file of NCCL's library; unset: the system's libnccl.so.2, else the wheel's

And two that others read (graph_ops/bridge/bridge_passes.h, cuda_kernels/gpu.py), checked here: SOK1X_FUSE, 0 or 1, and
SOK1X_DETERMINISTIC, 0 or 1.
"""
import os

from .errors import INVALID_ARGUMENT, LaunchError


def _seconds(name, default):
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise LaunchError(INVALID_ARGUMENT, "{} must be a number of seconds, 0 or more; got {!r}".format(name, text))
    return value


def stall_seconds():
    """Seconds before a wait is warned about (float), or None for never. Raises LaunchError for a bad value."""
    return _seconds("SOK1X_STALL_SECONDS", 60.0) or None


def abort_seconds():
    """Seconds before a wait fails the job (float), or None for never. Raises LaunchError for a bad value."""
    return _seconds("SOK1X_ABORT_SECONDS", None) or None


def deadlock_seconds():
    """Seconds before a job that cannot go on fails (float), or None for never. Raises LaunchError for a bad value."""
    return _seconds("SOK1X_DEADLOCK_SECONDS", 10.0) or None


def heartbeat_seconds():
    """Seconds that another host may be silent (float), or None for no watch. Raises LaunchError for a bad value."""
    return _seconds("SOK1X_HEARTBEAT_SECONDS", 30.0) or None


def heartbeat_port():
    """SOK1X_HEARTBEAT_PORT as an int, 0 where it is unset. Raises LaunchError for a bad value."""
    text = os.environ.get("SOK1X_HEARTBEAT_PORT", "").strip()
    if text and not (text.isdecimal() and int(text) < 65536):
        raise LaunchError(INVALID_ARGUMENT, "SOK1X_HEARTBEAT_PORT must be a port, 1 to 65535, or 0 for any; "
                          "got {!r}".format(text))
    return int(text or 0)


def grace_seconds():
    """Seconds a process has after a failure of the job to end by itself (float). Raises LaunchError for a bad one."""
    return _seconds("SOK1X_GRACE_SECONDS", 5.0)


def num_threads():
    """SOK1X_NUM_THREADS as an int, or None where it is unset. Raises LaunchError for a bad value."""
    text = os.environ.get("SOK1X_NUM_THREADS", "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise LaunchError(INVALID_ARGUMENT,
                          "SOK1X_NUM_THREADS must be a whole number, 1 or more; got {!r}".format(text))
    return int(text)


def whole_headers():
    """SOK1X_WHOLE_HEADERS, an int. Raises LaunchError for a bad value."""
    return _whole("SOK1X_WHOLE_HEADERS", "8", 0)


def _whole(name, default, least):
    text = os.environ.get(name, "").strip() or default
    if not text.isdecimal() or int(text) < least:
        raise LaunchError(INVALID_ARGUMENT, "{} must be a whole number, {} or more; got {!r}".format(name, least, text))
    return int(text)


def one_value(name, values):
    """Raises LaunchError, on all ranks alike, unless they have one value of a variable. values: of each rank."""
    if len(set(values)) > 1:
        raise LaunchError(INVALID_ARGUMENT, (
            "{0} must have one value on all ranks (mpiexec -x {0}); got {1} on the ranks in turn").format(
                name, ", ".join(map(str, values))))


def exchange_by_hosts():
    """SOK1X_EXCHANGE_BY_HOSTS, an int. Raises LaunchError for a bad value."""
    text = os.environ.get("SOK1X_EXCHANGE_BY_HOSTS", "").strip() or "0"
    if not text.isdecimal():
        raise LaunchError(INVALID_ARGUMENT, (
            "SOK1X_EXCHANGE_BY_HOSTS must be 0, 1, or a number of ranks that are taken for a host; got {!r}").format(
                text))
    return int(text)


def tree_ranks():
    """SOK1X_TREE_RANKS, an int. Raises LaunchError for a bad value."""
    return _whole("SOK1X_TREE_RANKS", "24", 0)


def tree_width():
    """SOK1X_TREE_WIDTH, an int. Raises LaunchError for a bad value."""
    return _whole("SOK1X_TREE_WIDTH", "3", 1)


def communicator():
    """SOK1X_COMMUNICATOR: 'auto', 'nccl' or 'mpi'. Raises LaunchError for another value."""
    text = os.environ.get("SOK1X_COMMUNICATOR", "").strip().lower() or "auto"
    if text not in ("auto", "nccl", "mpi"):
        raise LaunchError(INVALID_ARGUMENT, "SOK1X_COMMUNICATOR must be auto, nccl or mpi; got {!r}".format(text))
    return text


def switch(name):
    """A variable that is 0 or 1: whether it is 1, or None where it is unset. Raises LaunchError for another value."""
    text = os.environ.get(name, "").strip()
    if text not in ("", "0", "1"):
        raise LaunchError(INVALID_ARGUMENT, "{} must be 0 or 1; got {!r}".format(name, text))
    return text == "1" if text else None


def nccl_library():
    """SOK1X_NCCL_LIBRARY as a path (str), or None where it is unset."""
    return os.environ.get("SOK1X_NCCL_LIBRARY", "").strip() or None
