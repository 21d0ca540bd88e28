"""What TensorFlow keeps to itself, and what differs between its versions: the only file that knows of either.

Everything else of sok1x takes these names from here, and is written once. `V2` says which branch has been taken: of
TensorFlow 1.15 and of 2.x what is meant by a name is the same, and where it lies, or how it is made, is not.

    V2                    whether this is TensorFlow 2.x, used through `tf.compat.v1`, eagerly, or in `tf.function`
    Variable              the class of all variables; `tf.Variable` of 2.x's compat.v1 is not that of resource variables
    KERAS_OPTIMIZERS      the classes of Keras' optimizers: KerasOptimizer, and of 2.x NewKerasOptimizer too, its newer
                          kind, which knows nothing of the other; None of 1.15
    keras_...             Keras' own modules: of 2.x those of the Keras in use (keras, tf_keras), not the old copy
"""
# ruff: noqa: F401  (names for others)
import contextlib
import importlib
import re
import sys
from typing import Any, Callable, Iterator, List, Tuple

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, trackable_object_graph_pb2
from tensorflow.python.client import session as client_session
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import context as eager_context
from tensorflow.python.feature_column import feature_column, feature_column_v2
from tensorflow.python.feature_column import utils as feature_column_utils
from tensorflow.python.framework import func_graph, function, tensor_util
from tensorflow.python.framework import kernels as registered_kernels
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.ops import (
    clip_ops,
    cond_v2,
    control_flow_grad,
    control_flow_ops,
    control_flow_util,
    gen_resource_variable_ops,
    metrics_impl,
    resource_variable_ops,
    variable_scope,
    weights_broadcast_ops,
)
from tensorflow.python.ops import variables as tf_variables
from tensorflow.python.saved_model import builder_impl
from tensorflow.python.training import (
    checkpoint_utils,
    monitored_session,
    saver,
    slot_creator,
    supervisor,
    training,
    training_util,
)
from tensorflow.python.training.experimental import loss_scale as loss_scales
from tensorflow.python.training.experimental import loss_scale_optimizer as train_loss_scale_optimizer
from tensorflow.python.training.saving import saveable_object
from tensorflow.python.util import deprecation, nest, tf_decorator

V2 = not tf.__version__.startswith("1.")
ESTIMATORS = "tensorflow_estimator.python.estimator.estimator"  # a module, loaded where there is one that is used

PartitionedVariable = tf_variables.PartitionedVariable
ResourceVariable = resource_variable_ops.ResourceVariable


def _keras() -> str:
    """Of 2.x, the package whose classes `tf.keras` has: 'keras', or 'tf_keras'.

    Raises:
        ImportError: it is Keras 3, whose layers and optimizers are made for no particular library.
    """
    package = str(tf.keras.layers.Layer.__module__).split(".")[0]
    version = str(getattr(importlib.import_module(package), "__version__", "2"))
    if package == "keras" and version.split(".")[0] not in ("1", "2"):
        raise ImportError((
            "sok1x's layers are of Keras 2, and tf.keras of TensorFlow {} is Keras {}: install tf_keras (pip install "
            "tf_keras=={}.*), and set TF_USE_LEGACY_KERAS=1 in the environment before TensorFlow is imported").format(
                tf.__version__, version, ".".join(tf.__version__.split(".")[:2])))
    return package


def _keras_module(path: str) -> Any:
    return importlib.import_module("{}.src.{}".format(_KERAS, path))


