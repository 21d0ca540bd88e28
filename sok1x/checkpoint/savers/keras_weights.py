"""Keras' `save_weights` and `load_weights` of models with tables on several ranks: in graphs as a `tf.train.Saver` does
it, on one rank too if a table has a cache (caches.py), eagerly as a `tf.train.Checkpoint` (eager_checkpoints.py), which
Keras' own methods call there. `load_model`, whose files have one rank's rows, is refused on several."""
import contextlib
import json
import os
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.eager import graph_rest
from sok1x.checkpoint.errors import CheckpointError, MismatchError
from sok1x.checkpoint.files import prefixes
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.savers import caches
from sok1x.checkpoint.savers.saved_only import SavedOnly
from sok1x.checkpoint.session.dense_saver import dense_prefix
from sok1x.core.frameworks import wrapping
from sok1x.core.tables import table_parts
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_LOADERS, KERAS_MODELS, KERAS_WRITERS

_savers: Any = weakref.WeakKeyDictionary()  # model -> its Savers
# What is saved besides: the names of the model's weights, and of the optimizer's, in their order.
_ORDER = "sok1x_keras_weights"


def watch() -> None:
    """Has Keras' models with tables save all ranks' rows. On one rank all is as ever."""
    for model in KERAS_MODELS:
        for name, replaced in (("save_weights", _save_weights), ("load_weights", _load_weights), ("save", _save)):
            wrapping.wrap(model, name, replaced)
    for module, name in KERAS_LOADERS:
        wrapping.wrap(module, name, _load_model)
    for module, name in KERAS_WRITERS:  # tf.keras.models.save_model and pickle come here without `save`
        wrapping.wrap(module, name, _save)


def _save_weights(stock: Callable[..., Any]) -> Callable[..., Any]:
    def save_weights(self: Any, filepath: str, *arguments: Any, **options: Any) -> Any:
        formats = arguments[1:2] or [options.get("save_format")]
        cached = not tf.executing_eagerly() and _cached(self)
        if not _on_several_ranks(self) and not cached:
            if _is_keras_own(filepath, formats):
                caches.refuse(_cached(self), "save_weights to {}".format(filepath), _instead())
            # What several ranks have saved there is replaced; a tf.train.Checkpoint, which Keras' own calls, does so.
            ours = _has_tables(self) and (not tf.executing_eagerly() or _is_keras_own(filepath, formats))
            with prefixes.replaced(os.fspath(filepath)) if ours else contextlib.nullcontext():
                return stock(self, filepath, *arguments, **options)
        if tf.executing_eagerly():
            caches.refuse(_cached(self), "save_weights to {}".format(filepath), _instead())
            _expect_tensorflows_format("save_weights", filepath, formats)
            return stock(self, filepath, *arguments, **options)
        _saver(self).save(tf.keras.backend.get_session(), os.fspath(filepath), write_meta_graph=False)
        return None
    return save_weights


def _load_weights(stock: Callable[..., Any]) -> Callable[..., Any]:
    def load_weights(self: Any, filepath: str, *arguments: Any, **options: Any) -> Any:
        if tf.executing_eagerly():
            if _on_several_ranks(self):
                _expect_tensorflows_format("load_weights", filepath, [])
            return stock(self, filepath, *arguments, **options)
        if not _has_tables(self):
            return stock(self, filepath, *arguments, **options)
        filepath = os.fspath(filepath)
        if prefixes.folder_of(filepath) is None and not _cached(self):
            if _on_several_ranks(self):
                raise MismatchError((
                    "load_weights: {} is not what save_weights writes on several ranks: it is missing, or has one "
                    "rank's rows. Load it on one rank and save it there with tf.train.Saver(model.weights), whose "
                    "checkpoint any number of ranks restores.").format(filepath))
            return stock(self, filepath, *arguments, **options)
        if any(arguments) or any(options.values()):
            raise ValueError("load_weights: {} was saved on several ranks, and can be loaded as a whole only: got {} "
                             "{}, expected no more than the path".format(filepath, arguments, options))
        folder = prefixes.folder_of(filepath)
        if folder is None:
            _expect_names(filepath, _cached(self))
        saved = _names_in(filepath if folder is None else dense_prefix(Checkpoint(folder)))
        # Where nothing says what was saved, as in older releases' files, the weights go by their names.
        named = {one.op.name: one for one in self.weights} if saved is None else _paired(self, filepath, *saved)
        _saver(self, named).restore(tf.keras.backend.get_session(), filepath)
        return _Loaded()
    return load_weights


