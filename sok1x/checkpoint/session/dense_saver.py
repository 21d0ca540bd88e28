"""TensorFlow's Saver for what is not in shards."""
import os
import re
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import folders, former_names, prefixes
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.savers import imported_saver, input_positions
from sok1x.checkpoint.session import restored_sessions
from sok1x.checkpoint.session.tables import TableState, dense_of
from sok1x.core.tables.table_parts import StartVariable
from sok1x.graph_ops.bridge.tensorflow_versions import PartitionedVariable, Variable, saveable_object, saver


def dense_prefix(checkpoint: Checkpoint) -> str:
    """Where TensorFlow's files of a checkpoint are: in its folder; beside it, if `CheckpointSaverListener` saved."""
    if checkpoint.manifest.other_files():
        return folders.tensorflow_prefix(checkpoint.folder, checkpoint.manifest.step)
    return checkpoint.folder


class _Start(saveable_object.SaveableObject):
    """A `StartVariable` among the variables of a Saver."""

    def __init__(self, variable: Any, name: str) -> None:
        value = variable.value()
        super().__init__(value, [saveable_object.SaveSpec(value, "", name, value.dtype)], name)


def _with_starts(variables: Any) -> Any:
    if isinstance(variables, dict):
        return {name: _Start(variable, name) if isinstance(variable, StartVariable) else variable
                for name, variable in variables.items()}
    return [_Start(variable, variable.op.name) if isinstance(variable, StartVariable) else variable
            for variable in variables]


class _Builder(saver.BulkSaverBuilder):
    """Restores no `_Start`: a checkpoint that has none will do."""

    def _AddRestoreOps(self, filename_tensor: Any, saveables: Any, *args: Any, **options: Any) -> Any:
        return super()._AddRestoreOps(filename_tensor, [one for one in saveables if not isinstance(one, _Start)],
                                      *args, **options)


