"""Whether any rank has another batch: an exchange in each step, and an end that all ranks come to in the same one."""
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import control_flow_ops

from sok1x.graph_ops import library
from sok1x.graph_ops.errors import OUT_OF_RANGE, CallError
from sok1x.graph_ops.registry import Operation, register


@register
class _EvenSteps(Operation):
    """Host inputs: bool [], whether this rank has a batch; int64 [n], lengths of its tensors.

    Host outputs: bool [], whether any rank has one; int64 [n], the sums of these lengths over all ranks.
    The ranks learn of each other from the headers: nothing else travels.
    """

    name = "even_steps"
    communicates = True

    def prepare(self, request, config, world):
        has, lengths = (array.numpy() for array in request.host_inputs)
        return np.concatenate([[bool(has)], lengths]).astype(np.int64)

    def run(self, request, config, world, headers):
        request.host_output(0, "bool", ()).numpy()[...] = headers[:, 0].any()
        request.host_output(1, "int64", (headers.shape[1] - 1,)).numpy()[...] = headers[:, 1:].sum(axis=0)


@register
class _End(Operation):
    """Host input: anything. Fails on all ranks: reached where none of them has a batch.

    An op of its own, because a failure that is announced takes with it whatever else the ranks have announced in this
    step: none of that can meet another rank's next step, though all ranks may go on, with the next epoch.
    """

    name = "even_steps.end"
    communicates = True

    def prepare(self, request, config, world):
        raise CallError(OUT_OF_RANGE, "End of sequence: no rank has another batch for sok1x.EvenSteps ({})".format(
            config["label"]))


def exchange(has, lengths, label, name="even_steps"):
    """Fails with OUT_OF_RANGE, on all ranks in the same step, where none of them has a batch.

    Args:
      has: bool [], whether this rank has one. lengths: int64 [n], n equal on all ranks.
      label: for the plan and for messages, equal on all ranks.

    Returns:
      int64 [n], the sums of `lengths` over all ranks, in host memory.
    """
    config = {"label": label}
    with tf.name_scope(name), tf.device("/cpu:0"):
        more, totals = library.call("even_steps", config, [], [], [], host_inputs=[has, lengths],
                                    host_dtypes=[tf.bool, tf.int64], host_shapes=[[], lengths.shape], name="exchange")
        # Not tf.cond, which may put its branches into functions, where nothing that communicates can be.
        ended, goes_on = control_flow_ops.switch(more, more)
        end, = library.call("even_steps.end", config, [], [], [], host_inputs=[ended], host_dtypes=[tf.bool],
                            host_shapes=[[]], name="end")
        passed, _ = control_flow_ops.merge([goes_on, end])
        with tf.control_dependencies([passed]):
            return tf.identity(totals, name="totals")
