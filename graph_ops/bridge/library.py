"""Loads the op library once into TensorFlow and once, the same mapping, into ctypes; makes our nodes."""
import threading

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import bridge, configs, executor, op_file, op_functions, op_types, plan, registry, timeline
from sok1x.graph_ops.bridge.tensorflow_versions import (
    control_flow_util,
    eager_context,
    is_eager_outside,
    outermost,
    tf_ops,
)

_lock = threading.Lock()
_loaded = None
_functions = None


def load():
    """The op library, with the executor running. Called when the first op of ours is built.

    Raises:
      ImportError: there is no library for this TensorFlow, and it could not be compiled, or does not load.
    """
    global _loaded, _functions
    with _lock:
        if _loaded is None:
            try:
                op_file.compile_missing(bridge.PATH)
                module = tf.load_op_library(bridge.PATH)
            except (tf.errors.NotFoundError, OSError, RuntimeError) as error:
                raise ImportError(
                    "sok1x's op library for TensorFlow {} could not be loaded: got '{}'. Build it against this "
                    "TensorFlow: `make build` in a source checkout, `python -m sok1x.build --force` or sok1x installed "
                    "again with pip elsewhere.".format(tf.__version__, getattr(error, "message", error))) from error
            library = _functions = op_functions.Library(bridge.PATH)
            timeline.start(library)
            executor.start(library)
            _loaded = module
    return _loaded


def functions():
    """The functions of the op library, an `op_functions.Library`; raises as `load`."""
    load()
    return _functions


@tf.autograph.experimental.do_not_convert
def call(function, config, inputs, dtypes, shapes, resources=(), host_inputs=(), host_dtypes=(), host_shapes=(),
         name=None):
    """A node of ours.

    Args:
      function: the registered operation's name.
      config: what the operation is given at run time: its `Config`.
      inputs: tensors. dtypes, shapes: of the outputs; `shapes` as far as known.
      resources: resource handles of the variables that the operation uses.
      host_inputs, host_dtypes, host_shapes: inputs and outputs in host memory whatever the op's device: flags, counts.

    Returns:
      The list of output tensors, those in host memory last; where there are none, the operation, or None in eager
      execution.
    """
    operation = registry.get(function)
    module = load()
    with tf_ops.name_scope(name, function.replace(".", "_")) as scope:
        scope = scope or "{}{}/".format(eager_context.context().scope_name, name or function)  # eager
        if operation.communicates:
            from sok1x.graph_ops.operations import branches  # which needs this module
            branches.guard(scope[:-1])
        place = _place(operation, config, scope[:-1])
        made = getattr(module, op_types.maker(operation.kind))(
            resources=list(resources), inputs=list(inputs), host_inputs=list(host_inputs), Tout=list(dtypes),
            Thost_out=list(host_dtypes), function=function, config=configs.encode(config, place),
            digest=0 if place.op is None else _signed(place.op[1]), signature=0,
            fuse=operation.group is not None and operation.group.several,
            output_shapes=[tf.TensorShape(shape) for shape in list(shapes) + list(host_shapes)], name=scope)
    if dtypes or host_dtypes:
        return list(made.outputs) + list(made.host_outputs)
    return None if tf.executing_eagerly() else tf_ops.get_default_graph().get_operation_by_name(scope[:-1])


def _signed(digest):
    """64 bits as TensorFlow's attributes have them."""
    return digest - (digest >> 63 << 64)


def _place(operation, config, name):
    """Where the op that is being built stands: in its graph's plan, and in loops."""
    if is_eager_outside():
        return _unordered_place(operation, config, name)
    graph = tf_ops.get_default_graph()
    if not operation.communicates:
        return configs.Place(plan.of(graph).number, plan.PROCESS)
    described = operation.describe(config)
    # Of a branch that is a function (control flow v2), too: in a session ops are known by their numbers.
    of_graph = plan.of(outermost(graph))
    op = of_graph.add(described)
    context, loops = graph._get_control_flow_context(), 0
    while context is not None:
        loops += context.IsWhileContext()
        context = context.outer_context
    return configs.Place(of_graph.number, plan.PROCESS, op, described, loops)


def _unordered_place(operation, config, name):
    """As `_place`, of what runs at once or is in the body of a function that is called from there."""
    known, at_once = plan.unordered(), tf.executing_eagerly()
    if not at_once and control_flow_util.GraphOrParentsInXlaContext(tf_ops.get_default_graph()):
        raise ValueError((
            "op '{}' of sok1x: got a tf.function, or a Keras model, with jit_compile=True, expected one without: XLA "
            "compiles no exchange between ranks, and no table that changes. Leave jit_compile out there; what XLA is "
            "to compile, put into a tf.function of its own, which is given the rows that have been looked up").format(
                name))
    thread = plan.thread()
    label = "" if not at_once else "{} in thread {}".format(name, thread) if thread else name
    if not operation.communicates:
        return configs.Place(known.number, plan.PROCESS, label=label)
    described = operation.describe(config)
    op = known.add_to(None if at_once else tf_ops.get_default_graph(), described)
    return configs.Place(known.number, plan.PROCESS, op, described, label=label)


def _gradient(op, *grads):
    """Hands over to the gradient that the operation's own file defines."""
    operation = registry.get(op.get_attr("function").decode())
    # What follows may have been a tf.gather.
    grads = [tf.convert_to_tensor(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    return operation.gradient(op, configs.of_op(operation.Config, op), grads)


for _type in op_types.TYPES:
    tf_ops.RegisterGradient(_type)(_gradient)
