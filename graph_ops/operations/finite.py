"""Whether gradients are finite, agreed on by all ranks: a step that one of them cannot take, none takes."""
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import backend, finite
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register

_DTYPES = ("float16", "float32", "float64")


class FiniteConfig(NamedTuple):
    """Attributes:
      label: what must be equal on all ranks."""

    label: str


@register
class _AllFinite(Operation):
    """inputs: float tensors. Host output: bool [], whether all values on all ranks are finite.

    The ranks learn of each other's values from the headers: nothing else travels.
    """

    name = "operations.finite.all_finite"
    kind = "Reduce"
    Config = FiniteConfig
    communicates = True

    def prepare(self, request, config, world):
        counts = backend.counts()
        count = counts.take()
        for array in request.inputs:
            if array.size:
                finite.start_count(array, count)
        return np.array(counts.read(), np.int64)

    def run(self, request, config, world, headers):
        request.host_output(0, "bool", ()).numpy()[...] = not headers.any()


def all_finite(tensors, name="all_finite"):
    """A bool [], in host memory, equal on all ranks: whether no rank has an Inf or a NaN in its tensors.

    Args:
      tensors: float16, float32 or float64, of any shape, which may differ between ranks.
    """
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    for tensor in tensors:
        if tensor.dtype.name not in _DTYPES:
            raise TypeError("all_finite: got a tensor of {} ('{}'), expected one of {}".format(
                tensor.dtype.name, tensor.name, ", ".join(_DTYPES)))
    label = " ".join(tensor.dtype.name for tensor in tensors)
    return library.call("operations.finite.all_finite", FiniteConfig(label), tensors, [], [], host_dtypes=[tf.bool],
                        host_shapes=[[]],
                        name=name)[0]
