"""How far a rank's data have been read: TensorFlow can save that of a tf.data iterator, and every rank is elsewhere.

What is not in tables is rank 0's for all ranks, so others would read again, or skip, what is theirs. Right are files of
which each rank has its own.
"""
import os
from typing import Any, Iterable, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.core import alike
from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import objects_of


def among(saveables: Iterable[Any]) -> List[str]:
    """Names of the iterators among what a graph's Saver is given, variables and saveable objects."""
    return [str(saveable.name) for saveable in saveables if any(
        isinstance(spec._tensor, tf.Tensor) and spec._tensor.op.type == "SerializeIterator"
        for spec in getattr(saveable, "specs", ()))]


def of_checkpoint(checkpoint: Any) -> List[str]:
    """Of a `tf.train.Checkpoint` in eager execution, the types of the iterators that it has; None has none."""
    return [type(one).__name__ for one in objects_of(checkpoint) if isinstance(one, tf.compat.v2.data.Iterator)]


def refuse(iterators: List[str]) -> None:
    """Raises CheckpointError on several ranks, where there are iterators."""
    world = launch.current()
    if iterators and world is not None and world.size > 1:
        raise CheckpointError((
            "This checkpoint would have a tf.data iterator, '{}': how far a rank has read its own data. What is not in "
            "tables is saved by rank 0 alone, of {}, and all ranks would go on where it was. Leave the iterator out of "
            "tf.GraphKeys.SAVEABLE_OBJECTS, the Saver's var_list or the tf.train.Checkpoint; and give it, on each "
            "rank, a tf.train.Saver([saveable]) or a tf.train.Checkpoint of its own, and a path with the rank's "
            "number in it.").format(iterators[0], world.size))


def watch() -> None:
    """From now on TensorFlow's hook that saves iterators alone has files of its own for each rank, of several.

    Example:
        >>> from sok1x.checkpoint.savers import input_positions
        >>> input_positions.watch()
    """
    kind = getattr(tf.data.experimental, "CheckpointInputPipelineHook", None)  # others may be without
    if kind is not None:
        wrapping.wrap(kind, "before_run", _before_run)


def _before_run(stock: Any) -> Any:
    def before_run(self: Any, run_context: tf.train.SessionRunContext) -> Any:
        world = launch.current()
        if self._first_run and world is not None and world.size > 1 and alike.is_so():
            _name_files(self, world.rank, world.size)
        return stock(self, run_context)

    return before_run


def _name_files(hook: Any, rank: int, ranks: int) -> None:
    """As TensorFlow names those of several workers, after their task."""
    saving = hook._checkpoint_saver_hook
    folder, basename = os.path.split(saving._save_path)
    stem, state = os.path.splitext(basename)[0], hook._latest_filename
    own = "_rank_{}_of_{}".format(rank, ranks)
    saving._save_path = os.path.join(folder, stem + own + ".ckpt")
    hook._latest_filename = saving._get_saver()._latest_filename = state + own
    others = sorted(name for name in (tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else ())
                    if name.startswith(state) and not name.endswith("_of_{}".format(ranks)))
    if others and rank == 0 and not tf.io.gfile.exists(os.path.join(folder, state + own)):
        tf.logging.warning(
            "CheckpointInputPipelineHook: %s has how far the ranks of a job with another number of ranks have read "
            "(%s), and this one has %d: all begin to read anew", folder, others[0], ranks)
