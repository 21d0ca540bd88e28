"""What a `tf.train.Supervisor` does by itself on each of several ranks, as that of TF-Slim: its summaries."""
import inspect
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.frameworks import summaries, wrapping
from sok1x.graph_ops.bridge import op_types, registry
from sok1x.graph_ops.bridge.tensorflow_versions import supervisor


def watch() -> None:
    """From now on a Supervisor's own writer writes on rank 0 only, as that of hooks: see summaries.py.

    And the thread in which it computes summaries is refused what all ranks must compute together.

    Example:
        >>> from sok1x.core.frameworks import supervisors
        >>> supervisors.watch()
    """
    wrapping.wrap(supervisor.Supervisor, "__init__", _made)
    wrapping.wrap(supervisor.SVSummaryThread, "__init__", _thread_made)


def _made(stock: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(stock)

    def init(*arguments: Any, **options: Any) -> None:
        given = signature.bind(*arguments, **options)
        given.apply_defaults()
        logdir, writer = given.arguments["logdir"], given.arguments["summary_writer"]
        default = supervisor.Supervisor.USE_DEFAULT  # a number
        if logdir and type(writer) is type(default) and writer == default and summaries.rank():
            given.arguments["summary_writer"] = summaries.no_writer(logdir)
        stock(*given.args, **given.kwargs)

    return init


def _thread_made(stock: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, sv: Any, sess: tf.Session) -> None:
        world, needed = launch.current(), None
        if world is not None and world.size > 1:
            needed = _communicating(sess.graph.as_graph_element(sv.summary_op))
        if needed is not None:
            raise ValueError((
                "tf.train.Supervisor: summary_op: got '{}', which needs '{}', an op that all ranks must run together: "
                "the Supervisor's thread would run it by this rank's own clock, beside the training. Expected None, or "
                "save_summaries_secs=0: run the summaries in the training loop, on all ranks after the same step, and "
                "write what they give by sv.summary_computed(session, text)").format(sv.summary_op.name, needed.name))
        stock(self, sv, sess)

    return init


def _communicating(wanted: Any) -> Optional[tf.Operation]:
    """An op that a tensor or an op waits for, or is, and that all ranks must run together."""
    waiting = [getattr(wanted, "op", wanted)]
    found = set(waiting)
    while waiting:
        op = waiting.pop()
        if op_types.is_ours(op) and registry.get(op.get_attr("function").decode()).communicates:
            return op
        before = {*op.control_inputs, *(tensor.op for tensor in op.inputs)} - found
        found |= before
        waiting.extend(before)
    return None
