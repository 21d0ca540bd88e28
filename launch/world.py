"""The world of a job: all its ranks, as one process sees them once sok.Init has run."""
import ctypes
import os
import threading

from . import (
    agreement,
    environment,
    failure,
    farewell,
    greeting,
    heartbeat,
    hosts,
    launcher,
    mpi_library,
    orphans,
    siblings,
)
from .coordinator import Coordinator
from .errors import DEADLINE_EXCEEDED, FAILED_PRECONDITION, INTERNAL, LaunchError
from .lines import print_line
from .local_communicator import LocalCommunicator
from .mpi_communicator import MpiCommunicator
from .mpi_transport import MpiTransport
from .pauses import spin_for_requests, spin_for_words

_PR_SET_TIMERSLACK = 29
# After a lost host, what the launcher has beyond the ranks' own time.
_LAUNCHER_SECONDS = 5.0
_lock = threading.Lock()
_world = None
_mpi = None
_alone_by_choice = False


class World:
    """What sok.Init sets up.

    Attributes:
        rank, size: This rank and the number of ranks N.
        name: This rank as messages name it: 'rank 3', with its host where there are several.
        local_rank, local_size: The same among the ranks of this host.
        arguments: The dict given to `start`, equal on all ranks.
        communicator: communicator.Communicator for the exchanges of host memory.
        gpu_communicator: The same for this rank's GPU memory, or None before `connect_gpu`.
        coordinator: coordinator.Coordinator for their order.
        host_threads: Threads for the host kernels, int >= 1.
        description: Dict of str to str for people: launcher, MPI library, thread level, ...
        short_headers: Whether counts of keys for each rank are left out of what ops tell all ranks, and go from rank to
            rank instead: N of N ranks' would be N * N numbers in each of N messages of rank 0. Likewise what else
            differs from rank to rank in each step.
        by_hosts: by_hosts.ByHosts where lookups exchange inside each host first, or None. Headers are short then.
        heartbeat: heartbeat.Heartbeat, or None.
        farewell: farewell.Farewell, for when MPI is finalised before the process ends.
        grace_seconds: Seconds this process may go on after the job failed.
        seed_is_open: Whether the seed may still be another: a process alone has joined by itself, and drawn no rows.
        cpus: How many CPUs this rank has, where ranks share some, its share.
        spin_microseconds: How long to look for the next request before sleeping.
    """

    def __init__(self, rank, size, local_rank, local_size, arguments, communicator, coordinator, host_threads,
                 description, mpi=None, cpus=0):
        self.rank, self.size = rank, size
        self.cpus = cpus
        self.spin_microseconds = spin_for_requests(cpus)
        self.local_rank, self.local_size = local_rank, local_size
        self.arguments = dict(arguments)
        self.communicator, self.coordinator = communicator, coordinator
        self.gpu_communicator = self.heartbeat = self.by_hosts = None
        self.host_threads = host_threads
        self.description = description
        self.short_headers = size > environment.whole_headers()
        self.grace_seconds = environment.grace_seconds()
        self.seed_is_open = False
        self.mpi = mpi
        self.farewell = farewell.Farewell(self)

    def exchange_by_hosts(self, grouped):
        """From now on, a by_hosts.ByHosts; before anything is exchanged, on all ranks."""
        self.by_hosts, self.short_headers = grouped, True
        self.communicator.split(grouped)
        self.description["exchange"] = grouped.described()

    @property
    def name(self):
        """See the class."""
        return hosts.named(self.rank)

    def take_seed(self, seed):
        """Has the seed be this one, where it may still be another."""
        if self.seed_is_open:
            self.arguments["seed"], self.seed_is_open = seed, False

    def seed_of_rows(self):
        """The seed with which rows are drawn: from now on it is no other."""
        self.seed_is_open = False
        return self.arguments["seed"]

    def lost(self, message, rank):
        """Fails the job because a rank is gone (any thread), and says so at once: the launcher may end this process."""
        if self.coordinator.job_error is None:
            print_line("sok1x: {}: {}".format(self.name, message))
            self.coordinator.fail_job(message, INTERNAL, rank)
            if self.local_rank == 0:
                orphans.see_off_launcher(2 * self.grace_seconds + _LAUNCHER_SECONDS)


class _Mpi:
    """MPI as this process holds it: kept when the arguments disagree, so that Init can be tried again."""

    def __init__(self, MPI, found, ours):
        self.MPI, self.ours = MPI, ours
        self.gate = mpi_library.Gate()
        self.rank, self.size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
        self.attribute = mpi_library.before_finalize(MPI, self._finalizing)
        self.control = None
        if found is not None and found.size not in (0, self.size):
            raise LaunchError(FAILED_PRECONDITION, (
                "sok.Init: {} started {} ranks, but the MPI library that mpi4py uses sees {}. Launcher and library do "
                "not belong together: start the job with the mpiexec of the library that mpi4py was built for ({}), "
                "or, with srun, give it that library's plugin (srun --mpi=pmix).").format(
                    found.name, found.size, self.size, MPI.Get_library_version().split(",")[0].strip()))

    def finalize(self):
        """Finalises MPI (on the thread that initialised it; all ranks have left), unless somebody has just begun to."""
        try:
            self.MPI.Finalize()
        except self.MPI.Exception:
            return

    def _finalizing(self):
        try:
            if _world is not None:
                _world.farewell.wait()
        finally:
            self.gate.shut()


def current():
    """The World, or None before `start` has succeeded."""
    return _world


