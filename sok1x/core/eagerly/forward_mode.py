"""`tf.autodiff.ForwardAccumulator` (TensorFlow 2) over what looks tables up: refused with words.

It would turn a lookup's gradient around, and that is made of integers: which row came from whom. What goes past tables,
and a tape's gradient of a table inside it, whose own derivative is a lookup, TensorFlow differentiates as ever.
"""
import json
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge import op_types
from sok1x.graph_ops.bridge.tensorflow_versions import forwardprop, pywrap_tfe

_GRADIENTS = "Sok1xGradient"


def watch() -> None:
    """From now on a ForwardAccumulator says which lookup it cannot differentiate.

    Example:
        >>> from sok1x.core.eagerly import forward_mode
        >>> forward_mode.watch()  # nothing, in TensorFlow 1.15
    """
    if forwardprop is None:
        return
    before = forwardprop._jvp_dispatch
    wrapping.wrap(forwardprop, "_jvp_dispatch", _refusing)
    if forwardprop._jvp_dispatch is not before:  # which TensorFlow's C++ calls
        pywrap_tfe.TFE_Py_RegisterJVPFunction(forwardprop._jvp_dispatch)


def _refusing(stock: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(op_name: Any, attributes: Any, *args: Any, **kwargs: Any) -> Any:
        if op_name == _GRADIENTS:  # of which a graph has other shapes than an eager call, that are no keys of a dict
            attributes = tuple([tf.TensorShape(each) for each in one] if isinstance(one, list) and one and hasattr(
                one[0], "dim") else one for one in attributes)
        if op_name not in op_types.TYPES or op_name == _GRADIENTS:
            return stock(op_name, attributes, *args, **kwargs)
        given = dict(zip(attributes[::2], attributes[1::2]))
        written = json.loads(given["config"])["config"]
        table = written.get("table") if isinstance(written, dict) else None
        raise NotImplementedError((
            "{} inside a tf.autodiff.ForwardAccumulator, expected a tf.GradientTape, which differentiates lookups: "
            "forward mode does not, neither of a table nor of weights that it is given. Look rows up before it, and "
            "give it these").format(
                "embedding table '{}': got a lookup of it".format(table["name"]) if table else
                "sok1x: got op '{}'".format(tf.compat.as_str_any(given["function"]))))

    return dispatch
