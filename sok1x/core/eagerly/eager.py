"""Eager execution: the graph in which the ops lie that are made once for a table, and what runs them.

Lookups, gradients and optimizers' steps run eagerly as they are. But what saves, loads, dumps and counts tables is
written for a graph that is built once and a session that runs parts of it. So each table has such a graph, the body of
a function that nobody calls as a whole: the handles of the table's variables are captured by it, and `session().run`
runs the parts. It goes with its table. One more, `graph()`, is no table's: it is what all tables name as theirs.
"""
import contextlib
import threading
import weakref
from typing import Any, Dict, Iterator, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.tensorflow_versions import V2, Variable, eager_context, is_eager_outside

_MOST_PARTS = 1000
_MOST_GONE = 16  # tables
_BODY = "_sok1x_body"  # the attribute of a table, or of the body's graph, that has the body
_PARTS = "_sok1x_parts"  # that of the graph which has {what was asked for: (a function, what was asked for)}
_NAME = "_sok1x_name"  # that of a variable which has its name
_SCOPED = "_sok1x_scoped_name"  # of such a slot: its name with the optimizer's in it
_BEGINS = "_sok1x_begins"  # that of a slot which has what it begins with
_building = threading.RLock()  # threads name, note and build here one at a time; nobody waits for a rank meanwhile
_body: Any = None
_session: Optional["EagerSession"] = None
_known: Dict[str, List[Any]] = {}  # collection -> references to variables
_gone: List[None] = []  # for each table that has gone since kernels were let go


def is_on() -> bool:
    """Whether tables that are made now are eager ones.

    Returns:
        True in eager execution, and in functions that are called from there.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.eagerly import eager
        >>> with tf.Graph().as_default():
        ...     eager.is_on()
        False
    """
    return is_eager_outside()


def refuse_in_function(label: str) -> None:
    """Raises where a `tf.function`'s body is traced: what runs at once would run then, and in no call of the function.

    Args:
        label: of what was called, for the message, as 'sok1x.dump'.

    Raises:
        RuntimeError: it is such a body.

    Example:
        >>> from sok1x.core.eagerly import eager
        >>> eager.refuse_in_function("sok1x.dump")
    """
    if is_on() and not tf.executing_eagerly():
        raise RuntimeError(
            "{}: called in the body of a tf.function: it would run once, while the function is traced, and in none of "
            "its calls. Call it between calls of the function".format(label))


def note_in_function(variable: Any) -> None:
    """Notes with a table that an op which goes by where its rows are is made in the body of a function, and kept."""
    if is_on() and not tf.executing_eagerly():
        variable.is_in_functions = True


def container() -> str:
    """The container of the variables of a table that is made now, for `graph_ops.stores.table.Growth`."""
    return growing.EAGER if is_on() else str(tf.get_default_graph()._container)


def shape(*dimensions: Optional[int]) -> Dict[str, Any]:
    """Arguments of a variable that is made now, for a shape that may change: a graph's has that of its first value."""
    return {"shape": tf.TensorShape(dimensions)} if is_on() else {}


def graph() -> Any:
    """The graph that eager tables name as theirs."""
    global _body
    with _building:
        if _body is None:
            _body = _made()
        return _body.graph


def session() -> "EagerSession":
    """What runs parts of `graph()`, and of tables' graphs."""
    global _session
    if _session is None:
        _session = EagerSession()
    return _session


@contextlib.contextmanager
def room(variable: Any) -> Iterator[None]:
    """Where ops are made once for a table: in eager execution in a graph of its own, else where this is."""
    if not is_on():
        yield
        return
    with _building:  # TensorFlow enters and leaves such a graph for one thread at a time
        body = variable.__dict__.get(_BODY)
        if body is None:
            _let_kernels_go()
            weakref.finalize(variable, _gone.append, None).atexit = False
            body = variable.__dict__[_BODY] = _made()
        with body.graph.as_default():
            yield


def _let_kernels_go() -> None:
    """TensorFlow keeps a kernel of everything that has ever run eagerly: a table leaves hundreds of KB.

    It makes those that are needed again anew, and functions' too, so that is done for several tables at a time.
    """
    if len(_gone) >= _MOST_GONE:
        del _gone[:]
        with tf.init_scope():
            eager_context.context().clear_kernel_cache()


