"""Eager execution: the graph in which the ops lie that are made once for a table, and what runs them.

Lookups, gradients and optimizers' steps run eagerly as they are. But what saves, loads, dumps and counts tables is
written for a graph that is built once and a session that runs parts of it. So there is one such graph in a process, a
function's body that nobody calls as a whole; a table's handle is captured by it, and `session().run` runs the parts.
"""
import contextlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside

_MOST_PARTS = 1000
_body: Any = None
_session: Optional["EagerSession"] = None


def is_on() -> bool:
    """Whether tables that are made now are eager ones.

    Returns:
        True in eager execution, and in functions that are called from there.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import eager
        >>> with tf.Graph().as_default():
        ...     eager.is_on()
        False
    """
    return is_eager_outside()


def strategy() -> Any:
    """The `tf.distribute.Strategy` in whose scope a table is about to be made, None without one.

    Raises:
        ValueError: it is one that makes replicas of variables.
    """
    if not is_on() or not tf.distribute.has_strategy():
        return None
    found = tf.distribute.get_strategy()
    if "OneDeviceStrategy" in type(found).__name__:
        return found
    raise ValueError((
        "sok1x: got a table made under a tf.distribute.{} with {} replica{} in this process, expected no strategy, or "
        "tf.distribute.OneDeviceStrategy: such a strategy replicates variables, and a table is spread over ranks, one "
        "process for each device. Start the ranks with mpiexec or horovodrun (mpiexec -np N python train.py), leave "
        "the strategy out, and take sok1x.DistributedOptimizer for the dense variables").format(
            type(found).__name__, found.num_replicas_in_sync, "" if found.num_replicas_in_sync == 1 else "s"))


def graph() -> Any:
    """The graph of the ops that are made once for eager tables."""
    return _made().graph


def session() -> "EagerSession":
    """What runs parts of `graph()`."""
    global _session
    if _session is None:
        _session = EagerSession()
    return _session


@contextlib.contextmanager
def room() -> Iterator[None]:
    """Where ops are made once for a table: in eager execution in `graph()`, else where this is."""
    if not tf.executing_eagerly():
        yield
        return
    with graph().as_default():
        yield


def placeholder(dtype: Any, shape: Any, name: Any = None) -> tf.Tensor:
    """A `tf.placeholder`, also where tensors are no keys of a dict: in TensorFlow 2 they compare by their values."""
    made = tf.placeholder(dtype, shape, name=name)
    if is_on():
        made.__class__ = _by_identity(type(made))
    return made


_kinds: Dict[Any, Any] = {}


def _by_identity(kind: Any) -> Any:
    if kind not in _kinds:
        _kinds[kind] = type(kind.__name__, (kind,), {"__hash__": object.__hash__, "__eq__": object.__eq__})
    return _kinds[kind]


@contextlib.contextmanager
def at(variable: Any) -> Iterator[None]:
    """Where ops of a user's on a table are made: in its graph; in eager execution they run at once."""
    if is_on():
        yield
        return
    with variable.graph.as_default():
        yield


def add(variable: Any, *collections: str) -> None:
    """Has `graph()` know an eager variable, in collections besides that of all variables."""
    for name in (tf.GraphKeys.GLOBAL_VARIABLES,) + collections:
        known = graph().get_collection_ref(name)
        if not any(one is variable for one in known):
            known.append(variable)


def _made() -> Any:
    global _body
    if _body is None:
        with tf.init_scope():
            _body = tf.wrap_function(lambda: None, [])
    return _body


class EagerSession:
    """Has of a `tf.Session` what runs parts of the graph of eager tables.

    Attributes:
        graph: `graph()`.
    """

    _closed = False

    def __init__(self) -> None:
        self.graph = graph()
        self._parts: Dict[Tuple[Any, ...], Any] = {}

    def run(self, fetches: Any, feed_dict: Optional[Dict[Any, Any]] = None, options: Any = None,
            run_metadata: Any = None) -> Any:
        """Runs what is asked for.

        Args:
            fetches: tensors and operations of `graph`, in any structure.
            feed_dict: {tensor: its value}.
            options: unused.
            run_metadata: unused.

        Returns:
            The same structure with NumPy values, and None for operations.
        """
        wanted = _flat(fetches)
        feeds = list(feed_dict or {})
        tensors = [one for one in wanted if isinstance(one, tf.Tensor)]
        operations = [one for one in wanted if isinstance(one, tf.Operation)]
        for one in wanted:
            if not isinstance(one, (tf.Tensor, tf.Operation)):
                raise TypeError("session.run: got {!r} of type {}, expected a tensor or an operation".format(
                    one, type(one).__name__))
        key = tuple(map(id, feeds)) + (None,) + tuple(map(id, wanted))
        part = self._parts.get(key)
        if part is None:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            # What is fetched and fed is kept, so that no other has its id.
            part = self._parts[key] = _made().prune(feeds, [tensors, operations]), list(feeds), wanted
        with tf.init_scope():
            given = [tf.constant(value, feed.dtype) for feed, value in (feed_dict or {}).items()]
            found, _ = part[0](*given)
        values = iter([value.numpy() for value in found])
        results = iter([next(values) if isinstance(one, tf.Tensor) else None for one in wanted])
        return _like(fetches, results)


def _flat(structure: Any) -> List[Any]:
    if isinstance(structure, dict):
        return [leaf for value in structure.values() for leaf in _flat(value)]
    if isinstance(structure, (list, tuple)):
        return [leaf for value in structure for leaf in _flat(value)]
    if isinstance(structure, tf.SparseTensor):
        return [structure.indices, structure.values, structure.dense_shape]
    return [] if structure is None else [structure]


def _like(structure: Any, results: Iterator[Any]) -> Any:
    if isinstance(structure, dict):
        return {name: _like(value, results) for name, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        made = [_like(value, results) for value in structure]
        return type(structure)(*made) if hasattr(structure, "_fields") else type(structure)(made)
    if isinstance(structure, tf.SparseTensor):
        return tf.SparseTensorValue(next(results), next(results), next(results))
    return None if structure is None else next(results)
