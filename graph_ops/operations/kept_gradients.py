"""Whether dense gradients of tables are still of the rows that they were made of: all ranks take a step, or none."""
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops

NUMBERS = 3  # of each gradient: whether rows have left since it was made, its rows, and the table's

_REMEDY = ("Take the step before the next lookup that trains, have all blocks of tf.recompute_grad under a tape in one "
           "tf.function or in none, or take the lookup outside of these and of loops of a tf.function: then its "
           "gradient has row numbers, which keep the rows")


class KeptConfig(NamedTuple):
    """Attributes:
      label: what must be equal on all ranks. tables: names. moves: of each in words how its rows become others'.
      fails: whether the op is an error where a gradient may not be applied."""

    label: str
    tables: Tuple[str, ...]
    moves: Tuple[str, ...]
    fails: bool


def refusal(config: KeptConfig, numbers: Any, first_rank: int = 0) -> Optional[str]:
    """What is wrong, in words; None where nothing is.

    Args:
      numbers: int64 [ranks, NUMBERS n], of n gradients. first_rank: whose are the first.
    """
    for rank, of_rank in enumerate(np.reshape(numbers, [-1, len(config.tables), NUMBERS]).tolist(), first_rank):
        for table, moves, (left, given, rows) in zip(config.tables, config.moves, of_rank):
            if left:
                return (
                    "embedding table '{}' on rank {}, {}: got a dense gradient, and rows have left since it was made, "
                    "or a restore has replaced them: they may be other keys' by now; no rank has taken the step. {}"
                ).format(
                    table, rank, moves, _REMEDY)
            if given < rows:
                return (
                    "embedding table '{}' on rank {}, which grows: got a dense gradient of {} rows, made before the "
                    "table had {}; the table was not changed. {}").format(table, rank, given, rows, _REMEDY)
    return None


class _Checked(Operation):
    """Host input: int64 [NUMBERS n]. Host output: those of all ranks that are asked, int64 [ranks, NUMBERS n]; an error
    of all of them where a gradient may not be applied, if `config.fails`."""

    Config = KeptConfig

    def _say(self, request: Any, config: KeptConfig, numbers: np.ndarray, first_rank: int) -> None:
        text = refusal(config, numbers, first_rank) if config.fails else None
        if text is not None:
            raise CallError(INVALID_ARGUMENT, text, agreed=self.communicates)
        request.host_output(0, "int64", numbers.shape).numpy()[...] = numbers


@register
class _Check(_Checked):
    name = "operations.kept_gradients.check"
    communicates = True

    def prepare(self, request: Any, config: KeptConfig, world: Any) -> np.ndarray:
        return request.host_inputs[0].numpy().reshape(-1)

    def run(self, request: Any, config: KeptConfig, world: Any, headers: Any) -> None:
        self._say(request, config, headers, 0)


@register
class _CheckHere(_Checked):
    name = "operations.kept_gradients.check_here"

    def run(self, request: Any, config: KeptConfig, world: Any, headers: Any) -> None:
        self._say(request, config, request.host_inputs[0].numpy().reshape(1, -1), world.rank)


def check(config: KeptConfig, numbers: tf.Tensor, all_ranks: bool, name: str = "check_kept") -> tf.Tensor:
    """int64 [ranks, NUMBERS n], in host memory: the numbers of all ranks, or of this one.

    Args:
      numbers: int64 [NUMBERS n]. all_ranks: whether the ranks ask each other; then all of them must.
    """
    operation = _Check.name if all_ranks else _CheckHere.name
    with tf_ops.colocate_with(None, ignore_existing=True), tf.device("/device:CPU:0"):  # single numbers
        return library.call(operation, config, [], [], [], host_inputs=[numbers], host_dtypes=[tf.int64],
                            host_shapes=[[None, None]], name=name)[0]