def placeholder(dtype: Any, shape: Any, name: Any = None, default: Any = None) -> tf.Tensor:
    """A `tf.placeholder`, also where tensors are no keys of a dict: in TensorFlow 2 they compare by their values.

    Args:
        dtype: of what is fed.
        shape: likewise.
        name: of the op.
        default: its value where it is not fed; None: to run what needs it without is an error.

    Returns:
        The tensor.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.eagerly import eager
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     int(session.run(eager.placeholder(tf.int64, [], default=7)))
        7
    """
    made = tf.placeholder(dtype, shape, name=name) if default is None else \
        tf.placeholder_with_default(tf.constant(default, dtype), shape, name=name)
    if V2:
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
    """Has an eager variable be known as long as it lives, in collections besides that of all variables."""
    with _building:
        for name in (tf.GraphKeys.GLOBAL_VARIABLES,) + collections:
            known = [one for one in _known.get(name, ()) if one() is not None]
            if not any(one() is variable for one in known):
                known.append(weakref.ref(variable))
            _known[name] = known  # another list: `collected` may be going through the last one


def unique_name(name: str) -> str:
    """A name that no eager variable has had yet."""
    with _building:
        return str(graph().unique_name(name))


def named(variable: Any, name: str, scoped: Optional[str] = None) -> None:
    """Has an eager variable be called so, where several may have its name: slots of optimizers of one kind.

    scoped: the name with the optimizer's in it, where it is known.
    """
    setattr(variable, _NAME, name)
    setattr(variable, _SCOPED, scoped)


def scoped_name_of(variable: Any) -> Optional[str]:
    """What `named` was told besides; None: nothing."""
    return getattr(variable, _SCOPED, None)


def name_of(variable: Any) -> Optional[str]:
    """What `named` was told; None: nothing."""
    return getattr(variable, _NAME, None)


def begins(variable: Any, value: Any) -> None:
    """Notes the number that all of an eager slot begins with."""
    setattr(variable, _BEGINS, value)


def begins_with(variable: Any) -> Any:
    """What `begins` was told; None: nothing."""
    return getattr(variable, _BEGINS, None)


def collected(where: Any, name: str) -> List[Any]:
    """As `where.get_collection(name)`, of `graph()` too."""
    if _body is None or where is not _body.graph:
        return list(where.get_collection(name))
    return [variable for variable in [one() for one in _known.get(name, ())] if variable is not None]


def _made() -> Any:
    with tf.init_scope():
        body = tf.wrap_function(lambda: None, [])
    setattr(body.graph, _BODY, body)
    return body


class EagerSession:
    """Has of a `tf.Session` what runs parts of the graphs of eager tables.

    Attributes:
        graph: `graph()`.
    """

    _closed = False

    def __init__(self) -> None:
        self.graph = graph()

    def run(self, fetches: Any, feed_dict: Optional[Dict[Any, Any]] = None, options: Any = None,
            run_metadata: Any = None) -> Any:
        """Runs what is asked for.

        Args:
            fetches: tensors, variables and operations, in any structure; those of one graph run together.
            feed_dict: {tensor: its value}.
            options: unused.
            run_metadata: unused.

        Returns:
            The same structure with NumPy values, and None for operations.
        """
        wanted = _flat(fetches)
        found: Dict[int, Any] = {}
        for one in wanted:
            if isinstance(one, Variable):
                with tf.init_scope():
                    found[id(one)] = one.read_value().numpy()
            elif not isinstance(one, (tf.Tensor, tf.Operation)):
                raise TypeError("session.run: got {!r} of type {}, expected a tensor, a variable or an operation"
                                .format(one, type(one).__name__))
        wanted = [one for one in wanted if id(one) not in found]
        for where in {id(one.graph): one.graph for one in wanted}.values():
            of_graph = [one for one in wanted if one.graph is where]
            feeds = {feed: value for feed, value in (feed_dict or {}).items() if feed.graph is where}
            found.update(zip(map(id, of_graph), self._run(where, of_graph, feeds)))
        return _like(fetches, iter([found[id(one)] for one in _flat(fetches)]))

    def _run(self, where: Any, wanted: List[Any], feeds: Dict[Any, Any]) -> List[Any]:
        """Values of tensors and operations of one graph."""
        key = tuple(map(id, feeds)) + (None,) + tuple(map(id, wanted))
        with _building:
            parts: Dict[Tuple[Any, ...], Any] = getattr(where, _PARTS, {})
            setattr(where, _PARTS, parts)
            if key not in parts:
                if len(parts) >= _MOST_PARTS:
                    parts.clear()
                # What is fetched and fed is kept, so that no other has its id.
                tensors = [one for one in wanted if isinstance(one, tf.Tensor)]
                operations = [one for one in wanted if isinstance(one, tf.Operation)]
                parts[key] = getattr(where, _BODY).prune(list(feeds), [tensors, operations]), list(feeds), wanted
            run = parts[key][0]
        with tf.init_scope():
            values, _ = run(*[tf.constant(value, feed.dtype) for feed, value in feeds.items()])
        given = iter([value.numpy() for value in values])
        return [next(given) if isinstance(one, tf.Tensor) else None for one in wanted]


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
