"""Initial values that TensorFlow takes from checkpoints: tf.train.init_from_checkpoint, an Estimator's warm start."""
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf

from sok1x.core import wrapping
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
        "Saver when the session starts: sok.Scaffold(..., init_fn=lambda scaffold, session: saver.restore(session, "
        "path)), where saver = tf.train.Saver([the table, ...]) was made with the graph.").format(table))


def watch() -> None:
    """Has TensorFlow do with tables in checkpoints of several ranks what it does with those of one.

    They are no variables of such a checkpoint, so that its error would list what else is there.
    """
    wrapping.wrap(checkpoint_utils, "_init_from_checkpoint", _without_tables)


def _without_tables(stock: Callable[..., Any]) -> Callable[..., Any]:
    def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Dict[str, Any]) -> Any:
        tables = _tables_in(assignment_map)
        try:
            saved = _rows_by_table(ckpt_dir_or_file) if tables else {}
            for name in tables:
                if saved.get(name, 0):
                    raise refusal(tables[name])
            return stock(ckpt_dir_or_file, {name: variable for name, variable in assignment_map.items()
                                            if name not in tables or name not in saved})
        except ValueError as error:
            if "is not found in" not in str(error):
                raise
            for name, table in (tables or _tables_in_scopes(assignment_map)).items():
                if tables or str(error).startswith("Tensor {} (".format(name)):
                    raise refusal(table) from error
            raise

    return init_from_checkpoint


def _tables_in(assignment_map: Dict[str, Any]) -> Dict[str, str]:
    """Names in the checkpoint of what is to start tables, and the tables' own."""
    names = {variable.table.name: variable for variable in tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)}
    found = {}
    for saved, asked in assignment_map.items():
        for each in asked if isinstance(asked, list) else [asked]:
            for name, variable in names.items():
                if each is variable or (isinstance(each, str) and each == name):
                    found[saved] = name
    return found


def _tables_in_scopes(assignment_map: Dict[str, Any]) -> Dict[str, str]:
    """Likewise, where a scope is to start a scope: {"old/": "new/"}, of which "/" is all."""
    found = {}
    for saved, asked in assignment_map.items():
        if isinstance(asked, str) and asked.endswith("/"):
            scope, above = "" if asked == "/" else asked, "" if saved == "/" else saved
            for variable in tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES):
                if variable.table.name.startswith(scope):
                    found[above + variable.table.name[len(scope):]] = variable.table.name
    return found


def _rows_by_table(ckpt_dir_or_file: str) -> Dict[str, int]:
    """Rows in use of the tables of a checkpoint that several ranks have saved; nothing of others."""
    from sok1x.checkpoint import manifest, prefixes  # which need this module's neighbours
    folder = prefixes.folder_of(checkpoint_utils._get_checkpoint_filename(ckpt_dir_or_file))
    if folder is None:
        return {}
    return {name: sum(table.counts) for name, table in manifest.read(folder).tables.items()}


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
