"""Which rank this is, and how many there are, under SOK 2.x's names; after `sok.init`, or once `sok.Init` has run."""
from sok1x import launch


def _world(function: str) -> "launch.World":
    world = launch.current()
    if world is None:
        raise RuntimeError("sok1x.communication.{}: the ranks have not joined yet; call sok1x.init() first, or run the "
                           "op made by sok1x.Init".format(function))
    return world


def rank() -> int:
    """This rank.

    Returns:
        An int in [0, N).

    Raises:
        RuntimeError: the ranks have not joined yet.

    Example:
        >>> import sok1x as sok
        >>> sok.init()
        >>> sok.communication.rank()
        0
    """
    return int(_world("rank").rank)


def num_ranks() -> int:
    """The number of ranks.

    Returns:
        N.

    Raises:
        RuntimeError: the ranks have not joined yet.

    Example:
        >>> import sok1x as sok
        >>> sok.init()
        >>> sok.communication.num_ranks()
        1
    """
    return int(_world("num_ranks").size)


def num_gpus() -> int:
    """The number of ranks: each has one GPU, or none where none has.

    Returns:
        N.

    Raises:
        RuntimeError: the ranks have not joined yet.

    Example:
        >>> import sok1x as sok
        >>> sok.init()
        >>> sok.communication.num_gpus()
        1
    """
    return int(_world("num_gpus").size)


def global_gpu_id() -> int:
    """The number of this rank's GPU among those of all ranks: its rank.

    Returns:
        An int in [0, N).

    Raises:
        RuntimeError: the ranks have not joined yet.

    Example:
        >>> import sok1x as sok
        >>> sok.init()
        >>> sok.communication.global_gpu_id()
        0
    """
    return int(_world("global_gpu_id").rank)


def id_in_rank() -> int:
    """The number of a rank's GPU among those of the rank, of which there is one.

    Returns:
        0.

    Raises:
        RuntimeError: the ranks have not joined yet.

    Example:
        >>> import sok1x as sok
        >>> sok.init()
        >>> sok.communication.id_in_rank()
        0
    """
    _world("id_in_rank")
    return 0
