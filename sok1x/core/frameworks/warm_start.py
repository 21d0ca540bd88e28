"""Initial values that TensorFlow takes from checkpoints: tf.train.init_from_checkpoint, an Estimator's warm start."""
from typing import Any, Callable, Dict, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import slots, wrapping
from sok1x.core.graph_keys import tables_made_here
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable, checkpoint_utils, tensor_util

# What follows the name of an object in a checkpoint of objects, as tf.train.Checkpoint writes.
_VALUE, _SLOT = "/.ATTRIBUTES/VARIABLE_VALUE", "/.OPTIMIZER_SLOT/"


def refusal(table: str) -> ValueError:
    """The error of a table that is to begin with what a checkpoint has for it.

    Args:
        table: its name.

    Returns:
        A ValueError that says what does it instead.

    Example:
        >>> from sok1x.core.frameworks import warm_start
        >>> "init_fn" in str(warm_start.refusal("users"))
        True
    """
    return ValueError((
        "tf.train.init_from_checkpoint, tf.train.warm_start and an Estimator's warm_start_from cannot start table "
        "'{}': its rows mean nothing without their keys. Leave it out there (vars_to_warm_start, assignment_map), and "
        "restore it by a Saver when the session starts: sok.Scaffold(..., init_fn=lambda scaffold, session: "
        "saver.restore(session, path)), where saver = tf.train.Saver([the table, ...]) was made with the graph. A "
        "checkpoint that sok1x has not saved has rows without keys, which no Saver takes: read them by "
        "tf.train.load_checkpoint, and run there sok.assign(table, keys, rows), made with the graph. (Give "
        "tf.keras.estimator.model_to_estimator a model that has not been trained, of tables with an index: of others "
        "Keras does the same.)").format(table))


def watch() -> None:
    """Has TensorFlow do with tables in checkpoints of several ranks what it does with those of one.

    They are no variables of such a checkpoint, so that its error would list what else is there. And optimizers' slots
    of tables are refused as the tables are, which TensorFlow does not find where a scope is to start a scope.
    """
    wrapping.wrap(checkpoint_utils, "_init_from_checkpoint", _without_tables)
    wrapping.wrap(checkpoint_utils, "_set_variable_or_list_initializer", _without_slots)


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
            for name, table in tables.items():  # of one rank's, or stock, where a rank here has fewer rows
                if "shape of tensor {} (".format(name) in str(error):
                    raise refusal(table) from error
            if "is not found in" not in str(error):
                raise
            for name, table in (tables or _tables_in_scopes(assignment_map)).items():
                if tables or str(error).startswith("Tensor {} (".format(name)):
                    raise refusal(table) from error
            raise

    return init_from_checkpoint


def _without_slots(stock: Callable[..., Any]) -> Callable[..., Any]:
    def set_variable_or_list_initializer(variable_or_list: Any, ckpt_file: str, tensor_name: str) -> Any:
        table = None if isinstance(variable_or_list, (list, tuple)) else _table_of_slot(variable_or_list)
        if table is not None and not _is_empty(
                tf.train.load_checkpoint(ckpt_file), table + "/count", _count_beside(tensor_name)):
            raise refusal(table)
        return stock(variable_or_list, ckpt_file, tensor_name)

    return set_variable_or_list_initializer


def _table_of_slot(variable: Any) -> Optional[str]:
    """The name of the table of which a variable is an optimizer's slot."""
    tables = tables_made_here()
    if any(variable is table for table in tables) or not isinstance(variable, ResourceVariable):
        return None
    table = slots.shard_of(variable, tables)
    return str(table.table.name) if table is not None and slots.has_rows_of(variable, table) else None


def _is_empty(checkpoint: Any, *counts: str) -> bool:
    """Whether a checkpoint tells that a table has no keys, by their count, which has one of these names."""
    there = [count for count in counts if checkpoint.has_tensor(count)]
    return bool(there) and int(checkpoint.get_tensor(there[0])) == 0


def _count_beside(name: str) -> str:
    """What a table's count is called where its rows, or a slot, have this name: in a checkpoint of objects too."""
    table, marked, _ = name.partition(_SLOT if _SLOT in name else _VALUE)
    return table + "/count" + (_VALUE if marked else "")


def _tables_in(assignment_map: Dict[str, Any]) -> Dict[str, str]:
    """Names in the checkpoint of what is to start tables, or their slots, and the tables' own."""
    names = {variable.table.name: variable for variable in tables_made_here()}
    found = {}
    for saved, asked in assignment_map.items():
        for each in asked if isinstance(asked, list) else [asked]:
            for name, variable in names.items():
                if each is variable or (isinstance(each, str) and each == name):
                    found[saved] = name
            of_slot = _table_of_slot(each)
            if of_slot is not None:
                found[saved] = of_slot
    return found


def _tables_in_scopes(assignment_map: Dict[str, Any]) -> Dict[str, str]:
    """Likewise, and of slots, where a scope is to start a scope: {"old/": "new/"}, of which "/" is all."""
    found = {}
    names = {table.table.name: table.table.name for table in tables_made_here()}
    names.update({variable.op.name: table for variable in tf.global_variables()
                  for table in [_table_of_slot(variable)] if table is not None})
    for saved, asked in assignment_map.items():
        if isinstance(asked, str) and asked.endswith("/"):
            scope, above = "" if asked == "/" else asked, "" if saved == "/" else saved
            found.update({above + name[len(scope):]: table for name, table in names.items() if name.startswith(scope)})
    return found


def _rows_by_table(ckpt_dir_or_file: str) -> Dict[str, int]:
    """Rows in use of the tables of a checkpoint that several ranks have saved; nothing of others."""
    from sok1x.checkpoint.files import manifest, prefixes  # which need this module's neighbours
    folder = prefixes.folder_of(checkpoint_utils._get_checkpoint_filename(ckpt_dir_or_file))
    if folder is None:
        return {}
    return {name: sum(table.counts) for name, table in manifest.read(folder).tables.items()}


def has_no_rows(initializer: Any) -> bool:
    """Whether a table's new initializer takes its rows from a checkpoint in which no key has a row yet.

    Such a checkpoint is what tf.keras.estimator.model_to_estimator makes of a model that has not been trained.

    Args:
        initializer: by which TensorFlow would replace the table's own: an op, or, by a vocabulary, what it assigns.

    Returns:
        False also where the checkpoint does not tell.

    Raises:
        tf.errors.NotFoundError: there is no such checkpoint.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.frameworks import warm_start
        >>> with tf.Graph().as_default():
        ...     warm_start.has_no_rows(tf.no_op())
        False
    """
    op = getattr(initializer, "op", initializer)
    while op.type != "RestoreV2":
        if not op.inputs:
            return False
        op = op.inputs[len(op.inputs) - 1].op  # of an assignment, the value
    prefix, names = (tensor_util.constant_value(tensor) for tensor in op.inputs[:2])
    if prefix is None or names is None:
        return False
    return _is_empty(tf.train.load_checkpoint(prefix.item().decode()), _count_beside(names[0].decode()))
