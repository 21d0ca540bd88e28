"""From what a user writes as `embedding_initializer` to what a table does with it."""
import dataclasses
import inspect
from typing import Any, Callable, Dict, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import deprecation

ARGUMENT = "embedding_initializer"  # of a layer, in messages

# The names that users write most; others that tf.keras.initializers.get knows work too.
NAMES = ("constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "lecun_normal",
         "lecun_uniform", "normal", "ones", "orthogonal", "random_normal", "random_uniform", "truncated_normal",
         "uniform", "variance_scaling", "zeros")
_FRAMEWORKS = ("tensorflow", "tensorflow_core", "keras", "tf_keras")  # whose modules define initializers' values
_ALIASES = {"variance_scaling": "VarianceScaling"}  # the one whose lower-case name Keras 1.15 does not know


class RowInitializer(NamedTuple):
    """How a table's rows begin: `spec`, the fields of `graph_ops.stores.table.Initializer`, and `fill` where a Keras
    object fills by row."""

    spec: Dict[str, Any]
    fill: Optional[Callable[[], tf.Tensor]]


class ByKey(NamedTuple):
    """An initializer object that stands for its distribution where it is one, as a name does; else it fills by row."""

    initializer: Any


@dataclasses.dataclass(frozen=True)
class Pooled:
    """An initializer for a table that grows, of which there are `pool` different rows: key k begins with row k % pool.

    No tuple, of which a `sok.DynamicVariable` would take the values for a row's.
    """

    initializer: Any
    pool: int


def resolve(initializer: Any, rows: int, dim: int, grows: bool = False, what: str = ARGUMENT) -> RowInitializer:
    """How a table's rows begin.

    A name means a distribution: where that is zeros, ones, constant, uniform, normal, truncated normal or variance
    scaling, with the parameters that Keras 1.15 gives to that name, a key's first row is a function of seed, table
    and key alone. `orthogonal` and `identity` are properties of a matrix, and an initializer object promises values
    for a shape, not for a key: both fill the shard by row, as SOK does, and row i's first values go to whichever key
    is given row i.

    Args:
        initializer: None (uniform in [-0.05, 0.05)), a name, a Keras initializer object, class or configuration,
            or a callable of a shape; or a `ByKey`, or for a table that grows a `Pooled`, of one of these.
        rows: V.
        dim: D.
        grows: whether V changes. Then there is no matrix to fill, and an object of Keras' or TensorFlow's stands for
            its distribution, as a name does.
        what: whose argument it is, and its name, for messages.

    Returns:
        A `RowInitializer`.

    Raises:
        ValueError: the name is unknown, or, for a table that grows, it is no distribution of a row's numbers.
        TypeError: it is no initializer at all.

    Example:
        >>> from sok1x.core.options import initializers
        >>> initializers.resolve("ones", rows=16, dim=4).spec == {"kind": "constant", "a": 1.0, "b": 0.0}
        True
    """
    if isinstance(initializer, Pooled):
        each = resolve(initializer.initializer, rows, dim, grows, what)
        return each._replace(spec=dict(each.spec, pool=initializer.pool))
    by_key = grows or initializer is None or isinstance(initializer, (str, ByKey))
    made = _made(initializer.initializer if isinstance(initializer, ByKey) else initializer, what)
    spec = _spec(made) if by_key else None
    if grows and spec is None:
        raise ValueError((
            "{}: got {!r} for a table that grows, expected None, a name, or an initializer object "
            "of TensorFlow's, that stands for zeros, ones, a constant, or a uniform, normal, truncated normal or "
            "variance scaling distribution: rows that come later must know what to begin with").format(
                what, initializer))
    if spec is not None:
        return RowInitializer(spec, None)
    return RowInitializer({"kind": "by_row"}, lambda: _fill(made, rows, dim, "float32", what))


def is_distribution(initializer: Any) -> bool:
    """Whether rows can begin as functions of seed, table and key: see `resolve`.

    Args:
        initializer: as for `resolve`.

    Returns:
        Whether it stands for a distribution of a row's numbers.

    Raises:
        ValueError: the name is unknown.
        TypeError: it is no initializer at all.

    Example:
        >>> from sok1x.core.options import initializers
        >>> initializers.is_distribution("ones"), initializers.is_distribution("orthogonal")
        (True, False)
    """
    return _spec(_made(initializer, ARGUMENT)) is not None


def filled(initializer: Any, rows: int, dim: int, dtype: str, what: str = ARGUMENT) -> tf.Tensor:
    """An initializer's values for a matrix, of a dtype other than that of embeddings.

    Args:
        initializer: as for `resolve`.
        rows: of the matrix.
        dim: D.
        dtype: a dtype's name.
        what: as for `resolve`.

    Returns:
        A tensor of that dtype, [rows, D].

    Raises:
        ValueError: the name is unknown, or the initializer does not take the dtype.
        TypeError: it is no initializer at all.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.options import initializers
        >>> with tf.Graph().as_default():
        ...     initializers.filled("ones", 16, 4, "int64").dtype
        tf.int64
    """
    return _fill(_made(initializer, what), rows, dim, dtype, what)


