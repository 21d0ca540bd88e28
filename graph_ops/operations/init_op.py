"""The op behind `sok1x.Init`: joins the ranks, once per process."""
from typing import NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.cuda_kernels import host
from sok1x.graph_ops.bridge import executor, forked, library, registry
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError, status_of
from sok1x.graph_ops.bridge.registry import Operation, register

DEFAULT_SEED = 20211  # any fixed number: the same script gives the same tables every time


class InitConfig(NamedTuple):
    """Attributes:
      global_batch_size: samples of all ranks in a step. seed: of the tables' initial rows.
      by_call: whether `sok1x.init` asks, which says nothing of the batch."""

    global_batch_size: Optional[int]
    seed: int
    by_call: bool


@register
class _Init(Operation):
    name = "operations.init_op.join"
    Config = InitConfig
    before_init = True
    _by_call = False  # whether the ranks have joined by `sok1x.init`

    def run(self, request, config, world, headers):
        self.join(config, world, request.gpu)

    def join(self, config, world, gpu):
        """Joins the ranks, in the executor's thread. gpu: the GPU that the op is on; None for the host."""
        if world is None:
            world = launch.start({"global_batch_size": config.global_batch_size, "seed": config.seed,
                                  "device": "GPU" if gpu is not None else "CPU"})
            self._by_call = config.by_call
            host.set_threads(world.host_threads)
            executor.stop_last_registered()
            if gpu is not None:
                launch.connect_gpu(world, gpu)
        elif self._by_call and not config.by_call:
            self._after_call(config, world)

    @staticmethod
    def _after_call(config, world):
        """`sok1x.Init` after `sok1x.init`: tables may have been made with the seed that this one had."""
        if config.seed != DEFAULT_SEED:
            world.take_seed(config.seed)
        if config.seed not in (DEFAULT_SEED, world.arguments["seed"]):
            raise CallError(INVALID_ARGUMENT, (
                "sok1x.Init: got seed {} on {}, but the ranks have joined with seed {}, by sok1x.init; give the "
                "seed there, as in sok1x.init(seed={})").format(
                    config.seed, world.name, world.arguments["seed"], config.seed))
        if world.arguments["global_batch_size"] is None:
            world.arguments["global_batch_size"] = config.global_batch_size


def init(global_batch_size, seed, by_call=False, name="Init"):
    """A string scalar, `OK` once all ranks have joined with equal arguments.

    Args:
      global_batch_size: samples of all ranks in a step. seed: of the tables' initial rows. by_call: see `InitConfig`.
    """
    started = library.call("operations.init_op.join", InitConfig(global_batch_size, seed, by_call), [], [],
                           [], name="SokInit")
    # A string lives in host memory, whatever device the caller's scope names.
    with tf.control_dependencies([started]), tf.device("/cpu:0"):
        return tf.constant("OK", name=name)


def join(global_batch_size, seed, by_call=False):
    """What the op of `init` does when it runs on the host, at once and without a session.

    A process's first session says how many threads TensorFlow has in all of them: that is to be the user's.

    Args:
      global_batch_size, seed, by_call: as of `init`.

    Raises:
      tf.errors.OpError: as of the op.
    """
    library.load()
    forked.refuse("sok1x")
    config = InitConfig(global_batch_size, seed, by_call)
    try:
        executor.ask(lambda: _join(config))
    except Exception as error:
        code, message = status_of(error)
        raise tf.errors.exception_type_from_error_code(code)(None, None, message) from error


def _join(config):
    world = launch.current()
    if world is not None and world.coordinator.job_error is not None:
        raise world.coordinator.job_error
    registry.get(_Init.name).join(config, world, None)
