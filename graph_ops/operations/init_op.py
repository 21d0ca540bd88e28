"""The op behind `sok1x.Init`: joins the ranks, once per process."""
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.cuda_kernels import host
from sok1x.graph_ops.bridge import executor, library
from sok1x.graph_ops.bridge.registry import Operation, register


class InitConfig(NamedTuple):
    """Attributes:
      global_batch_size: samples of all ranks in a step. seed: of the tables' initial rows."""

    global_batch_size: int
    seed: int


@register
class _Init(Operation):
    name = "operations.init_op.join"
    Config = InitConfig
    before_init = True

    def run(self, request, config, world, headers):
        if world is None:
            world = launch.start({"global_batch_size": config.global_batch_size, "seed": config.seed,
                                  "device": "GPU" if request.gpu is not None else "CPU"})
            host.set_threads(world.host_threads)
            executor.stop_last_registered()
            if request.gpu is not None:
                launch.connect_gpu(world, request.gpu)


def init(global_batch_size, seed, name="Init"):
    """A string scalar, `OK` once all ranks have joined with equal arguments.

    Args:
      global_batch_size: samples of all ranks in a step. seed: of the tables' initial rows.
    """
    started = library.call("operations.init_op.join", InitConfig(global_batch_size, seed), [], [],
                           [], name="SokInit")
    # A string lives in host memory, whatever device the caller's scope names.
    with tf.control_dependencies([started]), tf.device("/cpu:0"):
        return tf.constant("OK", name=name)
