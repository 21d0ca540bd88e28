"""Model-parallel embedding tables for TensorFlow 1.15 and 2.15, under the names of SparseOperationKit
(SOK) 1.x and 2.x.

The import is free: TensorFlow is loaded when one of the names below is first used, MPI and GPUs when `init` is called
or the op made by `Init` runs. Nothing is printed or started.

Notation of all docstrings: N ranks (one process, one GPU each) · B samples of this rank's batch · S slots (feature
fields) · H keys a slot · D floats a row · V rows of this rank's shard of a table · K keys of this rank's batch ·
U distinct keys among them · a key's owner is the rank `key % N`, unless one rank has the whole table.

Example:
    >>> import sok1x
    >>> "All2AllDenseEmbedding" in dir(sok1x)
    True
"""
# The map of this folder; packages in it have maps of their own. Below them lie graph_ops, cuda_kernels and launch
# (docs/how_it_works.md).
#
# Tables and lookups, as SOK 2.x has them (the layers: embeddings; most of what tables are: core):
#     variable              `sok.Variable`
#     distributed_variable  one whose rows are dealt out over all ranks
#     localized_variable    one whose rows one rank has
#     dynamic_variable      one that grows
#     lookup                `sok.lookup_sparse` and `sok.all2all_dense_embedding`
#     sparse_ids            ids as these take them, with their weights
#     weighting             rows combined with weights
#     row_access            `sok.assign` and `sok.export`
#
# What becomes of tables:
#     forgetting            keys that leave
#     incremental           rows that changed since a step
#     model_dump            rows that changed since a time
#     statistics            how full they are
#     table_figures         what summaries say of them
#     table_summary         `sok.summary`
#     summary_hook          `sok.SummaryHook`
#
# Programs: python -m sok1x.NAME
#     build                 compiles what an installation lacks
#     check                 looks over an installation
#     check_needs           what both look at first
#     check_outcomes        how a check ends
#     gpu_checks            what is checked of GPUs
#     timeline              timelines of ranks in one file
#
# Others:
#     alias                 `import sparse_operation_kit`
#     communication         which rank this is
#     ends                  what a rank says when its process ends
#     even_steps            data of different length
#     kit_lib               SOK's module of facts
#     lazy                  names that are imported when they are used
#     versions              `sok.tf_version`
from typing import TYPE_CHECKING

from sok1x import ends, lazy

if TYPE_CHECKING:
    from sok1x.alias import install_as_sparse_operation_kit
    from sok1x.checkpoint.savers.saver_listener import CheckpointSaverListener
    from sok1x.checkpoint.session.manager import CheckpointManager
    from sok1x.checkpoint.session.saver_hook import CheckpointSaverHook
    from sok1x.core.broadcast import BroadcastGlobalVariablesHook, broadcast_global_variables
    from sok1x.core.callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback
    from sok1x.core.context_scope import OptimizerScope
    from sok1x.core.embedding_variable import EmbeddingVariable
    from sok1x.core.graph_keys import GraphKeys
    from sok1x.core.initialize import Init, InitHook
    from sok1x.core.joining import init, set_comm_tool
    from sok1x.core.scaffold import Scaffold
    from sok1x.deeprec.switch import install_as_deeprec
    from sok1x.distributed_variable import DistributedVariable
    from sok1x.dump_load.dumping import dump
    from sok1x.dump_load.loading import load
    from sok1x.dynamic_variable import DynamicVariable
    from sok1x.embeddings.all2all_dense_embedding import All2AllDenseEmbedding
    from sok1x.embeddings.distributed_embedding import DistributedEmbedding
    from sok1x.even_steps import EvenSteps
    from sok1x.forgetting import evicted_keys, sparse_read_and_evict
    from sok1x.incremental import incremental_dump
    from sok1x.localized_variable import LocalizedVariable
    from sok1x.lookup import all2all_dense_embedding, lookup_sparse
    from sok1x.model_dump import incremental_model_dump
    from sok1x.optimizers.clipping import clip_by_global_norm, global_norm
    from sok1x.optimizers.distributed_optimizer import DistributedOptimizer
    from sok1x.optimizers.sgd import SGD
    from sok1x.optimizers.utils import filter_variables, split_embedding_variable_from_others
    from sok1x.optimizers.wrapper import OptimizerWrapper
    from sok1x.row_access import assign, export
    from sok1x.saver.saver import Saver
    from sok1x.statistics import table_stats
    from sok1x.summary_hook import SummaryHook
    from sok1x.table_summary import summary
    from sok1x.variable import Variable
    from sok1x.versions import tf_version

