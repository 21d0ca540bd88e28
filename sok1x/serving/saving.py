"""SavedModels that users save themselves: whoever saves ops of ours hears who can load them."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import builder_impl
from sok1x.serving.subgraphs import OUR_OPS

WORDS = ("The SavedModel in %s has ops of sok1x (as '%s'), and only a process that has called sok1x.init() can load "
         "it, on one rank; TensorFlow Serving cannot. sok1x.serving.export_saved_model writes one of stock ops, from a "
         "checkpoint: see docs/serving.md.")


def watch() -> None:
    """From now on TensorFlow's builder of SavedModels warns where a graph has ops of ours."""
    for owner in {builder_impl._SavedModelBuilder, getattr(builder_impl, "SavedModelBuilder", None)} - {None}:
        stock = vars(owner).get("save")
        if stock is not None and not hasattr(stock, "_sok1x_stock"):
            owner.save = _save(stock)


def _save(stock: Any) -> Any:
    def save(self: Any, *arguments: Any, **options: Any) -> Any:
        path = stock(self, *arguments, **options)
        for meta_graph in self._saved_model.meta_graphs:
            ours = next((node.name for node in meta_graph.graph_def.node if node.op in OUR_OPS), None)
            if ours is not None:
                tf.logging.warning(WORDS, tf.compat.as_str_any(self._export_dir), ours)
                break
        return path

    save._sok1x_stock = stock  # type: ignore[attr-defined]
    return save
