"""The name under which a `tf.train.Saver` saves, and what may stand there already."""
import numbers
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import prefixes
from sok1x.graph_ops.bridge.tensorflow_versions import training_util


def step_of(session: tf.Session, global_step: Any) -> Optional[int]:
    """The number that a Saver's `save` is given as `global_step`, or that of the variable which it is given."""
    if global_step is None:
        return None
    return int(global_step if isinstance(global_step, numbers.Integral) else
               training_util.global_step(session, global_step))


def prefix_of(saver: Any, save_path: str, step: Optional[int]) -> str:
    """What TensorFlow's files of a checkpoint begin with.

    Args:
        saver: the Saver.
        save_path: as given to `save`.
        step: see `step_of`.
    """
    if step is None:
        return save_path
    return "{}-{:08d}".format(save_path, step) if saver._pad_step_number else "{}-{:d}".format(save_path, step)


def expect_no_folder(what: str, prefix: str) -> None:
    """Raises CheckpointError where a whole checkpoint has the name, for a Saver that saves none.

    Args:
        what: cannot be done, for the message.
        prefix: see `prefix_of`.
    """
    if prefixes.folder_of(prefix) is not None:
        raise CheckpointError(
            "{} to {}: there is a folder of sok1x's files, of an earlier save, which would be restored in its place. "
            "Save to another path, or remove the folder.".format(what, prefix))
