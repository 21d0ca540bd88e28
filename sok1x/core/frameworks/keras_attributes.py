"""Tables that are attributes of Keras' layers and models: all of a table is among the weights there.

Of what is given as an attribute, or in a list or a dict that is one, Keras takes the variables for weights: of a table
its rows. What lies beside them says whose they are. So that is among the weights too, after the rows, in the order and
of the kind that it has in the layers of sok1x: what `get_weights` gives, and the early stopping that restores the best
weights keeps, is then a whole table, and `set_weights` puts it back with its keys.

Inside `only_rows` a layer is given the rows, and nothing more is among its weights.

What incremental dumps have noted of the table before is void from then on, as when a checkpoint is restored.
"""
import contextlib
from typing import Any, Callable, Iterable, Iterator, List

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.eagerly import eager
from sok1x.core.frameworks import free_slot_rows, weights_owner, wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import (
    KERAS_LAYERS,
    KERAS_LOADERS,
    V2,
    keras_backend,
    resource_variable_ops,
)
from sok1x.graph_ops.bridge.tensorflow_versions import keras_base_layer as base_layer
from sok1x.graph_ops.stores.step_at import time_of_restore

only_rows = ThreadScope()
_ROWS = "_sok1x_keras_rows"  # of a table in a graph: see `_rows_of`


def watch() -> None:
    """From now on Keras' layers and models have all of a table among their weights.

    Example:
        >>> from sok1x.core.frameworks import keras_attributes
        >>> keras_attributes.watch()
    """
    for kind in KERAS_LAYERS:
        wrapping.wrap(kind, "__delattr__", _deleting)
    wrapping.wrap(KERAS_LAYERS[-1], "__setattr__", _attribute_set)  # that of graphs
    wrapping.wrap(keras_backend, "batch_get_value", _getting)
    wrapping.wrap(keras_backend, "batch_set_value", _setting)
    if not V2:
        return
    wrapping.wrap(base_layer.Layer, "_track_variable", _tracking)
    wrapping.wrap(base_layer.Layer, "_update_trackables", _updating)
    wrapping.wrap(base_layer.Layer, "load_own_variables", _loading)
    for module, _ in KERAS_LOADERS:
        if hasattr(module, "save_subset_weights_to_hdf5_group"):
            wrapping.wrap(module, "save_subset_weights_to_hdf5_group", _writing)
    for model in tf.keras.Sequential.__mro__:
        if "_assert_weights_created" in vars(model):
            wrapping.wrap(model, "_assert_weights_created", _updating)


