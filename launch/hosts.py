"""Which host each rank is on, in the words of messages: a user looks for a rank on its machine.

Where all ranks are on one host, or on hosts of one name, messages name ranks alone.
"""
import collections
import os
import socket

_names = ()


def several(environ=None):
    """Whether the launcher says that the job has ranks on other hosts too; environ: instead of os.environ (tests)."""
    environ = os.environ if environ is None else environ
    ranks = environ.get("OMPI_COMM_WORLD_SIZE")
    if ranks is not None:
        return environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", ranks) != ranks
    return environ.get("SLURM_STEP_NUM_NODES", "1") != "1"


def own_name():
    """The name of this host (str)."""
    return socket.gethostname() or "?"


def know(names):
    """From now on messages name hosts. names: that of each rank's host, in rank order."""
    global _names
    _names = tuple(names) if len(set(names)) > 1 else ()


def described():
    """{"hosts": their names and which ranks are there}, of several; {} of one."""
    by_host = collections.OrderedDict()
    for rank, name in enumerate(_names):
        by_host.setdefault(name, []).append(rank)
    return {"hosts": ", ".join("{} (rank{} {})".format(name, "s" * (len(ranks) > 1), ", ".join(_runs(ranks)))
                               for name, ranks in by_host.items())} if by_host else {}


def named(rank):
    """A rank as a user reads it: 'rank 3', or 'rank 3 (host node2)'."""
    return "rank " + _with_host(str(rank), rank)


def starting(rank):
    """As `named`, at a sentence's start: 'Rank 3'."""
    return "R" + named(rank)[1:]


def rank_list(ranks):
    """Ranks as a user reads them: [0, 2, 3, 4] -> 'ranks 0, 2-4'; or 'ranks 0 (host a), 2-4 (host b)'."""
    ranks = sorted(ranks)
    parts, first = [], 0
    for i in range(1, len(ranks) + 1):
        if i == len(ranks) or _host(ranks[i]) != _host(ranks[i - 1]):
            parts.append(_with_host(", ".join(_runs(ranks[first:i])), ranks[first]))
            first = i
    return "{} {}".format("rank" if len(ranks) == 1 else "ranks", ", ".join(parts))


def _runs(ranks):
    """[0, 2, 3, 4] -> ['0', '2-4']."""
    parts, first = [], 0
    for i in range(1, len(ranks) + 1):
        if i == len(ranks) or ranks[i] != ranks[i - 1] + 1:
            run = ranks[first:i]
            parts += ["{}-{}".format(run[0], run[-1])] if len(run) > 2 else [str(rank) for rank in run]
            first = i
    return parts


def _host(rank):
    return _names[rank] if 0 <= rank < len(_names) else None


def _with_host(text, rank):
    host = _host(rank)
    return text if host is None else "{} (host {})".format(text, host)
