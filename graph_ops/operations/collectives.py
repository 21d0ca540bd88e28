"""Collectives over dense tensors: averages of gradients, broadcasts of variables, sums of squared norms."""
from typing import NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import dense
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.groups import dense_sums

_REDUCIBLE = ("float16", "float32", "float64")


class ReduceConfig(NamedTuple):
    """Attributes:
      label: what must be equal on all ranks. names: of the tensors, for errors.
      average: whether sums are divided by N."""

    label: str
    names: Tuple[str, ...]
    average: bool


class BroadcastConfig(NamedTuple):
    """Attributes:
      label: what must be equal on all ranks. names: of the tensors, for errors.
      root: the rank whose values all get."""

    label: str
    names: Tuple[str, ...]
    root: int


class NormsConfig(NamedTuple):
    """Attributes:
      label: what must be equal on all ranks."""

    label: str


def _check_sizes(operation, config, headers):
    """Raises, on all ranks alike, where tensors differ in size between ranks."""
    differing = np.flatnonzero((headers != headers[0]).any(axis=0))
    if differing.size:
        i = int(differing[0])
        raise CallError(INVALID_ARGUMENT, (
            "{}: got tensors of {} elements on the ranks in turn for input {} ('{}'), expected the same shape on all "
            "ranks").format(operation, headers[:, i].tolist(), i, config.names[i]), agreed=True)


@register
class _AllReduce(Operation):
    """inputs: float tensors. Outputs: their sums over all ranks, or averages."""

    name = "operations.collectives.all_reduce"
    kind = "Reduce"
    Config = ReduceConfig
    communicates = True
    group = dense_sums.DenseSums()

    def prepare(self, request, config, world):
        return np.array([array.size for array in request.inputs], np.int64)

    def run(self, request, config, world, headers):
        _check_sizes("all_reduce", config, headers)
        inputs = request.inputs
        if world.size == 1:
            for i in range(len(inputs)):
                request.forward(i, i)
            return
        outputs = [request.output(i, array.dtype, array.shape) for i, array in enumerate(inputs)]
        # One exchange for each dtype: a step has many small gradients, and an exchange's latency is the same for all.
        for dtype in sorted({array.dtype for array in inputs}):
            pairs = [pair for pair in zip(inputs, outputs) if pair[0].dtype == dtype]
            if request.communicator.sums_apart and dtype != "float16":
                self._reduce_each(request, config, world.size, dtype, pairs)
            else:
                self._reduce(request, config, world.size, dtype, pairs)

    @staticmethod
    def _reduce_each(request, config, ranks, dtype, pairs):
        """All-reduces the (input, output) pairs of one dtype as they lie: the communicator has them travel together."""
        communicator = request.communicator
        by_itself = config.average and communicator.averages
        communicator.all_reduce_each([(array.pointer, output.pointer, array.size) for array, output in pairs], dtype,
                                     by_itself)
        for _, output in pairs if config.average and not by_itself else ():
            dense.divide(output, ranks)

    @staticmethod
    def _reduce(request, config, ranks, dtype, pairs):
        """All-reduces the (input, output) pairs of one dtype through one buffer; halves are summed in float32."""
        half = dtype == "float16"
        summed = "float32" if half else dtype
        total = sum(array.size for array, _ in pairs)
        buffer = request.temporary(summed, total)
        begin = 0
        for array, _ in pairs:
            (dense.widen_half if half else dense.copy)(array, buffer.some(begin, array.size))
            begin += array.size
        request.communicator.all_reduce(buffer.pointer, total, summed)
        if config.average:
            dense.divide(buffer, ranks)
        begin = 0
        for _, output in pairs:
            (dense.narrow_half if half else dense.copy)(buffer.some(begin, output.size), output)
            begin += output.size

    def gradient(self, op, config, grads):
        # Every rank's output has this rank's input in it; all of their losses are what is trained.
        wanted = [gradient is not None for gradient in grads]
        sums = iter(all_reduce([gradient for gradient in grads if gradient is not None], config.average,
                               name="all_reduce_gradient"))
        return [next(sums) if want else None for want in wanted]