ends.watch()

__version__ = "0.2.0"

# Name -> the module that defines it. Looked up on first use, so that the import stays free.
_DEFINED_IN = {
    "All2AllDenseEmbedding": "embeddings.all2all_dense_embedding",
    "BroadcastGlobalVariablesCallback": "core.callbacks",
    "BroadcastGlobalVariablesHook": "core.broadcast",
    "CheckpointManager": "checkpoint.session.manager",
    "CheckpointSaverHook": "checkpoint.session.saver_hook",
    "CheckpointSaverListener": "checkpoint.savers.saver_listener",
    "DistributedEmbedding": "embeddings.distributed_embedding",
    "DistributedOptimizer": "optimizers.distributed_optimizer",
    "DistributedVariable": "distributed_variable",
    "DynamicVariable": "dynamic_variable",
    "EmbeddingVariable": "core.embedding_variable",
    "EvenSteps": "even_steps",
    "GraphKeys": "core.graph_keys",
    "Init": "core.initialize",
    "InitHook": "core.initialize",
    "LocalizedVariable": "localized_variable",
    "MetricAverageCallback": "core.callbacks",
    "OptimizerScope": "core.context_scope",
    "OptimizerWrapper": "optimizers.wrapper",
    "SGD": "optimizers.sgd",
    "Saver": "saver.saver",
    "Scaffold": "core.scaffold",
    "SummaryHook": "summary_hook",
    "Variable": "variable",
    "all2all_dense_embedding": "lookup",
    "assign": "row_access",
    "broadcast_global_variables": "core.broadcast",
    "clip_by_global_norm": "optimizers.clipping",
    "dump": "dump_load.dumping",
    "evicted_keys": "forgetting",
    "export": "row_access",
    "filter_variables": "optimizers.utils",
    "global_norm": "optimizers.clipping",
    "incremental_dump": "incremental",
    "incremental_model_dump": "model_dump",
    "init": "core.joining",
    "install_as_deeprec": "deeprec.switch",
    "install_as_sparse_operation_kit": "alias",
    "load": "dump_load.loading",
    "lookup_sparse": "lookup",
    "set_comm_tool": "core.joining",
    "sparse_read_and_evict": "forgetting",
    "split_embedding_variable_from_others": "optimizers.utils",
    "summary": "table_summary",
    "table_stats": "statistics",
    "tf_version": "versions",
}
_MODULES = ("communication", "core", "deeprec", "dump_load", "embeddings", "feature_column", "kit_lib", "metrics",
            "operations", "optimizers", "saver", "serving", "timeline")
_UNLISTED = ("tf",)  # not in __all__: after `from sok1x import *`, `tf` must still be TensorFlow

__all__ = [
    "All2AllDenseEmbedding",
    "BroadcastGlobalVariablesCallback",
    "BroadcastGlobalVariablesHook",
    "CheckpointManager",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "DistributedEmbedding",
    "DistributedOptimizer",
    "DistributedVariable",
    "DynamicVariable",
    "EmbeddingVariable",
    "EvenSteps",
    "GraphKeys",
    "Init",
    "InitHook",
    "LocalizedVariable",
    "MetricAverageCallback",
    "OptimizerScope",
    "OptimizerWrapper",
    "SGD",
    "Saver",
    "Scaffold",
    "SummaryHook",
    "Variable",
    "__version__",
    "all2all_dense_embedding",
    "assign",
    "broadcast_global_variables",
    "clip_by_global_norm",
    "communication",
    "core",
    "deeprec",
    "dump",
    "dump_load",
    "embeddings",
    "evicted_keys",
    "export",
    "feature_column",
    "filter_variables",
    "global_norm",
    "incremental_dump",
    "incremental_model_dump",
    "init",
    "install_as_deeprec",
    "install_as_sparse_operation_kit",
    "kit_lib",
    "load",
    "lookup_sparse",
    "metrics",
    "operations",
    "optimizers",
    "saver",
    "serving",
    "set_comm_tool",
    "sparse_read_and_evict",
    "split_embedding_variable_from_others",
    "summary",
    "table_stats",
    "tf_version",
    "timeline",
]

__getattr__, __dir__ = lazy.exports(globals(), _DEFINED_IN, _MODULES + _UNLISTED)
