"""Which launcher started this process, read from its environment alone: nothing is loaded or started."""
import collections
import os

from .errors import FAILED_PRECONDITION, LaunchError

Launcher = collections.namedtuple("Launcher", "name rank size")
Launcher.__doc__ = """A launcher found in the environment: its name (str), this process's rank and the number of ranks
(int; size is 0 where the launcher says only that it started us)."""

# The MPI library's own launcher is asked first: an mpiexec inside a SLURM step hands on the step's variables too,
# and those count the daemons of mpiexec, not our ranks.
_MARKS = (
    ("Open MPI (mpiexec)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH (mpirun)", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MPICH or Intel MPI (Hydra, PMI)", "PMI_RANK", "PMI_SIZE"),
    ("PMIx", "PMIX_RANK", None),
    # SLURM_PROCID alone is also set in a batch script that was not started by srun; the step's size is not.
    ("SLURM (srun)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


def _number(environ, name, default):
    try:
        return int(environ.get(name, ""))
    except ValueError:
        return default


def detect(environ=None):
    """Finds the launcher of this process.

    Args:
        environ: Mapping to read instead of `os.environ` (tests).

    Returns:
        A Launcher, or None where the process was started without one.

    Raises:
        LaunchError: FAILED_PRECONDITION where Horovod started several ranks over gloo, which has no MPI.
    """
    environ = os.environ if environ is None else environ
    for name, rank, size in _MARKS:
        if rank in environ and (size is None or size in environ):
            return Launcher(name, _number(environ, rank, 0), _number(environ, size, 0) if size else 0)
    if "HOROVOD_RANK" in environ and "HOROVOD_SIZE" in environ:
        ranks = _number(environ, "HOROVOD_SIZE", 1)
        if ranks > 1:
            raise LaunchError(FAILED_PRECONDITION, (
                "sok.Init: horovodrun started {} ranks over gloo, but sok1x exchanges embeddings over MPI. "
                "Start the job with `horovodrun --mpi -np {} ...` or `mpiexec -np {} ...`.").format(
                    ranks, ranks, ranks), rank=_number(environ, "HOROVOD_RANK", 0))
    return None


def is_one_of_several():
    """Whether this process was started as one of several ranks, whether they have joined or not."""
    try:
        found = detect()
    except LaunchError:  # several that sok.Init will refuse
        return True
    return found is not None and found.size > 1