if V2:
    _KERAS = _keras()
    Variable: Any = tf.compat.v2.Variable
    keras_autocast_variable = _keras_module("mixed_precision.autocast_variable")
    keras_backend = _keras_module("backend")
    keras_base_layer = _keras_module("engine.base_layer")
    keras_base_layer_v1 = _keras_module("engine.base_layer_v1")
    keras_base_layer_utils = _keras_module("engine.base_layer_utils")
    keras_layer_utils = _keras_module("utils.layer_utils")
    keras_policies = _keras_module("mixed_precision.policy")
    keras_training_v1 = _keras_module("engine.training_v1")
    KerasTensor: Any = _keras_module("engine.keras_tensor").KerasTensor  # a symbol of a functional model
    KerasOptimizer: Any = _keras_module("optimizers.legacy.optimizer_v2").OptimizerV2
    NewKerasOptimizer: Any = _keras_module("optimizers.optimizer").Optimizer
    checkpoint_management: Any = importlib.import_module("tensorflow.python.checkpoint.checkpoint_management")
    Trackable: Any = importlib.import_module("tensorflow.python.trackable.base").Trackable
    checkpoint_objects: Any = importlib.import_module("tensorflow.python.checkpoint.checkpoint")
    checkpoint_statuses = checkpoint_objects
    checkpoint_restore: Any = importlib.import_module("tensorflow.python.checkpoint.restore")
    backprop_util: Any = importlib.import_module("tensorflow.python.eager.backprop_util")
    concrete_function: Any = importlib.import_module(
        "tensorflow.python.eager.polymorphic_function.concrete_function")
    forwardprop: Any = importlib.import_module("tensorflow.python.eager.forwardprop")
    pywrap_tfe: Any = importlib.import_module("tensorflow.python.pywrap_tfe")
    mirrored_strategy: Any = importlib.import_module("tensorflow.python.distribute.mirrored_strategy")
    saved_model_load: Any = importlib.import_module("tensorflow.python.saved_model.load")
    saved_model_save: Any = importlib.import_module("tensorflow.python.saved_model.save")
    keras_optimizers: Any = _keras_module("optimizers")
    keras_optimizer_utils: Any = _keras_module("optimizers.utils")
    keras_loss_scale: Any = _keras_module("mixed_precision.loss_scale_optimizer")
    KERAS_LAYERS: Tuple[Any, ...] = (keras_base_layer.Layer, keras_base_layer_v1.Layer)
    KERAS_MODELS: Tuple[Any, ...] = (_keras_module("engine.training").Model, keras_training_v1.Model)
    KERAS_LOADERS: Tuple[Tuple[Any, str], ...] = (
        (_keras_module("saving.saving_lib"), "load_model"),
        (_keras_module("saving.legacy.hdf5_format"), "load_model_from_hdf5"))
    KERAS_WRITERS: Tuple[Tuple[Any, str], ...] = (
        (KERAS_LOADERS[0][0], "save_model"), (KERAS_LOADERS[1][0], "save_model_to_hdf5"))
    KerasLossScaleOptimizer: Any = None  # 2.x's has a loss scale of its own kind, and no place for another
    # What is ours is written as it is to run: AutoGraph would rewrite what a tf.function calls of it.
    _autograph = importlib.import_module("tensorflow.python.autograph.core.config")
    _autograph.CONVERSION_RULES = (_autograph.DoNotConvert("sok1x"),) + _autograph.CONVERSION_RULES
    automatic_control_dependencies: Any = importlib.import_module(
        "tensorflow.python.framework.auto_control_deps").AutomaticControlDependencies
