"""`tf.train.Saver` for graphs with tables: made by TensorFlow's hooks, by an Estimator or by the user.

On one rank it does what it always did, but for tables with a cache (caches.py), and says that one rank has saved it
(saved_alone.py). On several, where all ranks are told the same path, it saves and restores a whole checkpoint, all
ranks together (prefix_saving.py); where each has a path of its own, each saves its own shards.

TensorFlow has no place to hear of Savers. So `watch`, called with the first table, has every Saver that is built
afterwards looked at, and one that holds tables becomes a `TableSaver`, the same object with other methods.
"""
import contextlib
import copy
import functools
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import CheckpointError, MismatchError
from sok1x.checkpoint.files import folders, prefixes, urls
from sok1x.checkpoint.savers import (
    agreed_timer,
    caches,
    one_rank,
    ranks_paths,
    restored_tables,
    saved_alone,
    saved_names,
    unheld_tables,
    whose_shards,
)
from sok1x.checkpoint.savers.defined_saver import DefinedSaver, held_by
from sok1x.checkpoint.savers.held import Held, with_keys
from sok1x.checkpoint.savers.imported_saver import ImportedSaver, has_imported_tables
from sok1x.checkpoint.savers.left_out import LeavingOut
from sok1x.checkpoint.savers.prefix_saving import Place, PrefixRestoring, PrefixSaving, place_of
from sok1x.checkpoint.savers.saved_only import SavedOnly
from sok1x.checkpoint.session import restored_sessions, slots_anew
from sok1x.checkpoint.session.dense_saver import VariablesSaver, remove_hooks_folder
from sok1x.checkpoint.session.tables import TableState, let_leave
from sok1x.checkpoint.session.talk import talk
from sok1x.core.frameworks import placement_notes, wrapping
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.tables import sessions
from sok1x.graph_ops.bridge import joined
from sok1x.graph_ops.bridge.tensorflow_versions import checkpoint_management
from sok1x.graph_ops.operations.rank_and_ranks import rank_and_ranks
from sok1x.graph_ops.operations.session_number import session_number
from sok1x.graph_ops.stores import clock

_OF_SAVED_MODEL = os.path.join("variables", "variables")


