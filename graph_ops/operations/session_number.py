"""The op that says which session of all ranks' it runs in: whether ranks save one and the same."""
import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import contexts, library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, register

NONE = -1  # what a session has in which nothing has run with other ranks


@register
class _SessionNumber(Operation):
    """Host output: int64 []."""

    name = "operations.session_number.tell"

    def run(self, request, config, world, headers):
        first = contexts.first_exchange(request.session)
        request.host_output(0, "int64", ()).write(np.array(NONE if first is None else first, np.int64))


def session_number(name="session_number"):
    """int64 [], in host memory: of the session that it is run in, a number that all ranks have for it, and for no
    other; NONE where nothing has run there with other ranks. Of sessions of a tf.train.Server it says nothing: they
    are one for us, and may end and begin again on one rank alone."""
    with tf.device("/cpu:0"):
        return library.call("operations.session_number.tell", NoConfig(), [], [], [], host_dtypes=[tf.int64],
                            host_shapes=[[]], name=name)[0]