class VariablesSaver(tf.train.Saver):
    """TensorFlow's Saver of variables that are the same on all ranks: only rank 0 writes them.

    Args:
        variables: as TensorFlow's `var_list`; none of them is a shard.
    """

    for_tables = False  # table_saver.py leaves it as it is

    def __init__(self, variables: Any) -> None:
        names = variables.items() if isinstance(variables, dict) else [(None, variable) for variable in variables]
        super().__init__(_with_starts(variables), allow_empty=True, save_relative_paths=True, builder=_Builder())
        self._wanted = dict(_saved_as(name, variable) for name, variable in names
                            if isinstance(variable, (Variable, PartitionedVariable))
                            and not isinstance(variable, StartVariable))
        self._former = former_names.of_graph(self._wanted)
        self._iterators = input_positions.among(variable for _, variable in names)

    def expect_equal_on_ranks(self) -> None:
        """Raises CheckpointError where something differs from rank to rank by its nature; all ranks call it."""
        input_positions.refuse(self._iterators)

    @property
    def bytes(self) -> int:
        """About what a checkpoint of the variables takes."""
        return sum((shape.num_elements() or 0) * dtype.size for shape, dtype in self._wanted.values())

    def check(self, checkpoint: Checkpoint) -> None:
        """Finds out whether a checkpoint can be restored, before anything is.

        Raises:
            DamagedError: one of TensorFlow's files is not what was saved.
            MismatchError: a variable is not in the checkpoint, or is of another shape or dtype there.
        """
        for name in checkpoint.manifest.other_files():
            checkpoint.check_other(name)
        self.check_prefix(dense_prefix(checkpoint), checkpoint.folder)

    def check_prefix(self, prefix: str, where: str) -> None:
        """As `check`, for TensorFlow's files alone; `where` names the checkpoint to the user."""
        if not self._wanted:
            return
        reader = tf.train.NewCheckpointReader(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        for variable, (shape, dtype) in self._wanted.items():
            name = variable if variable in shapes else self._former.get(variable, variable)
            if name not in shapes:
                raise MismatchError("{} has no variable '{}', which the model has; it has {}.".format(
                    where, name, ", ".join(sorted(shapes)) or "none"))
            if dtypes[name] != dtype or not shape.is_compatible_with(shapes[name]):
                raise MismatchError("variable '{}' is {} {} in {}, and {} {} in the model: build the model as it was "
                                    "when the checkpoint was saved.".format(
                                        name, dtypes[name].name, shapes[name], where, dtype.name, shape))

    def save(self, sess: tf.Session, save_path: str, *arguments: Any, **options: Any) -> Any:
        """As `tf.train.Saver.save`, on rank 0."""
        self.expect_equal_on_ranks()
        world = launch.current()
        if world is not None and world.rank:
            return None
        return super().save(sess, save_path, *arguments, **options)

    def _MaybeDeleteOldCheckpoints(self, meta_graph_suffix: str = "meta") -> None:
        remove_hooks_folder(self)
        super()._MaybeDeleteOldCheckpoints(meta_graph_suffix)

    def restore_dense(self, sess: tf.Session, save_path: str) -> None:
        """As `tf.train.Saver.restore`; shards are left alone."""
        self.expect_equal_on_ranks()
        with former_names.translated(save_path, self._former) as path:
            super().restore(sess, path)


def remove_hooks_folder(one: Any) -> Optional[str]:
    """Which checkpoint TensorFlow's Saver is about to remove: before it does, the whole of one that our hook saved.

    For what TensorFlow removes then is in that folder, and would leave a checkpoint without it. None where it removes
    none, or keeps it for good; as it does one in whose folder it has gone on.
    """
    oldest = (one._checkpoints_to_be_deleted or [None])[0]
    if oldest is None or oldest[1] > one._next_checkpoint_time:
        return None
    prefix = str(one._CheckpointFilename(oldest))
    if prefixes.remove_around(prefix):
        del one._checkpoints_to_be_deleted[0]
        return remove_hooks_folder(one)
    return prefix


def _saved_as(name: Optional[str], variable: Any) -> Any:
    """The name, and (shape, dtype), of a variable in TensorFlow's checkpoint: of a part those of the whole."""
    if isinstance(variable, PartitionedVariable):
        part = next(iter(variable))._save_slice_info
        return name or part.full_name, (_whole(part), variable.dtype.base_dtype)
    part = variable._save_slice_info
    if part is None or name is not None:  # to a part that is given a name of its own TensorFlow gives no other
        return name or variable.op.name, (variable.shape, variable.dtype.base_dtype)
    return part.full_name, (_whole(part), variable.dtype.base_dtype)


def _whole(part: Any) -> tf.TensorShape:
    return tf.TensorShape([int(one) for one in part.full_shape])


class DenseSaver(VariablesSaver):
    """Saves and restores all that TensorFlow's default Saver would, but for the shards.

    `MonitoredTrainingSession` finds it in the graph's SAVERS collection and restores through it. Then the variables'
    initializers are not run, so `restore` runs those of the shards: they get their values from the hook's restore.

    Args:
        tables: the graph's tables.
        directory: the checkpoint_dir of whole checkpoints, of which `restore` takes the last one, whatever
            TensorFlow's state file says: a job that died may have got no further. None takes TensorFlow's word.

    Raises:
        CheckpointError: the graph has tables that came with a MetaGraph.
    """

    def __init__(self, tables: List[TableState], directory: Optional[str]) -> None:
        imported_saver.refuse_imported_tables(tf.get_default_graph())
        self._directory, self._tables = directory, tables
        self._restored = [directory]  # of all hooks of the graph
        self._initialize_shards = tf.group(
            *[variable.initializer for table in tables for variable in table.variables()], name="initialize_shards")
        super().__init__(dense_of(tf.get_default_graph(), tables))
        self.expect_equal_on_ranks()  # a Saver of TensorFlow's may be there and never save

    def restore(self, sess: tf.Session, save_path: str) -> None:
        """As `tf.train.Saver.restore`; shards get their initial values."""
        found = None if self._directory is None else last_whole(self._directory)
        if found is not None:
            whole = Checkpoint(found.folder)
            self.check(whole)
        if found is None or _step_of(save_path) > found.step:
            self._expect_no_tables(save_path)
        sess.run(self._initialize_shards)
        self.restore_dense(sess, save_path if found is None else dense_prefix(whole))
        restored_sessions.begin_half(sess)

    def _expect_no_tables(self, prefix: str) -> None:
        """Raises where TensorFlow's checkpoint has tables in it: they would be lost."""
        self._expect_no_folder(prefix)
        saved = tf.train.NewCheckpointReader(prefix).get_variable_to_shape_map()
        for table in self._tables:
            if former_names.saved_as(table.name, saved, [table.variable]) in saved:
                raise MismatchError((
                    "{} is no checkpoint that sok1x's hooks have saved: it has table '{}' among TensorFlow's "
                    "variables, as a tf.train.Saver on one rank saves it. Restore it with tf.train.Saver().restore("
                    "session, ...), then save it anew with sok.CheckpointManager.").format(prefix, table.name))

    def _expect_no_folder(self, prefix: str) -> None:
        """Raises where it is a whole checkpoint that no hook of the session will restore: its tables would be lost."""
        folder = prefixes.folder_of(prefix)
        directories = [directory for directory in self._restored if directory is not None]
        if folder is None or len(directories) < len(self._restored):
            return
        manifest = Checkpoint(folder).manifest
        saved, whole = manifest.tables, bool(manifest.other_files())
        hooks = [os.path.realpath(one.folder) for directory in directories for one in folders.within(directory)]
        if whole and os.path.realpath(folder) in hooks:
            return  # a hook restores it, or a later one, of which a job that died has not told TensorFlow's state file
        around = os.path.realpath(os.path.dirname(folder)) in [os.path.realpath(directory) for directory in directories]
        for table in self._tables:
            if former_names.saved_as(table.name, saved, [table.variable]) in saved:
                if around and not whole:
                    raise MismatchError((
                        "{} has tables alone, as sok.CheckpointSaverListener saves them, and TensorFlow's hook all "
                        "else beside it: sok.CheckpointSaverHook restores no such checkpoint. Go on with these two; or "
                        "restore it with tf.train.Saver().restore(session, ...), and save it anew with "
                        "sok.CheckpointManager.").format(folder))
                raise MismatchError((
                    "{} has table '{}', and the session's sok.CheckpointSaverHook restores tables from {}, which does "
                    "not have it among its own: they would begin anew. Give the hook the session's checkpoint_dir; or "
                    "restore it with tf.train.Saver().restore(session, ...), and save it anew with "
                    "sok.CheckpointManager.").format(folder, table.name, " or ".join(directories)))

    def also_restored(self, directory: Optional[str]) -> None:
        """One more hook restores tables from a folder; None: what TensorFlow names."""
        self._restored.append(directory)

    def recover_last_checkpoints(self, checkpoint_paths: List[str]) -> None:
        """As TensorFlow's, for checkpoints that this Saver itself removes in time."""
        # The state file may name what is gone, or is being replaced: a job died before it wrote it anew.
        if self._directory is None:
            super().recover_last_checkpoints(checkpoint_paths)


def for_graph(tables: List[TableState], directory: Optional[str]) -> DenseSaver:
    """A DenseSaver of the default graph. Where the graph has no Saver yet, TensorFlow's sessions and hooks find it."""
    made = DenseSaver(tables, directory)
    savers = tf.get_collection_ref(tf.GraphKeys.SAVERS)
    if not savers:
        savers.append(made)
    elif isinstance(savers[0], DenseSaver):
        savers[0].also_restored(directory)
    return made


def _step_of(prefix: str) -> int:
    """The step in the name that TensorFlow's hook gives a checkpoint; -1 where there is none."""
    found = re.search(r"-([0-9]+)\Z", prefix)
    return int(found.group(1)) if found else -1


def later_named(directory: str, step: int) -> Optional[str]:
    """What TensorFlow's state file in a folder names, where that is of a later step than `step`, by its name; or None.

    A tf.train.Saver may have saved it, whose checkpoints have other names, and on one rank none of our folders.
    """
    named = tf.train.latest_checkpoint(directory)
    if named is None or os.path.realpath(os.path.dirname(named)) == os.path.realpath(
            os.path.join(directory, os.path.basename(named))):
        return None  # nothing, or a folder of ours, which counts if it is complete
    return named if _step_of(named) > step else None


def last_whole(directory: str) -> Optional[folders.Found]:
    """The last complete checkpoint that has the dense variables too, below a folder, or the one that this is.

    Where TensorFlow's own hook saves those, `CheckpointSaverListener` saves shards alone.
    """
    for found in folders.within(directory):
        if Checkpoint(found.folder).manifest.other_files():
            return found
    return None