class TableSaver(tf.train.Saver):
    """What a `tf.train.Saver` that holds tables does."""

    def _prepare(self, held: Held) -> None:
        """Makes the ops, while the graph may still change."""
        self._talk, self._held = talk(), held
        with tf.control_dependencies(None):
            dense = VariablesSaver(held.dense)
            self._saving = PrefixSaving(held.tables, dense, self._talk)
            self._restoring = PrefixRestoring(held.tables, dense, self._talk)
            # Of the save at work in which each rank has a path of its own; and how rows are dealt out then.
            self._token, self._noted = token, noted = [""], ["{}"]
            self._number = session_number()  # of the session
            with tf.device("/cpu:0"):
                of_save = tf.numpy_function(lambda: token[0], [], tf.string)
                dealt_out = tf.numpy_function(lambda: noted[0], [], tf.string)
            marks = {one_rank.MARK: SavedOnly(rank_and_ranks(), one_rank.MARK),
                     one_rank.TOKEN: SavedOnly(of_save, one_rank.TOKEN),
                     placement_notes.NAME: SavedOnly(dealt_out, placement_notes.NAME)}
            marked = dict(self._var_list, **marks) if isinstance(self._var_list, dict) \
                else list(self._var_list) + list(marks.values())
            # What it restores is what the shards of a sok1x have that did not remember keys, nor have tokens or notes
            # of placements, and what one rank has saved.
            memories = [held.name_of(memory) for _, memory in one_rank.memories(held.tables)]
            self._marked = _PlainSaver(marked, sharded=self._sharded, builder=LeavingOut(memories + list(marks)))

    def _hashed(self) -> List[TableState]:
        return [table for table in self._held.tables if table.variable.table.hashed]

    def _rows(self) -> Dict[str, Any]:
        """Its tables' variables, by what they are called in its checkpoints."""
        return {self._held.name_of(table.variable): table.variable for table in self._held.tables}

    @property
    def holds_all_tables(self) -> bool:
        """Whether each of the graph's tables is saved."""
        return self._held.complaint is None and len(self._held.tables) == len(
            self._held.tables[0].variable.graph.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES))

    @sessions.in_its_graph
    def save(self, sess: tf.Session, save_path: str, global_step: Any = None, latest_filename: Optional[str] = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True,
             strip_default_attrs: bool = False, save_debug_info: bool = False) -> Any:
        """As `tf.train.Saver.save`. Raises CheckpointError, on all ranks, where one of them cannot, or where they save
        different sessions."""
        world = joined.world()
        if world.size > 1 and not write_state and save_path.endswith(_OF_SAVED_MODEL):
            raise CheckpointError("A SavedModel cannot be written on {} ranks, {}: each has only its own rows. Restore "
                                  "the checkpoint on one rank, and write it there.".format(world.size, save_path))
        cached = caches.among(table.variable for table in self._held.tables)
        if not write_state and save_path.endswith(_OF_SAVED_MODEL):
            caches.refuse(cached, "A SavedModel cannot be written, " + save_path,
                          "sok.serving.export_saved_model makes one of a checkpoint")
        if world.size > 1:
            ranks_paths.refuse_supervisors_thread(save_path)
        hook = agreed_timer.calling_hook(self._is_of)
        global_step = saved_names.step_of(sess, restored_sessions.complete(sess, global_step))
        prefix = saved_names.prefix_of(self, save_path, global_step)
        options = dict(latest_filename=latest_filename, write_meta_graph=write_meta_graph, write_state=write_state,
                       strip_default_attrs=strip_default_attrs)

        def alone() -> Any:
            let_leave(sess, [table.variable for table in self._held.tables])
            return super(TableSaver, self).save(sess, save_path, global_step, meta_graph_suffix=meta_graph_suffix,
                                                save_debug_info=save_debug_info, **options)

        if world.size > 1:
            if hook is not None:
                agreed_timer.share_clocks(hook, self._talk)
        elif not cached and prefixes.folder_of(prefix) is None:
            return alone()  # else a whole checkpoint has the name, or had when its job died, and would count
        with self._talk.about("a tf.train.Saver saves tables"):
            step = None
            if self._talk.rank == 0:
                with contextlib.suppress(CheckpointError):  # the save meets it again, and all ranks hear of it then
                    step = prefixes.step_around(prefix)
            step = self._step(sess, global_step) if step is None else step
            told = self._talk.agree(sess, lambda: [urls.absolute(prefix), step, urls.absolute(save_path), global_step,
                                                   folders.new_token(), self._number_of(sess)])
        paths = [path for path, *_ in told]
        ranks_paths.expect_one_session(paths, [number for *_, number in told])
        with self._talk.about("a tf.train.Saver saves tables to {}".format(paths[0])):
            if len(set(paths)) == 1:
                return self._save_together(sess, prefix, told[0][1], options)
            ranks_paths.expect_one_step([name for _, _, name, *_ in told], [given for _, _, _, given, *_ in told])
            ranks_paths.expect_own(paths, cached)
            self._token[0], self._noted[0] = told[0][4], placement_notes.text_of(self._rows())
            with self._with_mark():
                return self._talk.agree(sess, alone)[world.rank]

    @sessions.in_its_graph
    def restore(self, sess: tf.Session, save_path: str) -> None:
        """As `tf.train.Saver.restore`. Raises CheckpointError, on all ranks, where one of them cannot.

        Slots of a table's optimizer that this Saver does not hold begin anew: the table's keys have other rows now.
        """
        world = joined.world()
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        place = place_of(urls.absolute(str(save_path)))
        with self._talk.about("a tf.train.Saver restores tables"):
            places = [Place(*told) for told in self._talk.exchange(sess, list(place))]
        for rank, one in enumerate(places):
            if one.error is not None and (rank == world.rank or place.error is None):
                raise (ValueError if rank == world.rank else CheckpointError)(one.error)
        with self._talk.about("a tf.train.Saver restores tables from {}".format(places[0].prefix)):
            others = restored_tables.other_slots(sess, self._hashed())
            whose_shards.expect_one_save([one.token for one in places], places)
            if place.folder is not None:
                self._expect_whole("restore")
                tf.logging.info("Restoring parameters from %s", place.folder)
                self._restoring.restore_whole(sess, place.folder)
            elif whose_shards.are_one_ranks(places, world, self._held):
                self._expect_whole("restore")
                tf.logging.info("Restoring parameters from %s", place.prefix)
                self._restoring.restore_one_ranks(sess, place.prefix)
            else:
                self._talk.agree(sess, lambda: self._restore_own(sess, save_path, place.prefix))
            if others is not None:
                self._talk.agree(sess, functools.partial(slots_anew.begin, sess, None, others))
            restored_sessions.note_global_step(sessions.raw(sess), self._held.all_of(sess.graph))

    def _restore_own(self, session: tf.Session, save_path: str, prefix: str) -> None:
        """What this rank has saved for itself, as TensorFlow does it; prefix: the path, an absolute one."""
        notes = placement_notes.in_checkpoint(tf.train.NewCheckpointReader(prefix))
        for name, variable in self._rows().items():
            placement_notes.expect(variable, notes.get(name), prefix, MismatchError)
        with restored_tables.noted(session, self._held.tables):
            if not one_rank.unsaved_memories(prefix, self._held.tables, self._held.name_of):
                super().restore(session, save_path)
                return
            with self._with_mark():
                super().restore(session, save_path)
            session.run([memory.initializer for _, memory in one_rank.memories(self._held.tables)])

    def _save_together(self, session: tf.Session, prefix: str, step: int, options: Dict[str, Any]) -> str:
        self._expect_whole("save")
        urls.expect_local(prefix)

        def record() -> None:
            if options["write_state"]:
                self._RecordLastCheckpoint(prefix)
                checkpoint_management.update_checkpoint_state_internal(
                    os.path.dirname(urls.absolute(prefix)), urls.absolute(prefix),
                    [urls.absolute(path) for path in self.last_checkpoints], options["latest_filename"],
                    save_relative_paths=True)
                self._MaybeDeleteOldCheckpoints()

        self._saving.save_to(session, urls.absolute(prefix), step, {
            name: options[name] for name in ("write_meta_graph", "strip_default_attrs")}, record,
            self._held.all_of(session.graph))
        if self._talk.rank and options["write_state"]:
            self._RecordLastCheckpoint(prefix)
            del self._checkpoints_to_be_deleted[:]  # rank 0's work
        return prefix

    def _MaybeDeleteOldCheckpoints(self, meta_graph_suffix: str = "meta") -> None:
        concerned = remove_hooks_folder(self)
        super()._MaybeDeleteOldCheckpoints(meta_graph_suffix)
        if concerned is not None:
            prefixes.remove(concerned)

    def _is_of(self, hook: Any) -> bool:
        try:
            return hook._get_saver() is self
        except RuntimeError:  # it has none, as ours
            return False

    def _expect_whole(self, what: str) -> None:
        if self._held.complaint is not None:
            several = joined.world().size > 1
            raise CheckpointError("A tf.train.Saver cannot {} tables {} where {}: {}.".format(
                what, "on several ranks" if several else "with a cache, or in a folder of sok1x's files,",
                self._held.complaint, whose_shards.TOGETHER if several else whose_shards.OF_ALL))

    def _number_of(self, session: Any) -> Optional[int]:
        """What all ranks know the session by (session_number.py); None where a tf.train.Server has it."""
        return None if sessions.raw(session).sess_str else int(sessions.raw(session).run(self._number))

    def _step(self, session: tf.Session, global_step: Optional[int]) -> int:
        """The step for the manifest; equal on all ranks, or rank 0's."""
        if global_step is None:
            variable = clock.global_step_of(session.graph)
            try:
                global_step = 0 if variable is None else int(session.run(variable))
            except (tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError):  # no value, or must be fed
                global_step = 0
        return max(0, int(global_step))

    @contextlib.contextmanager
    def _with_mark(self) -> Iterator[None]:
        """Inside, what is saved says whose shards it has and of which save, and what is restored may lack this and the
        memories."""
        itself: Any = self
        definition, marked = itself.saver_def, self._marked.saver_def
        itself.saver_def = copy.deepcopy(definition)
        itself.saver_def.save_tensor_name = marked.save_tensor_name
        itself.saver_def.restore_op_name = marked.restore_op_name
        itself.saver_def.filename_tensor_name = marked.filename_tensor_name
        try:
            yield
        finally:
            itself.saver_def = definition


