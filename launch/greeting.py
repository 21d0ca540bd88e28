"""What ranks tell each other when they join: who is on which host, and that all want the same."""
from typing import Any, List, NamedTuple

from . import agreement, by_hosts, environment, hosts, tree
from .lines import print_line


class Met(NamedTuple):
    """What is known then.

    Attributes:
        local_rank: This rank's number on its host. cpus: Those that each rank of this host may run on, by that number.
        first: The rank that is 0 there.
        parents: As `Coordinator` takes them.
        grouped: by_hosts.ByHosts where lookups exchange inside each host first, or None.
        exchanges: A communicator of MPI's, of all ranks.
    """

    local_rank: int
    cpus: List[List[int]]
    first: int
    parents: Any
    grouped: Any
    exchanges: Any


def greet(mpi, arguments, cpus, patience):
    """All ranks call it alike, inside the gate.

    Args:
        mpi: The process's link to MPI, as world.py has it.
        arguments: sok.Init's. cpus: Those that this rank may run on.
        patience: An agreement.Patience.

    Returns:
        What they have told, a `Met`.

    Raises:
        LaunchError: INVALID_ARGUMENT, on all ranks, where arguments or settings differ; DEADLINE_EXCEEDED where others
            do not come.
    """
    MPI = mpi.MPI
    if mpi.control is None:
        mpi.control = agreement.duplicate(MPI, MPI.COMM_WORLD, patience)
    names = agreement.exchange(MPI, mpi.control, hosts.own_name().encode(), patience)
    names = [name.decode("utf-8", "replace") for name in names]
    hosts.know(names)
    texts = agreement.exchange(MPI, mpi.control, agreement.encode(arguments), patience)
    agreement.compare_texts(texts)
    # All ranks are here now, so collective calls may block.
    shared = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    local_rank, of_host, first = shared.Get_rank(), shared.allgather(cpus), shared.bcast(mpi.rank)
    at_least, width = mpi.control.bcast((environment.tree_ranks(), environment.tree_width()))
    shared.Free()
    parents = tree.deep(names, width) if 0 < at_least <= mpi.size else None
    grouped = _grouped(mpi, first, patience)
    return Met(local_rank, of_host, first, parents, grouped, agreement.duplicate(MPI, MPI.COMM_WORLD, patience))


def _grouped(mpi, first, patience):
    """How ranks exchange by hosts, or None where they do not; they agree on it, and on what headers have."""
    wanted, whole = environment.exchange_by_hosts(), environment.whole_headers()
    told = [tuple(map(int, text.split())) for text in agreement.exchange(
        mpi.MPI, mpi.control, b"%d %d %d" % (wanted, first, whole), patience)]
    wishes, firsts, wholes = zip(*told)
    environment.one_value("SOK1X_EXCHANGE_BY_HOSTS", wishes)
    if len({mpi.size > one for one in wholes}) > 1:
        environment.one_value("SOK1X_WHOLE_HEADERS", wholes)
    grouped, why_not = by_hosts.find(wanted, firsts, mpi.rank)
    if why_not and mpi.rank == 0:
        print_line("sok1x: SOK1X_EXCHANGE_BY_HOSTS={}, but {}: every rank exchanges with every other".format(
            wanted, why_not))
    return grouped
