"""Whether this process has joined the ranks, and what is said where it has not."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x import launch

INIT_FIRST = (
    "sok1x has not been initialized: run the op made by sok1x.Init(global_batch_size=...) first, also before variable "
    "initializers, as in sess.run(sok1x.Init(global_batch_size=...)); with MonitoredTrainingSession add "
    "sok1x.InitHook(global_batch_size=...) to its hooks; or call sok1x.init() at the program's start")


def world() -> Any:
    """The `launch.World` that this process is one rank of. Raises tf.errors.FailedPreconditionError without one."""
    found = launch.current()
    if found is None:
        raise tf.errors.FailedPreconditionError(None, None, INIT_FIRST)
    return found