def _made(initializer: Any, what: str) -> Callable[..., Any]:
    """Something that gives values for a shape."""
    if initializer is None:
        initializer = "uniform"
    if isinstance(initializer, str):
        return _by_name(initializer, what)
    if isinstance(initializer, dict):
        made = tf.keras.initializers.get(initializer)
    elif inspect.isclass(initializer):
        made = initializer()
    else:
        made = initializer
    if not callable(made):
        raise TypeError(
            "{}: got {!r} of type {}, expected None, a name ({}) or a Keras initializer".format(
                what, initializer, type(initializer).__name__, ", ".join(NAMES)))
    return made


def to_config(initializer: Any) -> Any:
    """What `get_config` holds for an initializer: None, the name, or a serialized Keras object.

    Args:
        initializer: as given to the layer.

    Returns:
        Something that JSON can hold and the layer's constructor takes.

    Raises:
        ValueError: it is a callable without a configuration.

    Example:
        >>> from sok1x.core.options import initializers
        >>> initializers.to_config("ones")
        'ones'
    """
    if initializer is None or isinstance(initializer, (str, dict)):
        return initializer
    made = initializer() if inspect.isclass(initializer) else initializer
    if not hasattr(made, "get_config"):
        raise ValueError(
            "embedding_initializer: got {!r}, which has no get_config; a layer that is to be saved or cloned needs "
            "a name or a tf.keras.initializers object".format(initializer))
    return tf.keras.initializers.serialize(made)


def _by_name(name: str, what: str) -> Callable[..., Any]:
    try:
        with deprecation.silence():  # Keras itself calls its initializers in a way that TensorFlow warns of
            made = tf.keras.initializers.get(_ALIASES.get(name, name))
    except (ValueError, TypeError) as error:
        raise ValueError(_unknown(name, what)) from error
    # Keras looks names up among everything its module imports: classes and functions that are no initializers too.
    if not hasattr(made, "get_config") or type(made).__call__ is tf.keras.initializers.Initializer.__call__:
        raise ValueError(_unknown(name, what))
    return made


def _unknown(name: str, what: str) -> str:
    return "{}: got the name {!r}, expected one of {}, or a Keras initializer object".format(
        what, name, ", ".join(NAMES))


def _spec(made: Any) -> Optional[Dict[str, Any]]:
    """The by-key distribution that a Keras initializer object stands for; None if it has none.

    Classes are told by name, since Keras has two of each (for TensorFlow 1 and 2). A class of somebody else's with a
    `__call__` of its own gives other values than its base.
    """
    if str(getattr(type(made).__call__, "__module__", "")).partition(".")[0] not in _FRAMEWORKS:
        return None
    kinds = {base.__name__ for base in type(made).__mro__}
    if "Zeros" in kinds:
        return {"kind": "zeros", "a": 0.0, "b": 0.0}
    if "Ones" in kinds:
        return {"kind": "constant", "a": 1.0, "b": 0.0}
    if "Constant" in kinds and np.ndim(made.value) == 0:
        return {"kind": "constant", "a": float(made.value), "b": 0.0}
    if "RandomUniform" in kinds:
        # TensorFlow's own class (not Keras') leaves the upper bound open, which means 1 for floats.
        return {"kind": "uniform", "a": float(made.minval), "b": 1.0 if made.maxval is None else float(made.maxval)}
    if "TruncatedNormal" in kinds:
        return {"kind": "truncated_normal", "a": float(made.mean), "b": float(made.stddev)}
    if "RandomNormal" in kinds:
        return {"kind": "normal", "a": float(made.mean), "b": float(made.stddev)}
    if "VarianceScaling" in kinds:
        distribution = "truncated_normal" if made.distribution == "normal" else made.distribution
        return {"kind": "variance_scaling", "scale": float(made.scale), "mode": made.mode,
                "distribution": distribution}
    return None


def _fill(made: Callable[..., Any], rows: int, dim: int, dtype: str, what: str) -> tf.Tensor:
    """The object's own values for a matrix [rows, D]."""
    try:
        takes_dtype = any(parameter.name == "dtype" or parameter.kind is parameter.VAR_KEYWORD
                          for parameter in inspect.signature(made).parameters.values())
    except ValueError:  # a callable written in C tells no signature
        takes_dtype = False
    value = made([rows, dim], dtype=tf.as_dtype(dtype)) if takes_dtype else made([rows, dim])
    value = tf.convert_to_tensor(value)
    if not value.shape.is_compatible_with([rows, dim]):
        raise ValueError("{}: got values of shape {}, expected [{}, {}]".format(
            what, value.shape, rows, dim))
    if not value.dtype.is_floating and dtype == "float32":
        raise TypeError("{}: got values of dtype {}, expected float32".format(what, value.dtype.name))
    return tf.ensure_shape(tf.cast(value, dtype), [rows, dim])
