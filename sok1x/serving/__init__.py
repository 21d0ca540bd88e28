"""Models for production, as SavedModels of stock ops that need no sok1x.

    export           `export_saved_model`
    building         the served graph
    saved_models     its folder
    models           what is served: a function's graph, tensors, or a checkpoint's graph
    marking          `mark_for_serving`
    subgraphs        what of a graph the outputs need
    rewriting        our ops replaced by stock ops
    lookups          what these are for each operation
    tables           an exported table: its tensors, its variables, and rows of keys
    initial_rows     the first rows of unseen keys, by stock ops
    unseen           what unseen keys read
    sources          what is exported: a checkpoint's tables and dense variables
    readers          a checkpoint's variables by their names
    parts            and those that a partitioner has cut
    table_data       a table on its way into the files
    bundles          TensorFlow's files of variables, a stretch at a time
    updating         `update_saved_model`
    saving           the warning of whoever saves our ops themselves
    loading          what lies beside a table's rows, in a SavedModel of our ops
    freezing         the error of whoever makes constants of tables
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.serving.export import export_saved_model
    from sok1x.serving.marking import mark_for_serving
    from sok1x.serving.updating import update_saved_model

__all__ = ["export_saved_model", "mark_for_serving", "update_saved_model"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {
    "export_saved_model": "export", "mark_for_serving": "marking", "update_saved_model": "updating"})
