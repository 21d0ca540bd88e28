"""Bytes of all ranks on all ranks, in host memory: how hooks and savers tell each other what became of their work."""
import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, register


@register
class _GatherBytes(Operation):
    """Host input: uint8 [n]. Host outputs: uint8 [total], one rank's after the other; int64 [N], their lengths."""

    name = "operations.gather_bytes.gather"
    communicates = True

    def prepare(self, request, config, world):
        return np.array([request.host_inputs[0].size], np.int64)

    def run(self, request, config, world, headers):
        lengths = headers[:, 0]
        gathered = request.host_output(0, "uint8", (int(lengths.sum()),))
        request.communicator.all_gather(request.host_inputs[0].pointer, gathered.pointer, lengths, 1)
        request.host_output(1, "int64", (world.size,)).write(lengths)


def gather_bytes(payload, name="gather_bytes"):
    """What each rank gives, on all ranks.

    Args:
      payload: uint8 [n]; n may differ between ranks, and be 0.

    Returns:
      (uint8 [total], the ranks' payloads in turn; int64 [N], their lengths), in host memory.
    """
    with tf.device("/cpu:0"):
        payload = tf.reshape(tf.convert_to_tensor(payload, tf.uint8), [-1])
        return tuple(library.call("operations.gather_bytes.gather", NoConfig(), [], [], [], host_inputs=[payload],
                                  host_dtypes=[tf.uint8, tf.int64], host_shapes=[[None], [None]], name=name))
