"""A warning for who trains a table in host memory without having asked for it.

TensorFlow puts all ops that work on a variable on one device. Where one of them, as the sparse step of most of its
optimizers, has no kernel for a GPU, the table and its lookups go into host memory, and TensorFlow says nothing.
"""
from typing import Any, Iterator, Optional, Set

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import plan
from sok1x.graph_ops.bridge.tensorflow_versions import registered_kernels

# What optimizers step by.
_STEPS = ("ResourceApply", "ResourceSparseApply", "ResourceScatter")
_PASSING = ("Enter", "Switch", "Identity")  # a resource on its way into a loop or a branch

_warned: Set[str] = set()


def look(request: Any, config: Any, number: Optional[int]) -> None:
    """Warns, once for each table, where a request is on the CPU, and its session has a GPU, because of an optimizer.

    Args:
      request: the first of its op in its session; it is on the CPU.
      config: the op's. number: of its graph's plan.
    """
    table = getattr(config, "table", None)
    if table is None or table.name in _warned or not request.resource_count or not has_gpu(request):
        return
    graph = plan.graph_of(number)
    op = None if graph is None else _op_called(graph, request.name)
    step = None if op is None else _step_without_gpu(op)
    if step is not None:
        _warned.add(table.name)
        tf.logging.warning(
            "embedding table '%s' is in host memory, and so are its lookups, though this session has a GPU: TensorFlow "
            "has no kernel for GPUs of %s, by which op '%s' steps. For the table to be on the GPU use an optimizer "
            "that has one: sok1x.tf.keras.optimizers.LazyAdamOptimizer, tf.train.AdamOptimizer, "
            "tf.train.GradientDescentOptimizer (docs/gpus.md has all). If it is to be in host memory, place its layer "
            "there: with tf.device('/cpu:0')", table.name, step.type, step.name)


def has_gpu(request: Any) -> bool:
    """Whether the session of a request has a GPU."""
    return bool(request.library.has_gpu(request.handle))


def has_gpu_kernel(op: tf.Operation) -> bool:
    """Whether TensorFlow has a kernel for GPUs of an op, of its types."""
    for kernel in registered_kernels.get_registered_kernels_for_op(op.type).kernel:
        if kernel.device_type == "GPU" and all(
                op.get_attr(one.name).as_datatype_enum in one.allowed_values.list.type for one in kernel.constraint):
            return True
    return False


def _op_called(graph: tf.Graph, name: str) -> Optional[tf.Operation]:
    try:
        return graph.get_operation_by_name(name)
    except KeyError:  # it is a function's
        return None


def _step_without_gpu(op: tf.Operation) -> Optional[tf.Operation]:
    """Of what steps by the variables that an op has, one that has no kernel for GPUs; None where all are on the CPU by
    request."""
    for handle in op.inputs:
        if handle.dtype != tf.resource:
            continue
        if tf.DeviceSpec.from_string(handle.op.device or "").device_type == "CPU":
            return None
        for step in _users(handle):
            if step.type.startswith(_STEPS) and not has_gpu_kernel(step):
                return step
    return None


def _users(handle: tf.Tensor) -> Iterator[tf.Operation]:
    """The ops that work on a resource."""
    for op in handle.consumers():
        if op.type in _PASSING:
            for passed in op.outputs:
                if passed.dtype == tf.resource:
                    yield from _users(passed)
        else:
            yield op