class _Loaded:
    """What Keras' own gives, of weights all of which have been loaded."""

    def assert_consumed(self) -> "_Loaded":
        return self

    assert_existing_objects_matched = assert_nontrivial_match = expect_partial = assert_consumed

    def initialize_or_restore(self, session: Any = None) -> None:
        """All has been restored."""

    run_restore_ops = initialize_or_restore


def _save(stock: Callable[..., Any]) -> Callable[..., Any]:
    def save(self: Any, filepath: str, *arguments: Any, **options: Any) -> Any:
        caches.refuse(_cached(self), "model.save to {}".format(filepath), _instead())  # which save_weights may not do
        if _on_several_ranks(self):
            raise CheckpointError((
                "model.save to {} on several ranks: this rank's model has only its own rows of the tables. Use "
                "model.save_weights on all ranks, or sok.CheckpointManager, which saves the optimizer too; "
                "sok.serving.export_saved_model makes a SavedModel of its checkpoints.").format(filepath))
        return stock(self, filepath, *arguments, **options)
    return save


def _load_model(stock: Callable[..., Any]) -> Callable[..., Any]:
    def load_model(filepath: Any, *arguments: Any, **options: Any) -> Any:
        model = stock(filepath, *arguments, **options)
        if _on_several_ranks(model):
            # Keras hands on open files, too: TensorFlow's, and those of HDF5.
            path = filepath.name if isinstance(filepath, tf.gfile.GFile) else getattr(filepath, "filename", filepath)
            raise CheckpointError((
                "load_model: {} has one rank's rows of the tables, and here several ranks have them. Build the model "
                "by its code, and load what model.save_weights in TensorFlow's format, tf.train.Checkpoint or "
                "sok.CheckpointManager has written; load the file itself on one rank").format(path))
        return model
    return load_model


def _instead() -> str:
    """What saves tables with a cache: eagerly nothing of Keras'."""
    return "Use {}sok.CheckpointManager, which saves the optimizer too".format(
        "" if tf.executing_eagerly() else "model.save_weights, or ")


def _is_keras_own(filepath: Any, formats: Sequence[Any]) -> bool:
    """Whether it is not TensorFlow's format in which Keras would save, or load, weights."""
    return str(filepath).endswith((".h5", ".hdf5", ".keras")) or any(
        str(one).lower().strip() in ("h5", "hdf5", "keras") for one in formats)


def _expect_tensorflows_format(method: str, filepath: Any, formats: Sequence[Any]) -> None:
    """Raises CheckpointError for what Keras would have one rank write, or read, alone."""
    if _is_keras_own(filepath, formats):
        raise CheckpointError((
            "{}: got {} in Keras' own format, on several ranks, where each has its own rows of the tables: expected "
            "TensorFlow's (a path without .h5 and .keras)").format(method, filepath))


def _on_several_ranks(model: Any) -> bool:
    world = launch.current()
    return world is not None and world.size > 1 and _has_tables(model)


def _has_tables(model: Any) -> bool:
    try:
        return any(isinstance(one, ShardVariable) for one in model.weights)
    except ValueError:  # a subclass of Model that was never called has no weights yet
        return False


def _cached(model: Any) -> List[str]:
    """Names of its tables that have a cache."""
    return caches.among(model.weights) if _has_tables(model) else []


def _saver(model: Any, named: Optional[Dict[str, Any]] = None) -> tf.train.Saver:
    """A Saver of a model's weights and its optimizer's, and of the names of these; or of some with other names."""
    weights = list(model.weights)
    both = weights + _of_optimizer(model)
    known = _savers.get(model)
    if known is None or [id(one) for one in known[0]] != [id(one) for one in both]:
        known = _savers[model] = both, {}
    names = None if named is None else tuple(named)
    if names not in known[1]:
        with weights[0].graph.as_default():
            if named is None:
                named = {one.op.name: one for one in both}
                names_of = [[one.op.name for one in part] for part in (weights, both[len(weights):])]
                with tf.device("/cpu:0"):
                    named[_ORDER] = SavedOnly(tf.constant(json.dumps(names_of)), _ORDER)  # the same in every session
            known[1][names] = tf.train.Saver(named, max_to_keep=None)
    return known[1][names]