def stay_alone():
    """Has `start` make a World of this process alone, whatever has started it.

    Raises:
        LaunchError: FAILED_PRECONDITION where it has joined others already.
    """
    global _alone_by_choice
    with _lock:
        if _world is not None and _world.size > 1:
            raise LaunchError(FAILED_PRECONDITION, "{} has joined {} ranks already, and cannot go on alone".format(
                hosts.named(_world.rank), _world.size))
        _alone_by_choice = True


def start(arguments):
    """Joins the job's ranks; blocks until all have come. Once it has succeeded, further calls return the same World.

    Called on the executor's thread, which makes all MPI calls.

    Args:
        arguments: Dict of sok.Init's arguments (JSON values), to be equal on all ranks.

    Returns:
        The World.

    Raises:
        LaunchError: INVALID_ARGUMENT on all ranks where arguments differ (another call with equal ones works);
            FAILED_PRECONDITION where launcher, MPI library and thread level do not fit; DEADLINE_EXCEEDED where
            SOK1X_ABORT_SECONDS have passed.
    """
    global _world
    with _lock:
        if _world is None:
            _read_settings()
            found = launcher.detect()
            # One rank needs no MPI, also under mpiexec -np 1. Somebody may have initialised MPI under a launcher
            # that leaves no mark we know.
            alone = found is None or found.size == 1
            if alone and mpi_library.initialized_by_others():
                alone = mpi_library.ranks_of_others() == 1
            alone = alone or _alone_by_choice
            try:
                _world = _alone(arguments, found) if alone else _join(arguments, found)
            except LaunchError as error:
                if error.code == DEADLINE_EXCEEDED:
                    failure.give_up()
                raise
            failure.install(_world)
        return _world


def _alone(arguments, found):
    coordinator = Coordinator(0, 1, None)
    return World(0, 1, 0, 1, arguments, LocalCommunicator(), coordinator, _host_threads([_cpus()], 0), {
        "launcher": found.name if found else "none", "MPI": "not used (one rank)", "communicator": "local"},
                 cpus=len(_cpus()))


def _join(arguments, found):
    stall, abort = environment.stall_seconds(), environment.abort_seconds()
    who = "sok1x: rank {}{}".format(
        found.rank if found else "?", " (host {})".format(hosts.own_name()) if hosts.several() else "")
    patience = agreement.Patience(who, stall, abort, print_line, gone=siblings.Siblings().gone)
    mpi = _begun(found, who, patience)
    with mpi.gate:
        met = greeting.greet(mpi, arguments, _cpus(), patience)
    # The launcher may have told no size, and be alone after all.
    communicator = MpiCommunicator(mpi.MPI, met.exchanges, mpi.gate) if mpi.size > 1 else LocalCommunicator()
    coordinator = Coordinator(mpi.rank, mpi.size, MpiTransport(mpi.MPI, mpi.control, mpi.gate), stall, abort,
                              deadlock_seconds=environment.deadlock_seconds(), parents=met.parents)
    share = _cpu_share(met.cpus, met.local_rank)
    coordinator.spin_microseconds = spin_for_words(share)
    _shorten_sleeps()
    world = World(mpi.rank, mpi.size, met.local_rank, len(met.cpus), arguments, communicator, coordinator,
                  _host_threads(met.cpus, met.local_rank), _described(mpi, found), mpi, share)
    with mpi.gate:
        if met.grouped is not None:
            world.exchange_by_hosts(met.grouped)
        world.heartbeat = heartbeat.prepare(
            mpi.MPI, mpi.control, met.first, len(met.cpus) < mpi.size, world.lost, patience)
    return world


def _read_settings():
    """Raises for a variable that has a wrong value, before this rank waits for others."""
    for read in (environment.stall_seconds, environment.abort_seconds, environment.deadlock_seconds,
                 environment.grace_seconds, environment.num_threads, environment.heartbeat_seconds,
                 environment.heartbeat_port, environment.exchange_by_hosts, environment.whole_headers,
                 environment.tree_ranks, environment.tree_width, environment.communicator):
        read()
    for name in ("SOK1X_FUSE", "SOK1X_DETERMINISTIC"):
        environment.switch(name)


def _begun(found, who, patience):
    """The process's `_Mpi`, made by the first call."""
    global _mpi
    if _mpi is None:
        MPI = mpi_library.load()
        # MPI_Init does not return before all ranks call it and cannot be given up: out of patience ends the process.
        ours = patience.during(lambda: mpi_library.initialize(MPI), lambda error: failure.end_now(
            "{}: {}".format(who, error)))
        _mpi = _Mpi(MPI, found, ours)
    return _mpi


def _described(mpi, found):
    return {"launcher": found.name if found else "unknown",
            "MPI": mpi.MPI.Get_library_version().split("\n")[0].strip().rstrip("\0"),
            "thread level": mpi_library.thread_level(mpi.MPI),
            "MPI initialised by": "sok1x" if mpi.ours else "another library",
            "communicator": "MPI" if mpi.size > 1 else "local",
            **hosts.described()}


def _cpus():
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return list(range(os.cpu_count() or 1))


def _host_threads(cpus_by_rank, local_rank):
    """This rank's share of its CPUs: a CPU that several ranks may run on counts for each in parts."""
    return environment.num_threads() or max(1, int(_cpu_share(cpus_by_rank, local_rank)))


def _cpu_share(cpus_by_rank, local_rank):
    share = sum(1.0 / sum(cpu in cpus for cpus in cpus_by_rank) for cpu in cpus_by_rank[local_rank])
    return share + 1e-6


def _shorten_sleeps():
    """Has Linux end this thread's short sleeps in time: by default it adds 50 us, more than an order takes."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    except (AttributeError, OSError, TypeError):
        return
