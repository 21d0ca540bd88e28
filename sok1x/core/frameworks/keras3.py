"""Keras 3, beside which TensorFlow from 2.16 on runs: what is said where its models and optimizers meet tables.

Its layers and models know no variables of TensorFlow: a table in one of them is neither trained by `fit` nor saved.
"""
import sys
from typing import Any

import tensorflow.compat.v1 as tf

_STATE = "keras.src.backend.common.global_state"
_CALL = "current_call_ctx"  # there, of a layer or model that is being called
_USE = "use tf_keras (tf.keras with TF_USE_LEGACY_KERAS=1)"
_warned = False


def hint(given: Any) -> str:
    """The end of a message about something of Keras 3's; of all else nothing.

    Example:
        >>> from sok1x.core.frameworks import keras3
        >>> keras3.hint(7)
        ''
    """
    kind = type(given).__module__.split(".")[0]
    return "; that is of Keras 3: " + _USE if kind == "keras" and _STATE in sys.modules else ""


def warn_within(label: str) -> None:
    """Warns, once, where a layer or model of Keras 3 calls a layer of ours, or looks a table up.

    Args:
        label: of the layer or table.

    Example:
        >>> from sok1x.core.frameworks import keras3
        >>> keras3.warn_within("All2AllDenseEmbedding 'ads'")  # outside of all
    """
    global _warned
    state: Any = sys.modules.get(_STATE)
    if state is None or _warned or state.get_global_attribute(_CALL) is None:
        return
    _warned = True
    tf.logging.warning("%s is called in a layer or model of Keras 3, which does not know its variables: fit trains no "
                       "table, and nothing saves it; %s", label, _USE)
