"""Whether a call that is told nothing trains: in what Keras runs, Keras' learning phase; else it does."""
from typing import Any, Union

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.bridge.tensorflow_versions import attr_value_pb2, is_eager_outside, keras_calls
from sok1x.graph_ops.bridge.tensorflow_versions import keras_backend as backend

# `Layer.__call__` has its inputs in a local variable; `Model._set_inputs` calls a subclassed model for fit, evaluate
# and predict, on placeholders of Keras' own.
_LAYER_CALLS, _MODEL_BUILDS = keras_calls()

_PHASE = "_sok1x_learning_phase"


def untold(inputs: Any) -> Union[bool, tf.Tensor]:
    """Whether a call trains that neither the user nor an enclosing layer has told so.

    Args:
        inputs: what the layer is called with: a tensor or SparseTensor of any shape.

    Returns:
        What tf.keras.backend.set_learning_phase has set for this graph, a bool. Where nothing has been set: of what
        comes from a tf.keras.Input, or is called by a model's fit, evaluate or predict, Keras' learning phase, a
        scalar bool tensor of shape [] that Keras feeds True to train; of all else True.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings import learning_phase
        >>> with tf.Graph().as_default():
        ...     learning_phase.untold(tf.placeholder(tf.int64, [None, 2, 1]))
        ...     learning_phase.untold(tf.keras.Input([2, 1], dtype=tf.int64)).op.type
        True
        'PlaceholderWithDefault'
    """
    # Keras' public function would make a placeholder where nothing has been set, and only knows for eager execution
    # whether it was.
    phase = backend._GRAPH_LEARNING_PHASES.get(tf.get_default_graph())
    if is_eager_outside():  # there Keras tells every layer that it runs
        return bool(phase) if isinstance(phase, int) else True
    if isinstance(phase, int):
        return bool(phase)
    return backend.learning_phase() if _is_run_by_keras(inputs) else True


def _is_run_by_keras(inputs: Any) -> bool:
    """Whether a call makes a part of what Keras feeds and runs itself, rather than of a graph for tf.Session.

    Keras knows this of its own graphs for eager execution only. An input may have lost its history within the layers
    around this one, so that all of theirs are looked at.
    """
    if _has_history(inputs):
        return True
    return any(frame.f_code in _MODEL_BUILDS
               or frame.f_code in _LAYER_CALLS and _has_history(frame.f_locals.get("inputs"))
               for frame in callers.frames())


def _has_history(inputs: Any) -> bool:
    """Whether any of the tensors comes from a tf.keras.Input."""
    for tensor in tf.nest.flatten(inputs):
        parts = [tensor.values, tensor.indices] if isinstance(tensor, tf.SparseTensor) else \
            [tensor.flat_values] if isinstance(tensor, tf.RaggedTensor) else []
        if any(hasattr(part, "_keras_history") for part in [tensor] + parts):
            return True
    return False


def guarded(vectors: tf.Tensor, told: Any, trains: Any) -> tf.Tensor:
    """A lookup's result that refuses to be trained in a `session.run` that does not feed the learning phase.

    Keras feeds it whenever it trains. In a loop of one's own around a Keras graph it is easily forgotten, and no
    unseen key would ever get a row.

    Args:
        vectors: a lookup's result, a float tensor of any shape.
        told: whether it trains, as it was told; None: it was not.
        trains: whether it trains: where it was not told, what `untold` gives.

    Returns:
        The same values; if `trains` is Keras' learning phase, a `session.run` of their gradient fails with
        tf.errors.InvalidArgumentError while that is False.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings import learning_phase
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     phase, vectors = tf.keras.backend.learning_phase(), tf.constant([2.0, 3.0])
        ...     loss = tf.reduce_sum(learning_phase.guarded(vectors, None, phase) ** 2)
        ...     session.run(tf.gradients(loss, vectors), {phase: True})[0].tolist()
        [4.0, 6.0]
    """
    if told is not None or not isinstance(trains, tf.Tensor):
        return vectors
    graph = tf.get_default_graph()
    # By name: as an input of the op it would be copied to a GPU.
    attribute = attr_value_pb2.AttrValue(s=trains.name.encode())
    with graph.gradient_override_map({"Identity": "Sok1xGuarded"}), graph._attr_scope({_PHASE: attribute}):
        return tf.identity(vectors, name="lookup_to_train")


@tf.RegisterGradient("Sok1xGuarded")
def _guarded_gradient(op: tf.Operation, gradient: tf.Tensor) -> tf.Tensor:
    phase = op.graph.get_tensor_by_name(op.get_attr(_PHASE).decode())
    words = ("layer '{}': got a gradient to train with while Keras' learning phase is 0, in which unseen keys get no "
             "row; feed {{tf.keras.backend.learning_phase(): 1}} in session.run of a training step, or call the "
             "layer, or the model, with training=True; a callback that wants gradients in validation, as "
             "TensorBoard(write_grads=True), has none here".format(op.name.rpartition("/")[0]))
    with tf.control_dependencies([tf.Assert(phase, [words])]):
        return tf.identity(gradient)
