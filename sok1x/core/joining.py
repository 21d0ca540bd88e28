"""Joining the ranks at once, from Python: `sok.init`, SOK 2.x's."""
from typing import Any, Optional

from sok1x import launch
from sok1x.core.initialize import join, seed_of, watch_checkpoints
from sok1x.graph_ops.bridge import forked
from sok1x.launch import launcher

COMM_TOOLS = ("horovod", "mpi")


def init(comm_tool: Optional[str] = "horovod", use_legacy_optimizer: bool = True, *,
         seed: Optional[int] = None) -> None:
    """Joins the ranks of the job at once; afterwards no op of ours needs `sok.Init` to have run.

    Under mpiexec or horovodrun all ranks call it; it returns when all have come. Horovod is not needed. It may come
    before or after `sok.Init`, `sok.InitHook` and the `tf.Session`, and again: then nothing happens. It takes no memory
    of a GPU, and leaves it to TensorFlow which one this process has.

    Args:
        comm_tool: 'horovod', 'mpi' or None. The ranks join by MPI whatever it is.
        use_legacy_optimizer: SOK's; nothing depends on it here.
        seed: of the tables' first rows, as of `sok.Init`, equal on all ranks; None is what `sok.Init` has been given
            before, else its default.

    Raises:
        TypeError: the seed is no integer.
        ValueError: an unknown comm_tool, or another seed than the ranks have joined with.
        tf.errors.InvalidArgumentError: the ranks gave different arguments.
        tf.errors.FailedPreconditionError: MPI has been finalized, or this process was forked from one in which
            sok1x was in use.

    Example:
        >>> import sok1x as sok
        >>> sok.init()
        >>> sok.communication.num_ranks() >= 1
        True
    """
    if comm_tool is not None:
        _check_comm_tool("sok1x.init", comm_tool)
    seed = None if seed is None else seed_of("sok1x.init", seed)
    forked.refuse("sok1x.init")
    watch_checkpoints()
    world = launch.current()
    if world is None:
        join(None, seed, by_call=True)
        return
    if seed is None:
        return
    world.take_seed(seed)
    if seed != world.arguments["seed"]:
        raise ValueError("sok1x.init: seed: got {}, but the ranks have joined with seed {}; give the same seed, or "
                         "none".format(seed, world.arguments["seed"]))


def init_alone() -> None:
    """Joins where this process is the only one of its job: it needs nobody to say so.

    Whoever comes later may still say with which seed.

    Example:
        >>> from sok1x import launch
        >>> from sok1x.core import joining
        >>> joining.init_alone()
        >>> launch.current().size
        1
    """
    if launch.current() is None:
        found = launcher.detect()
        if found is None or found.size == 1:
            init()
            launch.current().seed_is_open = True


def set_comm_tool(comm_tool: str) -> None:
    """Does nothing: SOK 2.x's choice of a library by which ranks find each other, which is MPI here.

    Args:
        comm_tool: 'horovod' or 'mpi'.

    Raises:
        ValueError: it is something else.

    Example:
        >>> import sok1x as sok
        >>> sok.set_comm_tool("mpi")
        >>> sok.set_comm_tool("sockets")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: sok1x.set_comm_tool: comm_tool: got 'sockets', expected 'horovod' or 'mpi'; ...
    """
    _check_comm_tool("sok1x.set_comm_tool", comm_tool)


def _check_comm_tool(function: str, comm_tool: Any) -> None:
    if comm_tool not in COMM_TOOLS:
        raise ValueError("{}: comm_tool: got {!r}, expected 'horovod' or 'mpi'; sok1x joins the ranks by MPI either "
                         "way".format(function, comm_tool))