class _PlainSaver(tf.train.Saver):
    """A Saver of TensorFlow's that stays one."""

    for_tables = False


_classes: Dict[Tuple[Type[Any], Type[Any]], Type[Any]] = {}


def _subclass(ours: Type[Any], kind: Type[Any]) -> Type[Any]:
    """The class of a Saver of this kind that does as ours."""
    if issubclass(kind, ours):
        return kind
    return _classes.setdefault((ours, kind), type(kind.__name__, (ours, kind), {}))


def watch() -> None:
    """Has Savers that hold tables become `TableSaver`s, when they are built."""
    talk()
    wrapping.wrap(tf.train.Saver, "_build", _watched)
    wrapping.wrap(tf.train.Saver, "restore", unheld_tables.restored)


def _watched(build: Callable[..., None]) -> Callable[..., None]:
    def watched_build(self: Any, checkpoint_path: Any, build_save: bool, build_restore: bool) -> None:
        if not tf.executing_eagerly() and has_imported_tables(tf.get_default_graph()):
            chosen = self._var_list is not None
            build(self, checkpoint_path, build_save, build_restore)
            self.__class__ = _subclass(ImportedSaver, type(self))
            self.chosen = chosen
            return
        if tf.executing_eagerly() or self._is_built or not getattr(self, "for_tables", True):
            build(self, checkpoint_path, build_save, build_restore)
            return
        if self.saver_def:
            build(self, checkpoint_path, build_save, build_restore)
            shards = held_by(self.saver_def, tf.get_default_graph())
            if shards:
                self.__class__ = _subclass(DefinedSaver, type(self))
                self.held = shards
            return
        if self._var_list is None:
            self._var_list = tf.global_variables() + tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)
        held = None
        if isinstance(self._var_list, (list, tuple, set, dict)):
            self._var_list = with_keys(self._var_list)
            held = Held(self._var_list, tf.get_default_graph())
        with saved_alone.said_by(self, held):
            build(self, checkpoint_path, build_save, build_restore)
        if held is not None and held.any:
            self.__class__ = _subclass(TableSaver, type(self))
            self._prepare(held)

    return watched_build
