"""Initial values that TensorFlow takes from checkpoints: tf.train.init_from_checkpoint, an Estimator's warm start."""
import functools
from typing import Any, Dict, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.graph_keys import GraphKeys
from sok1x.graph_ops.bridge.tensorflow_versions import checkpoint_utils, tensor_util


def refusal(table: str) -> ValueError:
    """The error of a table that is to begin with what a checkpoint has for it.

    Args:
        table: its name.

    Returns:
        A ValueError that says what does it instead.

    Example:
        >>> from sok1x.core import warm_start
        >>> "init_fn" in str(warm_start.refusal("users"))
        True
    """
    return ValueError((
        "tf.train.init_from_checkpoint, and an Estimator's warm_start_from, cannot start table '{}': its rows mean "
        "nothing without their keys. Leave it out there (vars_to_warm_start, assignment_map), and restore it by a "
        "Saver when the session starts: sok.Scaffold(..., init_fn=lambda scaffold, session: saver.restore(session, path)), "
        "where saver = tf.train.Saver([the table, ...]) was made with the graph.").format(table))


def watch() -> None:
    """Has TensorFlow refuse a table as `refusal` says also where the checkpoint is one of several ranks.

    Such a checkpoint has no table that TensorFlow could find; its error would list what else is there.
    """
    stock = checkpoint_utils._init_from_checkpoint
    if hasattr(stock, "sok1x"):
        return

    @functools.wraps(stock)
    def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Dict[str, Any]) -> Any:
        try:
            return stock(ckpt_dir_or_file, assignment_map)
        except ValueError as error:
            name = _name_of_a_table(assignment_map)
            if name is None or "is not found in" not in str(error):
                raise
            raise refusal(name) from error

    marked: Any = init_from_checkpoint
    marked.sok1x = True
    checkpoint_utils._init_from_checkpoint = marked


def _name_of_a_table(assignment_map: Dict[str, Any]) -> Optional[str]:
    tables = tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
    for asked in assignment_map.values():
        for each in asked if isinstance(asked, list) else [asked]:
            for variable in tables:
                if each is variable or each == variable.table.name:
                    return str(variable.table.name)
    return None


def has_no_rows(initializer: Any) -> bool:
    """Whether a table's new initializer takes its rows from a checkpoint in which no key has a row yet.

    Such a checkpoint is what tf.keras.estimator.model_to_estimator makes of a model that has not been trained.

    Args:
        initializer: the op by which TensorFlow would replace the table's own initializer.

    Returns:
        False also where the checkpoint does not tell.

    Raises:
        tf.errors.NotFoundError: there is no such checkpoint.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import warm_start
        >>> with tf.Graph().as_default():
        ...     warm_start.has_no_rows(tf.no_op())
        False
    """
    op = initializer
    while op.type != "RestoreV2":
        if not op.inputs:
            return False
        op = op.inputs[len(op.inputs) - 1].op  # of an assignment, the value
    prefix, names = (tensor_util.constant_value(tensor) for tensor in op.inputs[:2])
    if prefix is None or names is None:
        return False
    checkpoint = tf.train.load_checkpoint(prefix.item().decode())
    count = names[0].decode() + "/count"
    return checkpoint.has_tensor(count) and int(checkpoint.get_tensor(count)) == 0
