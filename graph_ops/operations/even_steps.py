"""Whether any rank has another batch: an exchange in each step, and an end that all ranks come to in the same one."""
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import OUT_OF_RANGE, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.operations import empty_batch

DIFFERENT = (
    "sok1x.EvenSteps: samples: got first dimensions that differ between the tensors of a batch, expected the "
    "number of samples in each; reshape such a tensor after get_next, or divide the loss by a number of your own")


class EvenStepsConfig(NamedTuple):
    """Attributes:
      label: what must be equal on all ranks; also for messages."""

    label: str


def label(specs):
    """What `exchange` is to have: parts and dtypes of a batch; specs: a list of its tf.TypeSpecs."""
    return ", ".join(map(_described, specs))


def counted(specs):
    """Which parts of a batch say how many samples it has: sparse ones where there are no others; specs: `label`'s."""
    return [i for i, spec in enumerate(specs) if not isinstance(spec, tf.SparseTensorSpec)] or list(range(len(specs)))


def _described(spec):
    kind = {tf.SparseTensorSpec: "sparse ", tf.RaggedTensorSpec: "ragged "}.get(type(spec), "")
    return kind + (spec._dtype if isinstance(spec, tf.RaggedTensorSpec) else spec.dtype).name


@register
class _EvenSteps(Operation):
    """Host inputs: bool [], whether this rank has a batch; int64 [n], lengths of its tensors.

    Host output: int64 [n], the sums of these lengths over all ranks.
    The ranks learn of each other from the headers: nothing else travels.
    """

    name = "operations.even_steps.any_left"
    Config = EvenStepsConfig
    communicates = True

    def prepare(self, request, config, world):
        has, lengths = (array.numpy() for array in request.host_inputs)
        return np.concatenate([[bool(has)], lengths]).astype(np.int64)

    def run(self, request, config, world, headers):
        if not headers[:, 0].any():
            raise CallError(OUT_OF_RANGE, "End of sequence: no rank has another batch for sok1x.EvenSteps ({})".format(
                config.label), agreed=True)
        request.host_output(0, "int64", (headers.shape[1] - 1,)).numpy()[...] = headers[:, 1:].sum(axis=0)


def exchange(has, batch, label, name="even_steps"):
    """Fails with OUT_OF_RANGE, on all ranks in the same step, where none of them has a batch.

    Args:
      has: bool [], whether this rank has one. batch: its n tensors, n equal on all ranks.
      label: for the plan and for messages, equal on all ranks.

    Returns:
      int64 [n], the sums of the tensors' first dimensions over all ranks, in host memory.
    """
    lengths = tf.stack([empty_batch.length(value) for value in batch])
    with tf.device("/cpu:0"):
        return library.call("operations.even_steps.any_left", EvenStepsConfig(label), [], [], [],
                            host_inputs=[has, lengths], host_dtypes=[tf.int64],
                            host_shapes=[lengths.shape], name=name)[0]
