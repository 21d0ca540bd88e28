"""Tables that a user makes as variables, and says of on which rank their rows are."""
import re
from typing import Any, Optional

from sok1x import launch
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.stores.placement import BY_KEY, Placement

_LOCALIZED = re.compile(r"localized:(\d+)\Z")


def placement_of(label: str, mode: Optional[str]) -> Placement:
    """The placement that SOK 2.x's `mode` means.

    Args:
        label: of the variable, for messages.
        mode: None, 'distributed' or 'localized:R'.

    Returns:
        A `Placement`.

    Raises:
        ValueError: it is something else.

    Example:
        >>> from sok1x.core.tables import placed_variable
        >>> placed_variable.placement_of("variable", "localized:3").rank
        3
    """
    if mode is None or mode == "distributed":
        return BY_KEY
    found = _LOCALIZED.match(mode) if isinstance(mode, str) else None
    if found is None:
        raise ValueError("{}: mode: got {!r}, expected None, 'distributed' or 'localized:R', R being a rank".format(
            label, mode))
    return Placement(int(found.group(1)))


def check_rank(label: str, placement: Placement, ranks: int) -> None:
    """Checks that the rank that has all rows is one.

    Args:
        label: of the variable, for messages.
        placement: where its rows are.
        ranks: N.

    Raises:
        ValueError: there is no such rank.

    Example:
        >>> from sok1x.core.tables import placed_variable
        >>> placed_variable.check_rank("variable", placed_variable.placement_of("variable", "localized:0"), 1)
    """
    if placement.rank is not None and not 0 <= placement.rank < ranks:
        raise ValueError("{}: mode: got 'localized:{}', but there are {} ranks; expected a rank from 0 to {}".format(
            label, placement.rank, ranks, ranks - 1))


class PlacedVariable(EmbeddingVariable):
    """What `sok.Variable` and `sok.DynamicVariable` have in common: see there.

    Attributes:
        m_var_name: its name in the graph, without ':0'.
        named_by_user: True.

    Raises:
        ValueError: as for `tf.Variable`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.tables.placed_variable import PlacedVariable
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     isinstance(sok.Variable([[1.0, 2.0], [3.0, 4.0]]), PlacedVariable)
        True
    """

    named_by_user = True

    @property
    def mode(self) -> str:
        """Where its rows are.

        Returns:
            'distributed': row k on rank k % N; 'localized:R': all rows on rank R.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> sok.init()
            >>> with tf.Graph().as_default():
            ...     sok.Variable([[1.0, 2.0], [3.0, 4.0]]).mode
            'distributed'
        """
        rank = self.table.placement.rank
        return "distributed" if rank is None else "localized:{}".format(rank)

    @property
    def target_gpu(self) -> int:
        """The rank that has all rows.

        Returns:
            R of 'localized:R', -1 of 'distributed'.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> sok.init()
            >>> with tf.Graph().as_default():
            ...     sok.Variable([[1.0, 2.0], [3.0, 4.0]], mode="localized:0").target_gpu
            0
        """
        rank = self.table.placement.rank
        return -1 if rank is None else rank

    @property
    def num_gpus(self) -> int:
        """The number of ranks.

        Returns:
            N.

        Raises:
            RuntimeError: the ranks have not joined yet.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> sok.init()
            >>> with tf.Graph().as_default():
            ...     sok.Variable([[1.0, 2.0], [3.0, 4.0]]).num_gpus
            1
        """
        return int(_ranks(self.table.name))


def _ranks(name: str) -> Any:
    world = launch.current()
    if world is None:
        raise RuntimeError("sok1x.Variable '{}': num_gpus: the ranks have not joined yet, so nobody knows how many "
                           "there are; call sok1x.init() before, or run the op made by sok1x.Init".format(name))
    return world.size
