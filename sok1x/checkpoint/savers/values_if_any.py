"""Variables of which a session may not have all yet, read in two runs of it, however many they are.

TensorFlow prepares the whole graph for whatever a run asks for the first time: one run for each variable takes a time
that grows with the square of a model's tables.
"""
from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf


class ValuesIfAny:
    """Reads variables of a graph, by ops that each has: the graph may be final.

    Args:
        variables: those, of resources.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self._values = list(variables)
        self._are_there = [variable._is_initialized_op for variable in variables]

    def read(self, session: tf.Session) -> List[Optional[Any]]:
        """The values, None where the session has no such variable yet."""
        there = session.run(self._are_there)
        values = iter(session.run([value for value, found in zip(self._values, there) if found]))
        return [next(values) if found else None for found in there]
