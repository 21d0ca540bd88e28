"""tf.estimator.experimental.InMemoryEvaluatorHook, which copies variable by variable what an evaluation needs.

What a table with a cache has in host memory is no variable: its index, copied, would lead to rows that are not there.
And slots of a table that grows are as long as the table, which in the evaluation's session has not grown.
"""
import sys
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.core.graph_keys import tables_made_here
from sok1x.core.tables import growing_slots

_MODULE = "tensorflow_estimator.python.estimator.hooks.hooks"


def watch() -> None:
    """From now on that hook refuses tables that cannot be copied so, when it begins.

    Example:
        >>> from sok1x.core.frameworks import in_memory_evaluation
        >>> in_memory_evaluation.watch()
    """
    kind: Any = getattr(sys.modules.get(_MODULE), "InMemoryEvaluatorHook", None)
    if kind is not None:
        wrapping.wrap(kind, "begin", _begin)


def _begin(stock: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Any) -> None:
        with_slots = {growing_slots.table_of(variable) for variable in tf.global_variables()}
        for table in [one.table for one in tables_made_here()]:
            what = "has rows in host memory" if table.cache is not None else \
                "grows, and has an optimizer's slots" if table.name in with_slots else None
            if what is not None:
                raise ValueError((
                    "InMemoryEvaluatorHook: got table '{}', which {}: the hook copies variables one by one into an "
                    "evaluation's session, where there is no such memory. Expected an evaluation from checkpoints, by "
                    "tf.estimator.train_and_evaluate; or a table with a fixed number of rows, "
                    "max_vocabulary_size_per_gpu, and no cache").format(table.name, what))
        stock(self)

    return begin
