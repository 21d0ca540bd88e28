"""DeepRec's names where DeepRec has them: `sok1x.install_as_deeprec()`."""
import importlib
from typing import Any

from sok1x.deeprec.patches import Patches

CONFIG_PB2 = "tensorflow.core.framework.embedding.config_pb2"
_OPTIONS = ("CBFFilter", "CheckpointOption", "CounterFilter", "EmbeddingVariableOption", "GlobalStepEvict",
            "InitializerOption", "L2WeightEvict", "StorageOption")
_OPTIMIZERS = ("AdagradDecayOptimizer", "AdagradDecayOptimizerV2", "AdamAsyncOptimizer", "AdamWOptimizer")
_COLUMNS = ("categorical_column_with_embedding", "embedding_column", "group_embedding_column_scope",
            "shared_embedding_columns")
# Place below `tf` -> name below `sok1x.deeprec`.
NAMES = {
    **{name: name for name in _OPTIONS},
    "EmbeddingVariable": "EmbeddingVariable",
    "config.experimental.enable_distributed_strategy": "enable_distributed_strategy",
    "config.experimental.enable_group_embedding": "enable_group_embedding",
    **{"feature_column." + name: name for name in _COLUMNS},
    "get_embedding_variable": "get_embedding_variable",
    "nn.group_embedding_lookup": "group_embedding_lookup",
    "nn.group_embedding_lookup_sparse": "group_embedding_lookup_sparse",
    **{"train." + name: name for name in _OPTIMIZERS},
}
# Of TensorFlow's modules that scripts import -> what they have there besides.
MODULES = {
    "tensorflow.python.ops.embedding_ops": ("group_embedding_lookup", "group_embedding_lookup_sparse"),
    "tensorflow.python.ops.variable_scope": ("get_embedding_variable",),
    "tensorflow.python.ops.variables": _OPTIONS,
}

_patches = Patches()
_installed = False


def install_as_deeprec() -> None:
    """Puts DeepRec's names onto TensorFlow, in this process: `tf.get_embedding_variable` and the others.

    `sok1x.deeprec` has them all, with what each does; `from tensorflow.core.framework.embedding import config_pb2`
    works, too. It comes before the model. To call it twice is fine. What of TensorFlow's own
    `tf.config.experimental.enable_distributed_strategy` changes, it says; nothing else does.

    Example:
        >>> import sok1x
        >>> sok1x.install_as_deeprec()
        >>> import tensorflow as tf
        >>> from tensorflow.core.framework.embedding import config_pb2
        >>> with tf.Graph().as_default():
        ...     option = tf.EmbeddingVariableOption(storage_option=tf.StorageOption(config_pb2.StorageType.HBM))
        ...     tf.get_embedding_variable("items", 4, ev_option=option).name
        'items:0'
        >>> sok1x.deeprec.uninstall_as_deeprec()
    """
    global _installed
    if _installed:
        return
    deeprec: Any = importlib.import_module("sok1x.deeprec")
    for place, name in NAMES.items():
        _patches.put_api(place, getattr(deeprec, name))
    for module, names in MODULES.items():
        for name in names:
            _patches.put(importlib.import_module(module), name, getattr(deeprec, name))
    _patches.put_module(CONFIG_PB2, deeprec.config_pb2)
    _installed = True


def uninstall_as_deeprec() -> None:
    """Takes the names off TensorFlow again, and what a strategy has changed.

    Example:
        >>> import sok1x
        >>> import tensorflow as tf
        >>> sok1x.install_as_deeprec()
        >>> sok1x.deeprec.uninstall_as_deeprec()
        >>> hasattr(tf, "get_embedding_variable")
        False
    """
    global _installed
    importlib.import_module("sok1x.deeprec.strategy").disable_distributed_strategy()
    _patches.undo()
    _installed = False