@register
class _SquaredNorms(Operation):
    """Host inputs: float64 [m], each rank's own; float64 [n], equal on all ranks up to rounding.

    Host output: float64 [m + n], the sums of the first over all ranks and rank 0's second: equal on all ranks bit for
    bit. The ranks learn of each other's numbers from the headers: nothing else travels.
    """

    name = "operations.collectives.squared_norms"
    kind = "Reduce"
    Config = NormsConfig
    communicates = True

    def prepare(self, request, config, world):
        numbers = np.concatenate([array.numpy() for array in request.host_inputs])
        return np.ascontiguousarray(numbers, np.float64).view(np.int64)

    def run(self, request, config, world, headers):
        every = np.ascontiguousarray(headers).view(np.float64)
        own = request.host_inputs[0].size
        total = every[0].copy()
        for rank in range(1, len(every)):  # in this order on every rank
            total[:own] += every[rank, :own]
        request.host_output(0, "float64", total.shape).numpy()[...] = total


@register
class _Broadcast(Operation):
    """inputs: tensors. Outputs: rank `root`'s."""

    name = "operations.collectives.broadcast"
    kind = "Broadcast"
    Config = BroadcastConfig
    communicates = True

    def prepare(self, request, config, world):
        if not 0 <= config.root < world.size:
            raise CallError(INVALID_ARGUMENT, "broadcast: got root_rank {}, expected a rank in [0, {})".format(
                config.root, world.size))
        return np.array([array.size for array in request.inputs], np.int64)

    def run(self, request, config, world, headers):
        _check_sizes("broadcast", config, headers)
        for i, array in enumerate(request.inputs):
            if world.size == 1:
                request.forward(i, i)
                continue
            output = request.output(i, array.dtype, array.shape)
            nbytes = array.size * ITEM_BYTES[array.dtype]
            if world.rank == config.root:
                dense.copy(array, output)
            request.communicator.broadcast(output.pointer, nbytes, config.root)


def _described(tensors):
    """(label, names) of a config."""
    label = " ".join("{}{}".format(tensor.dtype.name, tensor.shape) for tensor in tensors)
    return label, tuple("number {}".format(i) if tf.executing_eagerly() else tensor.op.name
                        for i, tensor in enumerate(tensors))


def all_reduce(tensors, average=True, name="all_reduce"):
    """Sums (or averages) over all ranks: a list of tensors like `tensors` (float16, float32 or float64), in one op."""
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    for tensor in tensors:
        if tensor.dtype.name not in _REDUCIBLE:
            raise TypeError("all_reduce: got a tensor of {} ('{}'), expected one of {}".format(
                tensor.dtype.name, tensor.name, ", ".join(_REDUCIBLE)))
    if not tensors:
        return []
    return library.call("operations.collectives.all_reduce", ReduceConfig(*_described(tensors), bool(average)), tensors,
                        [tensor.dtype for tensor in tensors], [tensor.shape for tensor in tensors], name=name)


def squared_norms(own, shared, name="squared_norms"):
    """float64 [m + n], in host memory: sums over all ranks, then rank 0's values; equal on all ranks bit for bit.

    Args:
      own: a list of m float tensors [], of this rank's rows. shared: a list of n, of what all ranks have.
    """
    label = "own={} shared={}".format(len(own), len(shared))
    with tf_ops.colocate_with(None, ignore_existing=True), tf.device("/device:CPU:0"):  # single numbers
        host_inputs = [tf.stack([tf.cast(each, tf.float64) for each in numbers]) if numbers else
                       tf.zeros([0], tf.float64) for numbers in (own, shared)]
        return library.call("operations.collectives.squared_norms", NormsConfig(label), [], [], [],
                            host_inputs=host_inputs,
                            host_dtypes=[tf.float64], host_shapes=[[len(own) + len(shared)]], name=name)[0]


def broadcast(tensors, root_rank, name="broadcast"):
    """Rank `root_rank`'s values on all ranks: a list of tensors like `tensors`."""
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    for tensor in tensors:
        if tensor.dtype.name not in ITEM_BYTES:
            raise TypeError("broadcast: got a tensor of {} ('{}'), expected one of {}".format(
                tensor.dtype.name, tensor.name, ", ".join(sorted(ITEM_BYTES))))
    if not tensors:
        return []
    return library.call("operations.collectives.broadcast", BroadcastConfig(*_described(tensors), int(root_rank)),
                        tensors, [tensor.dtype for tensor in tensors], [tensor.shape for tensor in tensors], name=name)