else:
    from tensorflow.python.keras import backend as keras_backend
    from tensorflow.python.keras.engine import base_layer as keras_base_layer
    from tensorflow.python.keras.engine import base_layer_utils as keras_base_layer_utils
    from tensorflow.python.keras.engine import network as _keras_network
    from tensorflow.python.keras.mixed_precision.experimental import autocast_variable as keras_autocast_variable
    from tensorflow.python.keras.mixed_precision.experimental import loss_scale_optimizer as _keras_loss_scale
    from tensorflow.python.keras.mixed_precision.experimental import policy as keras_policies
    from tensorflow.python.keras.saving import hdf5_format as _keras_hdf5_format
    from tensorflow.python.keras.saving.saved_model import save as _keras_saved_model
    from tensorflow.python.keras.utils import layer_utils as keras_layer_utils
    from tensorflow.python.training import checkpoint_management
    from tensorflow.python.training.tracking import util as checkpoint_statuses
    from tensorflow.python.training.tracking.base import Trackable
    Variable = tf.Variable
    KerasOptimizer, NewKerasOptimizer, KerasTensor = tf.keras.optimizers.Optimizer, None, None
    keras_optimizers = keras_optimizer_utils = keras_loss_scale = None
    backprop_util = concrete_function = forwardprop = pywrap_tfe = None
    checkpoint_objects = checkpoint_restore = mirrored_strategy = saved_model_load = saved_model_save = None
    KERAS_LAYERS = (tf.keras.layers.Layer,)
    KERAS_MODELS = (_keras_network.Network,)
    KERAS_LOADERS = ((_keras_hdf5_format, "load_model_from_hdf5"),)
    KERAS_WRITERS = ((_keras_hdf5_format, "save_model_to_hdf5"), (_keras_saved_model, "save"))
    KerasLossScaleOptimizer = _keras_loss_scale.LossScaleOptimizer


KERAS_OPTIMIZERS: Tuple[Any, ...] = (KerasOptimizer,) if NewKerasOptimizer is None else (
    KerasOptimizer, NewKerasOptimizer)
# The Keras policy that computes in float16 on variables of float32. In 1.15 'mixed_float16' makes a loss scale, and
# with it variables, whenever it is named.
HALF_POLICY = "mixed_float16" if V2 else "float16_with_float32_vars"


def weighted_mean(sums: tf.Tensor, divisors: tf.Tensor) -> tf.Tensor:
    """`sums` divided as tf.nn.embedding_lookup_sparse divides those of rows with weights: in 2.x what would be divided
    by zero is zero, and so are its gradients; 1.15 divides."""
    return tf.math.divide_no_nan(sums, divisors) if V2 else sums / divisors


def is_eager_outside() -> bool:
    """Whether this is eager execution, or the body of a function that is called from there: not a `tf.Graph` that a
    session runs. In TensorFlow 1.15 sok1x works in such graphs alone."""
    return V2 and bool(tf_ops.executing_eagerly_outside_functions())


def in_plain_graph() -> bool:
    """Whether this is a graph in which nothing orders what is assigned, and runs what nobody fetches; not eager
    execution, nor a function's body, nor a graph inside of one, as that in which AutoGraph tries a loop's body."""
    graph = tf.get_default_graph()
    while isinstance(graph, func_graph.FuncGraph) and not graph._add_control_dependencies:
        graph = graph.outer_graph
    return not tf.executing_eagerly() and not graph._add_control_dependencies


def contrib_optimizer_v2() -> Any:
    """The class of tf.contrib.optimizer_v2's optimizers, of which tf.contrib.opt.GGTOptimizer is one; None where nobody
    has imported it, as of TensorFlow 2."""
    return getattr(sys.modules.get("tensorflow.contrib.optimizer_v2.optimizer_v2"), "OptimizerV2", None)


def outermost(graph: Any) -> Any:
    """The graph in which a function's body has been built, or the one in which that has, and so on; else itself."""
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def objects_of(checkpoint: Any) -> List[Any]:
    """All objects of a `tf.train.Checkpoint` of TensorFlow 2; None has none."""
    return [] if checkpoint is None else list(checkpoint_objects.util.list_objects(checkpoint._saver._graph_view))


def objects_of_status(status: Any) -> List[Any]:
    """All objects of a `tf.train.Checkpoint` whose `restore` has given a status."""
    return list(checkpoint_objects.util.list_objects(status._object_graph_view) if V2 else
                status._graph_view.list_objects())


def keras_policy_set() -> Any:
    """The Keras policy that somebody has set for all layers, or None."""
    if V2:
        return keras_policies._global_policy
    return None if keras_policies.policy_defaults_to_floatx() else keras_policies.global_policy()


