"""SavedModels that users save themselves: whoever saves ops of ours hears who can load them."""
import sys
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import manifest, prefixes
from sok1x.core.frameworks import wrapping
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import (
    ESTIMATORS,
    V2,
    builder_impl,
    checkpoint_objects,
    saved_model_save,
)
from sok1x.serving import freezing
from sok1x.serving.subgraphs import first_of_ours

WORDS = ("The SavedModel in %s has ops of sok1x (as '%s'), and only a process that has called sok1x.init() can load "
         "it, on one rank; TensorFlow Serving cannot. sok1x.serving.export_saved_model writes one of stock ops, from a "
         "checkpoint: see docs/serving.md.")
_EXPORTERS = "tensorflow_estimator.python.estimator.exporter"


def watch() -> None:
    """From now on TensorFlow's builder of SavedModels warns where a graph has ops of ours, and so does what saves an
    eager program's; on several ranks that is refused, an Estimator's export before it waits for other ranks. What makes
    constants of tables is refused too."""
    freezing.watch()
    if V2:  # whose SavedModels need no session
        wrapping.wrap(saved_model_save, "save_and_return_nodes", _save_objects)
    for owner in {builder_impl._SavedModelBuilder, getattr(builder_impl, "SavedModelBuilder", None)} - {None}:
        if "save" in vars(owner):
            wrapping.wrap(owner, "save", _save)
    estimator: Any = getattr(sys.modules.get(ESTIMATORS), "Estimator", None)
    if estimator is not None:
        wrapping.wrap(estimator, "_export_all_saved_models", _export)
    exporter: Any = getattr(sys.modules.get(_EXPORTERS), "BestExporter", None)
    if exporter is not None:
        wrapping.wrap(exporter, "export", _export_best)


def _export(stock: Any) -> Any:
    """An Estimator's: of the exporters of train_and_evaluate some come to it on one rank and not on another."""
    def export_all_saved_models(self: Any, export_dir_base: Any, *arguments: Any, **options: Any) -> Any:
        _expect_one_rank(self, options.get("checkpoint_path"), export_dir_base)
        return stock(self, export_dir_base, *arguments, **options)

    return export_all_saved_models


def _export_best(stock: Any) -> Any:
    """A BestExporter's, which first reads what `evaluate` has written: rank 0, and perhaps not yet."""
    def export(self: Any, estimator: Any, export_path: Any, checkpoint_path: Any, *arguments: Any,
               **options: Any) -> Any:
        _expect_one_rank(estimator, checkpoint_path, export_path)
        return stock(self, estimator, export_path, checkpoint_path, *arguments, **options)

    return export


def _expect_one_rank(estimator: Any, path: Any, below: Any) -> None:
    world = launch.current()
    path = path or estimator.latest_checkpoint()
    folder = prefixes.folder_of(path) if path and world is not None and world.size > 1 else None
    if folder is not None and manifest.read(folder).tables:
        raise CheckpointError((
            "A SavedModel cannot be written on {} ranks, below {}: each has only its own rows of the tables. Leave "
            "exporters out of tf.estimator.EvalSpec, and export on one rank, or by "
            "sok.serving.export_saved_model, from the checkpoint {}.").format(world.size, below, path))


def _save(stock: Any) -> Any:
    def save(self: Any, *arguments: Any, **options: Any) -> Any:
        path = stock(self, *arguments, **options)
        for meta_graph in self._saved_model.meta_graphs:
            ours = first_of_ours(meta_graph.graph_def.node)
            if ours is not None:
                tf.logging.warning(WORDS, tf.compat.as_str_any(self._export_dir), ours)
                break
        return path

    return save


def _save_objects(stock: Any) -> Any:
    def save(obj: Any, export_dir: Any, *arguments: Any, **options: Any) -> Any:
        world = launch.current()
        if world is not None and world.size > 1 and any(
                isinstance(one, ShardVariable) for one in checkpoint_objects.util.list_objects(
                    checkpoint_objects.graph_view_lib.ObjectGraphView(obj))):
            raise CheckpointError((
                "A SavedModel cannot be written on {} ranks, {}: each has only its own rows of the tables. Use "
                "sok.CheckpointManager, and sok.serving.export_saved_model, which makes a SavedModel of its "
                "checkpoints; of a Keras model save_weights saves the variables alone").format(world.size, export_dir))
        made = stock(obj, export_dir, *arguments, **options)
        ours = next((one for one in made[0] if isinstance(one, ShardVariable)), None)
        if ours is not None:
            tf.logging.warning(WORDS, export_dir, ours.op.name)
        return made

    return save
