"""DeepRec's names: EmbeddingVariables and their options, group lookups, and what makes plain scripts run on many ranks.

`sok1x.install_as_deeprec()` puts them where DeepRec has them in TensorFlow; here they are without that.

What users call:
    switch              DeepRec's names where DeepRec has them
    strategy            enable_distributed_strategy
    variables           get_embedding_variable
    options             what an EmbeddingVariable may be told
    storage_types       DeepRec's `config_pb2`
    group_lookup        the lookups
    optimizers          DeepRec's own optimizers
    feature_columns     those of `tf.feature_column`, also as `sok1x.deeprec.feature_column`

What is behind them:
    meaning             what becomes of options
    leaving             rows that leave when a table is saved
    kept_ops            ops that go by where a table's rows are
    lookups             what group lookups and feature columns rest on
    stepping            TensorFlow's optimizers as they are on tables
    averaging           gradients averaged in whichever optimizer
    starting            dense variables that begin equal
    sessions            MonitoredTrainingSession on several ranks
    rank_0_saves        checkpoints of graphs without tables
    unfit_learners      estimators that learn without gradients, refused
    patches             names put onto TensorFlow, and taken off again
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.deeprec import feature_columns as feature_column
    from sok1x.deeprec import storage_types as config_pb2
    from sok1x.deeprec.feature_columns import (
        categorical_column_with_embedding,
        embedding_column,
        group_embedding_column_scope,
        shared_embedding_columns,
    )
    from sok1x.deeprec.group_lookup import group_embedding_lookup, group_embedding_lookup_sparse
    from sok1x.deeprec.optimizers import (
        AdagradDecayOptimizer,
        AdagradDecayOptimizerV2,
        AdamAsyncOptimizer,
        AdamWOptimizer,
    )
    from sok1x.deeprec.options import (
        CBFFilter,
        CheckpointOption,
        CounterFilter,
        EmbeddingVariableOption,
        GlobalStepEvict,
        InitializerOption,
        L2WeightEvict,
        StorageOption,
    )
    from sok1x.deeprec.strategy import disable_distributed_strategy, enable_distributed_strategy, enable_group_embedding
    from sok1x.deeprec.switch import install_as_deeprec, uninstall_as_deeprec
    from sok1x.deeprec.variables import EmbeddingVariable, get_embedding_variable

# Name -> the module that defines it. Looked up on first use, so that the import stays free.
_DEFINED_IN = {
    "AdagradDecayOptimizer": "optimizers",
    "AdagradDecayOptimizerV2": "optimizers",
    "AdamAsyncOptimizer": "optimizers",
    "AdamWOptimizer": "optimizers",
    "CBFFilter": "options",
    "CheckpointOption": "options",
    "CounterFilter": "options",
    "EmbeddingVariable": "variables",
    "EmbeddingVariableOption": "options",
    "GlobalStepEvict": "options",
    "InitializerOption": "options",
    "L2WeightEvict": "options",
    "StorageOption": "options",
    "categorical_column_with_embedding": "feature_columns",
    "disable_distributed_strategy": "strategy",
    "embedding_column": "feature_columns",
    "enable_distributed_strategy": "strategy",
    "enable_group_embedding": "strategy",
    "get_embedding_variable": "variables",
    "group_embedding_column_scope": "feature_columns",
    "group_embedding_lookup": "group_lookup",
    "group_embedding_lookup_sparse": "group_lookup",
    "install_as_deeprec": "switch",
    "shared_embedding_columns": "feature_columns",
    "uninstall_as_deeprec": "switch",
}
_MODULES = {"config_pb2": "storage_types", "feature_column": "feature_columns"}

__all__ = [
    "AdagradDecayOptimizer",
    "AdagradDecayOptimizerV2",
    "AdamAsyncOptimizer",
    "AdamWOptimizer",
    "CBFFilter",
    "CheckpointOption",
    "CounterFilter",
    "EmbeddingVariable",
    "EmbeddingVariableOption",
    "GlobalStepEvict",
    "InitializerOption",
    "L2WeightEvict",
    "StorageOption",
    "categorical_column_with_embedding",
    "config_pb2",
    "disable_distributed_strategy",
    "embedding_column",
    "enable_distributed_strategy",
    "enable_group_embedding",
    "feature_column",
    "get_embedding_variable",
    "group_embedding_column_scope",
    "group_embedding_lookup",
    "group_embedding_lookup_sparse",
    "install_as_deeprec",
    "shared_embedding_columns",
    "uninstall_as_deeprec",
]

__getattr__, __dir__ = lazy.exports(globals(), _DEFINED_IN, _MODULES)
