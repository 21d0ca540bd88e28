"""How a script of plain parts becomes right on several ranks: DeepRec's `enable_distributed_strategy`."""
import importlib
from typing import NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.savers import early_stopping, input_positions
from sok1x.core import alike, joining
from sok1x.deeprec import averaging, sessions, starting
from sok1x.deeprec.patches import Patches
from sok1x.graph_ops.bridge.tensorflow_versions import ESTIMATORS
from sok1x.metrics import evaluation

__all__ = ["enable_distributed_strategy", "enable_group_embedding"]

COLLECTIVE, LOCALIZED = "collective", "localized"


class Strategy(NamedTuple):
    """What is in force.

    Attributes:
        name: 'collective' or 'localized'. average_gradients, broadcast_variables, whole_checkpoints, all_chief: see
            `enable_distributed_strategy`.
    """

    name: str
    average_gradients: bool = False
    broadcast_variables: bool = False
    whole_checkpoints: bool = False
    all_chief: bool = False


_current: Optional[Strategy] = None
_patches = Patches()


def enable_distributed_strategy(strategy: str = COLLECTIVE, *, average_gradients: bool = True,
                                broadcast_variables: bool = True, whole_checkpoints: bool = True,
                                all_chief: bool = True, seed: Optional[int] = None) -> None:
    """Joins the ranks, and makes a script that says nothing of ranks right on several.

    It comes before the model; again with the same arguments it does nothing. A script whose loss is the mean of its
    rank's batch then trains as one process does with all ranks' batches together, if these are of one size. It may use
    Horovod besides.

    Args:
        strategy: 'collective': tables are spread over the ranks that mpiexec or horovodrun has started, or
            'localized': this process goes on alone, whatever has started it.
        average_gradients: whether tf.train's optimizers average all gradients over the ranks: those of dense variables
            in `compute_gradients`, or, of what comes from tf.gradients, in `apply_gradients`, as Keras' optimizers do
            in graphs (in TensorFlow 2 the legacy ones); those of tables, which
            are sums otherwise, in the lookups. tf.clip_by_global_norm, if there are tables' gradients in its list,
            averages the others that are not yet, and clips by the norm of all ranks' rows.
        broadcast_variables: whether dense variables begin with rank 0's values: in
            `tf.train.MonitoredTrainingSession`, and after `tf.global_variables_initializer` and
            `tf.variables_initializer`, whose ops all ranks must then run.
        whole_checkpoints: whether a `tf.train.Saver`, or a `MonitoredTrainingSession` with a checkpoint_dir, has all
            ranks save and restore together, and a rank without a folder takes rank 0's. Without it each saves its own
            shard, as TensorFlow does, to the path that it is given.
        all_chief: whether every rank's `MonitoredTrainingSession` is chief, whatever its `is_chief` says: each has
            tables to initialize and to save. Where it says False, chief_only_hooks stay away.
        seed: as of `sok.init`.

    Raises:
        ValueError: another strategy, or one is in force already with other arguments.
        RuntimeError: 'localized', and the ranks have joined already.
        tf.errors.OpError: as of `sok.init`.

    Example:
        >>> from sok1x import communication, deeprec
        >>> deeprec.enable_distributed_strategy(strategy="collective")
        >>> communication.num_ranks()
        1
        >>> deeprec.disable_distributed_strategy()
    """
    global _current
    label = "sok1x.deeprec.enable_distributed_strategy"
    if strategy == "parameter_server":
        raise ValueError("{}: strategy: got 'parameter_server', expected 'collective' or 'localized': there are no "
                         "parameter servers; 'collective' spreads tables over the ranks themselves".format(label))
    if strategy not in (COLLECTIVE, LOCALIZED):
        raise ValueError("{}: strategy: got {!r}, expected 'collective' or 'localized'".format(label, strategy))
    wanted = Strategy(LOCALIZED) if strategy == LOCALIZED else Strategy(
        COLLECTIVE, bool(average_gradients), bool(broadcast_variables), bool(whole_checkpoints), bool(all_chief))
    if _current is not None:
        if _current != wanted:
            raise ValueError("{}: got {}, but {} is in force already; enable one strategy once".format(
                label, _said(wanted), _said(_current)))
        return
    if strategy == LOCALIZED:
        try:
            launch.stay_alone()
        except launch.LaunchError as error:
            raise RuntimeError("{}: strategy: got 'localized', but {}; call it first".format(label, error)) from None
    joining.init(seed=seed)
    if wanted.average_gradients:
        averaging.watch(_patches)
    if wanted.broadcast_variables:
        starting.watch(_patches)
    if strategy == COLLECTIVE:
        # Else a rank may well evaluate by itself, from checkpoints of its own.
        alike.declare(wanted.average_gradients and wanted.whole_checkpoints)
        try:
            importlib.import_module(ESTIMATORS)  # TensorFlow 2 does so late
        except ImportError:
            pass
        for module in (evaluation, early_stopping, input_positions):
            module.watch()
        sessions.watch(_patches, wanted)
        if not wanted.whole_checkpoints:
            _patches.put(tf.train.Saver, "for_tables", False)
    _current = wanted


def enable_group_embedding(fusion_type: str = COLLECTIVE) -> None:
    """DeepRec's earlier name of `enable_distributed_strategy`.

    Args:
        fusion_type: the strategy.

    Raises:
        ValueError: as there.

    Example:
        >>> from sok1x import communication, deeprec
        >>> deeprec.enable_group_embedding(fusion_type="collective")
        >>> communication.num_ranks()
        1
        >>> deeprec.disable_distributed_strategy()
    """
    enable_distributed_strategy(fusion_type)


def disable_distributed_strategy() -> None:
    """Takes everything back but that the ranks have joined: graphs built from now on are TensorFlow's.

    Example:
        >>> from sok1x.deeprec import strategy
        >>> strategy.enable_distributed_strategy("collective")
        >>> strategy.disable_distributed_strategy()
        >>> print(strategy.current())
        None
    """
    global _current
    _patches.undo()
    averaging.stop()
    alike.declare(False)
    _current = None


def current() -> Optional[Strategy]:
    """The strategy in force, or None.

    Returns:
        A `Strategy`.

    Example:
        >>> from sok1x.deeprec import strategy
        >>> strategy.current() is None
        True
    """
    return _current


def _said(strategy: Strategy) -> str:
    off = [name for name, value in strategy._asdict().items() if value is False]
    return "'{}'{}".format(strategy.name, " with {}".format(", ".join(name + "=False" for name in off))
                           if off and strategy.name == COLLECTIVE else "")