def _of_optimizer(model: Any) -> List[Any]:
    """What a model's optimizer has made: one of Keras' in the order of the model's weights, TensorFlow's by names."""
    optimizer: Any = getattr(model, "optimizer", None)
    try:
        found = getattr(optimizer, "weights", None)
    except NotImplementedError:  # Keras' wrapper of TensorFlow's
        found = optimizer.optimizer.variables()
    return list(found) if isinstance(found, (list, tuple)) else []


def _names_in(prefix: str) -> Optional[List[List[str]]]:
    """The names of the weights and of the optimizer's that have been saved, in order; None where nothing says it."""
    if not tf.train.checkpoint_exists(prefix):  # whoever restores says so
        return None
    reader = tf.train.load_checkpoint(prefix)
    return json.loads(reader.get_tensor(_ORDER).decode()) if reader.has_tensor(_ORDER) else None


def _expect_names(prefix: str, cached: List[str]) -> None:
    """Raises MismatchError where one rank has saved tables as Keras' own does: those with a cache go by their names."""
    missing = cached
    if not os.path.isfile(prefix):  # as Keras' own format has it
        if not tf.train.checkpoint_exists(prefix) or graph_rest.is_by_name(prefix):
            return
        reader = tf.train.load_checkpoint(prefix)
        missing = [name for name in cached if not reader.has_tensor(name)]
    if missing:
        raise MismatchError((
            "load_weights: {} is what Keras' own save_weights writes on one rank of tables without a cache, and here "
            "'{}' has one, and is found by its name alone. Load it into the model without cache_rows, save that by "
            "tf.train.Saver(model.weights), and load what this has written.").format(prefix, "', '".join(missing)))


def _paired(model: Any, filepath: Any, saved: List[str], of_optimizer: List[str]) -> Dict[str, Any]:
    """{its name in a file: weight}. Keras pairs them by their places in the model: it makes names by itself, which
    depend on what has been built before.

    Raises:
        MismatchError: there are more or fewer, or a table has been saved under another name.
    """
    # A table is loaded into one of another kind too, as with a cache or without: with other things beside its rows.
    tables = [one.op.name for one in model.weights if hasattr(one, "table")]
    tables += [name for name in saved if name + "/stamps" in saved]
    beside = {"{}/{}".format(table, name) for table in tables for name in table_parts.NAMES}
    weights = [one for one in model.weights if one.op.name not in beside]
    saved = [name for name in saved if name not in beside]
    if len(saved) != len(weights):
        raise MismatchError("load_weights: {} has {} weights ({}, …), and the model has {} ({}, …): build the model "
                            "that was saved".format(filepath, len(saved), saved[0], len(weights), weights[0].op.name))
    for name, weight in zip(saved, weights):
        if isinstance(weight, ShardVariable) and weight.op.name != name:
            raise MismatchError(
                "load_weights: {} has table '{}' where the model has '{}': give the layer, or the table, a name of its "
                "own (name=...) when it is saved and when it is loaded; Keras' own change with what has been built "
                "before".format(filepath, name, weight.op.name))
    if getattr(model, "optimizer", None) is not None:
        if not _of_optimizer(model) and of_optimizer and getattr(model, "total_loss", None) is not None:
            model._make_train_function()  # as the first `fit` does: the optimizer makes what it keeps
        made = _of_optimizer(model)
        in_order = not isinstance(getattr(model.optimizer, "optimizer", None), tf.train.Optimizer)
        if len(made) == len(of_optimizer) and (in_order or [one.op.name for one in made] == of_optimizer):
            # A table's slots are its parts, whatever they are called.
            saved = saved + [one.op.name if isinstance(one, ShardVariable) else name
                             for name, one in zip(of_optimizer, made)]
            weights = weights + made
        else:
            tf.logging.warning(
                "load_weights: %s has %d variables of an optimizer, and this model's has %d, or others: the weights "
                "alone are loaded, and slots of tables begin anew.", filepath, len(of_optimizer), len(made))
    named = dict(zip(saved, weights))
    named.update((one.op.name, one) for one in model.weights if one.op.name in beside)
    return named
