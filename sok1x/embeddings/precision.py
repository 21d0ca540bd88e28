"""Which precision a layer computes in: Keras' policies, as far as tables have them."""
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import HALF_POLICY, keras_policy_set
from sok1x.graph_ops.bridge.tensorflow_versions import keras_policies as policies

_HALVES = ("mixed_float16", "float16_with_float32_vars")


def policy(layer: str, dtype: Any) -> policies.Policy:
    """The policy of an embedding layer: rows are float32; what comes out, and what travels, is float32 or float16.

    Args:
        layer: the layer's name, for the message.
        dtype: the layer's argument: None (the policy that tf.keras.mixed_precision.experimental.set_policy has set,
            else float32), a policy or its name, or the dtype to compute in: float32 or float16, or its name.

    Returns:
        The Keras policy 'float32' or 'float16_with_float32_vars' (in TensorFlow 2 'mixed_float16').

    Raises:
        TypeError: it is something else.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings import precision
        >>> precision.policy("layer", None).name, precision.policy("layer", tf.float16).name
        ('float32', 'float16_with_float32_vars')
    """
    given = keras_policy_set() if dtype is None else dtype
    if given is None:
        return policies.Policy("float32")  # nobody has chosen
    compute = _compute_dtype(given)
    if compute not in ("float32", "float16"):
        raise TypeError("layer '{}': dtype: got {!r}, expected float32, float16 or a Keras policy that computes in one "
                        "of them; rows are float32".format(layer, given))
    return policies.Policy(HALF_POLICY if compute == "float16" else "float32")


def _compute_dtype(given: Any) -> Optional[str]:
    if isinstance(given, policies.Policy):
        return given.compute_dtype or "float32"  # 'infer': the keys would be what it is inferred from
    if given in _HALVES:
        return "float16"
    if given in ("infer", "_infer"):  # as TensorFlow 1.15 and 2.x say it
        return "float32"
    try:
        return tf.as_dtype(given).name
    except TypeError:
        pass
    try:
        return _compute_dtype(policies.Policy(given))
    except (TypeError, ValueError):
        return None
