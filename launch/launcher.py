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
# In the order of _MARKS, for the same reason.
_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


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


def started_ranks(environ=None):
    """As one of how many ranks this process was started, for what must be known before they have joined.

    Args:
        environ: As of `detect`.

    Returns:
        What the launcher says (int); 1 without one; 2, for several, where it says only that it started us, and Slurm
        does not say more: `srun --mpi=pmix` starts one rank, too.

    Raises:
        LaunchError: As of `detect`.
    """
    environ = os.environ if environ is None else environ
    found = detect(environ)
    if found is None or found.size:
        return 1 if found is None else found.size
    # Another PMIx launcher inside a SLURM step hands on the step's variables too: see _MARKS.
    slurm = environ.get("PMIX_NAMESPACE", "").startswith("slurm.")
    return _number(environ, "SLURM_STEP_NUM_TASKS", 2) if slurm else 2


def cluster_words(environ=None):
    """What to say to whoever waits for ranks that TF_CONFIG may keep away, as a further sentence; '' without one.

    Args:
        environ: As of `detect`.
    """
    if "TF_CONFIG" not in (os.environ if environ is None else environ):
        return ""
    return (" TF_CONFIG is set: where it makes a rank a ps, an evaluator or a worker that is no chief, unset it, for "
            "the ranks are the workers (docs/from_parameter_server.md).")


def local_rank(environ=None):
    """This process's rank among those of its host, as the launcher says; 0 where none does. environ: As of `detect`."""
    environ = os.environ if environ is None else environ
    return next((_number(environ, name, 0) for name in _LOCAL_RANKS if name in environ), 0)


def is_one_of_several():
    """Whether this process was started as one of several ranks, whether they have joined or not."""
    try:
        return started_ranks() > 1
    except LaunchError:  # several that sok.Init will refuse
        return True