def _tracking(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of a layer that is given a variable, in whatever."""
    def track_variable(self: Any, val: Any, position: Any = None) -> None:
        new = _is_table(val) and not _has(self, val)  # Keras gives what is in lists again and again
        stock(self, val, position=position)
        if new and only_rows.value is None:
            for one in beside(val):
                stock(self, one)
    return track_variable


def _attribute_set(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of a layer that is given an attribute, in a graph: there Keras does not see what a list gets later."""
    def set_attribute(self: Any, name: str, value: Any) -> None:
        stock(self, name, value)
        for table in _given(value) if only_rows.value is None else ():
            if not _has(self, table):
                continue  # Keras' own lists, as `compile` makes one, are none that it tracks
            for one in beside(table):
                if not _has(self, one):
                    self._non_trainable_weights.append(one)
                    keras_backend.track_variable(one)
    return set_attribute


def _has(layer: Any, weight: Any) -> bool:
    """Whether a variable is among a layer's own weights."""
    own = [*getattr(layer, "_trainable_weights", ()), *getattr(layer, "_non_trainable_weights", ())]
    return any(weight is one for one in own)


def _given(value: Any) -> Iterator[Any]:
    """Tables in a value, in lists and dicts, too."""
    if _is_table(value):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _given(one)


def _deleting(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of a layer whose attribute goes, or gets another value: Keras then drops a variable that it was."""
    def delete(self: Any, name: str) -> None:
        gone = vars(self).get(name)
        stock(self, name)
        if _is_table(gone) and not _has(self, gone):
            others = {id(one) for one in beside(gone)}
            self._non_trainable_weights[:] = [one for one in self._non_trainable_weights if id(one) not in others]
    return delete


def _updating(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what Keras calls before it says which weights there are: a list may have got another table meanwhile."""
    def update(self: Any) -> None:
        stock(self)
        for table in _within(vars(self).get("_self_tracked_trackables") or ()):
            self._track_variable(table)
    return update


def _within(tracked: Iterable[Any]) -> Iterator[Any]:
    """Tables in Keras' containers, and in modules that are no layers, which give no more than variables."""
    for one in tracked:
        if _is_table(one):
            yield one
        elif isinstance(one, tf.compat.v2.__internal__.tracking.TrackableDataStructure):
            yield from _within(one._values)
        elif isinstance(one, tf.Module) and not isinstance(one, base_layer.Layer):
            yield from filter(_is_table, one.variables)


def _loading(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what .keras and .weights.h5 files have of a layer."""
    def load_own_variables(self: Any, store: Any) -> None:
        weights = self._trainable_weights + self._non_trainable_weights
        with _replaced(weights):
            stock(self, store)
        free_slot_rows.begin_anew(weights)
    return load_own_variables


def _getting(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what `get_weights` gives."""
    def batch_get_value(tensors: Any) -> Any:
        variables = list(tensors)
        return weights_owner.noted(filter(_is_table, variables), variables, stock(variables))
    return batch_get_value


def _setting(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what `set_weights` and .h5 files give."""
    def batch_set_value(tuples: Any) -> None:
        pairs = list(tuples)
        pairs = weights_owner.expect_own([variable for variable, _ in pairs if _is_table(variable)], pairs)
        replaced = [variable for variable, _ in pairs]
        with _replaced(replaced):
            for some in _rows_last(pairs):
                stock(some)
        free_slot_rows.begin_anew(replaced)
    return batch_set_value


def _rows_last(pairs: List[Any]) -> List[List[Any]]:
    """What is assigned, in two parts: all at once might have rows come before the keys that say whose they are.

    Rows that do not fit come first, and are refused before anything is assigned. Of no keys there are none to assign,
    but where new keys begin with what the variable has.
    """
    given = {id(variable): value for variable, value in pairs}
    rows, unfit, rest = [], [], []
    for variable, value in pairs:
        count = given.get(id(variable.index[-1])) if _is_table(variable) else None
        if count is None:
            rest.append((variable, value))
        elif np.shape(value)[0] != _number_of_rows(variable):
            unfit.append((variable, value))
        elif int(count) > 0 or variable.table.by_row:
            rows.append((variable, value))
    return [some for some in (unfit, rest, rows) if some]


def _number_of_rows(variable: Any) -> int:
    if tf.executing_eagerly():
        return int(resource_variable_ops.variable_shape(variable.handle)[0])
    return int(keras_backend.get_session().run(_rows_of(variable)))


def _rows_of(variable: Any) -> tf.Tensor:
    """How many rows a graph's table has, int64 []: made once, as what Keras itself makes to assign a variable."""
    if not hasattr(variable, _ROWS):
        with variable.graph.as_default():
            setattr(variable, _ROWS, resource_variable_ops.variable_shape(variable.handle, tf.int64)[0])
    return getattr(variable, _ROWS)


class _Named:
    """What an .h5 file has of a variable: its value, and a name that no other has."""

    def __init__(self, variable: Any, name: str) -> None:
        self.numpy, self.name = variable.numpy, name


def _writing(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of an .h5 file, where a layer may have several tables: what lies beside each is called alike eagerly."""
    def save(f: Any, weights: Any) -> None:
        tables = [one for one in weights if tf.executing_eagerly() and _is_table(one)]
        named = {id(one): _Named(one, "{}/{}".format(table.table.name, one.name))
                 for table in tables for one in beside(table)}
        stock(f, [named.get(id(one), one) for one in weights])
    return save


@contextlib.contextmanager
def _replaced(variables: List[Any]) -> Iterator[None]:
    """Inside, variables get other values; those among them that are tables, with their clocks, then are others."""
    known = {id(one) for one in variables}
    tables = [one for one in variables if _is_table(one) and id(one.steps) in known]
    if tf.executing_eagerly():
        with _each_replaced(tables):
            yield
        return
    if not tables or launch.current() is None:  # nothing has been noted by then
        yield
        return
    session = keras_backend.get_session()
    clocks = session.run([table.steps for table in tables])
    try:
        yield
    finally:
        session.run([table.step_at[1] for table in tables], {
            table.step_at[0]: time_of_restore(int(clock)) for table, clock in zip(tables, clocks)})


@contextlib.contextmanager
def _each_replaced(tables: List[Any]) -> Iterator[None]:
    """Eagerly, where each has ops of its own."""
    clocks = [int(table.steps.read_value()) for table in tables]
    try:
        yield
    finally:  # who is refused half-way has replaced some
        for table, clock in zip(tables, clocks):
            time, step = table.step_at
            eager.session().run(step, {time: time_of_restore(clock)})


def _is_table(one: Any) -> bool:
    """Whether it is the rows of a table that has keys; of one without, rows are all there is to know."""
    return hasattr(one, "table_variables") and bool(one.index)


def beside(table: Any) -> List[Any]:
    """The variables of a table that are not its rows.

    Args:
        table: a `sok.Variable` or `sok.DynamicVariable`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import keras_attributes
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     [one.op.name for one in keras_attributes.beside(sok.Variable([[1.0], [2.0]], name="ads"))]
        ['ads/stamps', 'ads/steps']
    """
    return [*table.index, table.stamps, table.steps, *table.forgetting.values()]
