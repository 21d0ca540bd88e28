"""How the GPUs of a job exchange: NCCL where every rank has it and a GPU of its own, else MPI through host memory."""
import collections
import ctypes
import json
import socket

import numpy as np

from . import agreement, environment, hosts, nccl_library
from .errors import FAILED_PRECONDITION, LaunchError
from .lines import print_line
from .local_communicator import LocalCommunicator
from .nccl_communicator import NcclCommunicator
from .pauses import spin_beside_gpu
from .staged_communicator import StagedCommunicator

_OP = "set-up of the GPUs' exchanges"
_HINT = " (SOK1X_COMMUNICATOR=mpi sends what GPUs exchange through host memory, without NCCL)"


def connect_gpu(world, gpu):
    """Sets `world.gpu_communicator`, where it is not set.

    Called by every rank at the same point of the executors' order, with the GPU's context current. Where it raises,
    nothing is set.

    Args:
        world: The World.
        gpu: This rank's GPU: uuid (str), stream (CUstream, int), copy(target, source, nbytes), synchronize(),
            to_host(target, source, nbytes), to_device(target, source, nbytes), pinned(nbytes), record(), reached(mark)
            (see cuda_kernels/gpu.py).

    Raises:
        LaunchError: on all ranks alike INVALID_ARGUMENT where SOK1X_COMMUNICATOR has no such value or differs
            between ranks, FAILED_PRECONDITION where it says nccl and that cannot be, INTERNAL where NCCL fails to
            begin. Where NCCL fails on one rank later than that, the job fails.
    """
    if world.gpu_communicator is not None:
        return
    if world.size == 1:
        communicator, description = LocalCommunicator(gpu.copy), "local"
    else:
        before, world.communicator.op = world.communicator.op, _OP
        try:
            communicator, description = _connect(world, gpu)
        finally:
            world.communicator.op = before
    # It holds CUDA's objects, which cannot be freed any more when Python ends: it is kept beyond that.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(communicator))
    world.description["GPU communicator"] = description
    world.gpu_communicator = communicator
    world.spin_microseconds = spin_beside_gpu(world.cpus)


def _connect(world, gpu):
    host = world.communicator
    nccl, obstacle = choose(_gather(host, _record(gpu)))
    if nccl:
        communicator = _connect_nccl(world, gpu)
        return communicator, "NCCL {}".format(nccl_library.load().version)
    if obstacle and world.rank == 0:
        print_line("sok1x: {}: exchanges go through host memory (MPI)".format(obstacle))
    return StagedCommunicator(host, gpu), "MPI through pinned host memory ({})".format(
        obstacle or "SOK1X_COMMUNICATOR=mpi")


def _record(gpu):
    """What the other ranks must know of this one, as a dict."""
    try:
        record = {"setting": environment.communicator(), "gpu": [_machine(), gpu.uuid], "nccl": None}
    except LaunchError as error:
        return {"error": [error.code, error.message]}
    if record["setting"] == "mpi":
        return record
    try:
        record["nccl"] = nccl_library.load().version
    except LaunchError as error:
        record["missing"] = error.message
    return record


def _machine():
    """Names the machine, equal in all its containers."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()


def _gather(host, record):
    """The records of all ranks, in rank order (collective)."""
    mine = np.frombuffer(json.dumps(record).encode("utf-8"), np.uint8)
    sizes = host.exchange_counts(np.full(host.size, mine.size, np.int64))
    everyones = np.empty(int(sizes.sum()), np.uint8)
    host.all_gather(mine.ctypes.data, everyones.ctypes.data, sizes, 1)
    ends = np.cumsum(sizes)
    return [json.loads(everyones[end - size:end].tobytes().decode("utf-8")) for size, end in zip(sizes, ends)]


def choose(records):
    """Chooses from what is known of every rank, equally on all.

    Args:
        records: A dict for each rank: setting ('auto', 'nccl' or 'mpi'), gpu (a list that names it), nccl (version, or
            None, then missing: the reason); or only error: [code, message].

    Returns:
        (nccl, obstacle): whether to use NCCL, and what stands against it (str), or None.

    Raises:
        LaunchError: see connect_gpu.
    """
    for rank, record in enumerate(records):
        if "error" in record:
            raise LaunchError(*record["error"], rank=rank)
    agreement.compare([{"SOK1X_COMMUNICATOR": record["setting"]} for record in records])
    setting = records[0]["setting"]
    if setting == "mpi":
        return False, None
    obstacle = _obstacle(records)
    if setting == "nccl" and obstacle:
        raise LaunchError(FAILED_PRECONDITION, "SOK1X_COMMUNICATOR=nccl, but NCCL cannot be used: {}".format(obstacle))
    return obstacle is None, obstacle


def _obstacle(records):
    sharing = [ranks for ranks in _groups(tuple(record["gpu"]) for record in records).values() if len(ranks) > 1]
    if sharing:
        return ", ".join("{} share a GPU".format(_names(ranks)) for ranks in sharing)
    missing = [rank for rank, record in enumerate(records) if record["nccl"] is None]
    if missing:
        return "on {}, {}".format(_names(missing), records[missing[0]]["missing"])
    versions = _groups(record["nccl"] for record in records)
    if len(versions) > 1:
        return "the ranks have different versions of NCCL ({})".format("; ".join(
            "{}: {}".format(_names(ranks), version) for version, ranks in versions.items()))
    return None


def _groups(values):
    """The ranks that have each value, in order of the first."""
    groups = collections.OrderedDict()
    for rank, value in enumerate(values):
        groups.setdefault(value, []).append(rank)
    return groups


def _names(ranks):
    return " and ".join(hosts.rank_list(ranks).rsplit(", ", 1))


def _connect_nccl(world, gpu):
    host, library = world.communicator, nccl_library.load()
    unique_id = np.zeros(nccl_library.UNIQUE_ID_BYTES, np.uint8)
    code, message = 0, ""
    if host.rank == 0:
        try:
            unique_id[:] = np.frombuffer(library.unique_id(), np.uint8)
        except LaunchError as error:
            code, message = error.code, "on {}, {}{}".format(hosts.named(0), error, _HINT)
    # No rank goes into NCCL, where nobody could call it back, unless all do.
    failed = host.agree(code, message)
    if failed is not None:
        raise failed
    host.broadcast(unique_id.ctypes.data, unique_id.nbytes, 0)
    try:
        with host.waiting("ncclCommInitRank"):
            handle = library.init_rank(host.size, unique_id.tobytes(), host.rank)
    except LaunchError as error:
        # The others may still wait for this rank inside NCCL, so nothing can be agreed on any more.
        message = "on {}, {}{}".format(hosts.named(host.rank), error, _HINT)
        world.coordinator.fail_job(message)
        raise LaunchError(error.code, message, host.rank)
    return NcclCommunicator(library, handle, gpu, host)