def own_words(error: Any) -> str:
    """An error's message without the places in the graph that TensorFlow 2 writes before it, twice where op and fetch
    are on two devices."""
    return re.sub(r"\AGraph execution error:\n.*?^Node: '[^\n]*'\n(?:Detected at node .*?^Node: '[^\n]*'\n)*", "",
                  str(getattr(error, "message", error)), flags=re.DOTALL | re.MULTILINE)


def searchsorted(sequence: tf.Tensor, values: tf.Tensor, side: str = "left", out_type: Any = tf.int32) -> tf.Tensor:
    """As `tf.searchsorted` of two vectors. Of no values at all TensorFlow 1.15's kernel for GPUs ends the process."""
    one_more = tf.concat([values, tf.zeros([1], values.dtype)], 0)
    return tf.searchsorted(sequence, one_more, side=side, out_type=out_type)[:-1]


@contextlib.contextmanager
def open_to_ops(graph: tf.Graph) -> Iterator[None]:
    """Inside, a graph takes ops though it has been finalized: a few, made once, for what must be possible then too."""
    finalized = graph.finalized
    if finalized:
        graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if finalized:
            graph.finalize()


def initialized_value(variable: Any) -> Any:
    """What a variable begins with, as a tensor, also for another variable's initial value; eager: what it has now."""
    if tf.executing_eagerly():
        return variable.read_value()
    with tf.init_scope():
        return tf.cond(tf.is_variable_initialized(variable), variable.read_value, lambda: variable.initial_value)


def loss_scale_weights(loss_scale: Any) -> List[Any]:
    """The variables of a `tf.train.experimental.LossScale`."""
    return list(loss_scale._weights.values())


def keras_calls() -> Tuple[List[Any], List[Any]]:
    """The code of Keras' `Layer.__call__`, which has what a layer is called with in a local variable `inputs`; and that
    of `Model._set_inputs`, which calls a subclassed model for fit, evaluate and predict of a graph."""
    model = keras_training_v1.Model if V2 else tf.keras.Model
    return ([tf_decorator.unwrap(layer.__call__)[1].__code__ for layer in KERAS_LAYERS],
            [tf_decorator.unwrap(model._set_inputs)[1].__code__])


def linear_model_layers() -> List[Any]:
    """The layers that TensorFlow's linear models over feature columns are: none where there are no such models."""
    if not V2:
        return [feature_column_v2._LinearModelLayer]
    try:
        return [importlib.import_module("tensorflow_estimator.python.estimator.canned.linear")._LinearModelLayer]
    except ImportError:
        return []


def dense_features_v2() -> Any:
    """The class of `tf.compat.v2.keras.layers.DenseFeatures`; None where there is no such layer."""
    if V2:
        return getattr(tf.compat.v2.keras.layers, "DenseFeatures", None)
    return importlib.import_module("tensorflow.python.feature_column.dense_features_v2").DenseFeatures


def lazy_adam() -> Any:
    """The class of `tf.contrib.opt.LazyAdamOptimizer`, slow to import; sok1x's own where there is no contrib."""
    if V2:
        return importlib.import_module("sok1x.tf.keras.optimizers.lazy_adam").LazyAdamOptimizer
    return importlib.import_module("tensorflow.contrib.opt").LazyAdamOptimizer


FREEZING = "convert_variables_to_constants"


def freezing_modules() -> List[Any]:
    """The modules that have, or call, what makes constants of variables."""
    inside = ("convert_to_constants",) if V2 else ("graph_util", "graph_util_impl")
    return [importlib.import_module("tensorflow.python.framework." + name) for name in inside] + [
        root.graph_util for root in tensorflows_modules()]


def tensorflows_modules() -> List[Any]:
    """The modules that have TensorFlow's public names."""
    made = [importlib.import_module(name) for name in ("tensorflow",) + (() if V2 else ("tensorflow_core",))]
    # What `import tensorflow.compat.v1` gives; the module of that name in sys.modules is another one.
    return made + [made[0].compat.v1]
