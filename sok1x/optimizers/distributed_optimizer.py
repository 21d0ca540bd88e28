"""Any optimizer, with dense gradients averaged over the ranks."""
import contextlib
import numbers
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import function_marks
from sok1x.core.frameworks import keras3, loss_scaling, newer_optimizers
from sok1x.core.options.given_numbers import is_number
from sok1x.core.thread_scope import followed
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, V2, Variable
from sok1x.graph_ops.operations import embedding
from sok1x.optimizers import branched_steps, clipping, gradients, keras_clips, summed_before, unfit
from sok1x.optimizers.distinct_rows import KnowsDistinctRows
from sok1x.optimizers.slots_of_tables import SlotsOfTables
from sok1x.optimizers.wrapper import OptimizerWrapper

_prepared = followed()  # its value is the optimizer whose gradients are


def DistributedOptimizer(optimizer: Any, average: bool = True, clip_norm: Any = None) -> Any:
    """The same optimizer, averaging dense variables' gradients over all ranks before it applies them.

    Gradients of embedding variables are summed over the ranks by the layers and complete on the rank that owns the
    rows: they are left alone, and applied without making their indices distinct once more. Dense ones travel over
    Horovod where it is imported and initialized when the gradients are built, else over sok1x's own communicator.
    tf.train's optimizers average in `compute_gradients`, tf.keras' where they compute gradients too (`get_gradients`,
    `minimize`, `get_updates`), so clipping after it sees averages; `apply_gradients` averages what did not come that
    way, for instance from `tf.gradients`.

    Those of tf.train that must know how many rows a table has, as FtrlOptimizer, train tables that grow here.

    Clipping by norms must know of all ranks' rows: `clip_norm` here, `sok1x.clip_by_global_norm` between
    `compute_gradients` and `apply_gradients`, and `clipnorm` of a tf.keras optimizer inside this one do.
    `tf.clip_by_global_norm` over a table's gradient is refused on several ranks.

    Args:
        optimizer: of tf.train, tf.contrib.opt or tf.keras.optimizers.
        average: True averages; False sums, which is the gradient of the whole batch where the loss already divides
            by the global batch.
        clip_norm: the largest norm of all gradients of a step together, as of `sok1x.clip_by_global_norm`, by which
            `apply_gradients` clips: a number above 0, or a scalar float32 tensor of shape []. None: no clipping.

    Returns:
        An optimizer of a subclass of the given one's class. The two share their state: slots, hyperparameters and
        configuration are the same.

    Raises:
        TypeError: optimizer is none, or one that Horovod, `OptimizerWrapper` or this function has made; or clip_norm
            is no number.
        ValueError: clip_norm is 0 or less.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
        ...     step = optimizer.minimize(tf.reduce_sum(weights))
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(step)
        ...     session.run(weights).tolist()
        [0.5, 1.5]
    """
    newer_optimizers.watch()
    loss_scaling.watch()
    branched_steps.watch()
    function_marks.watch()
    base = type(optimizer)
    if isinstance(optimizer, _Distributed):
        raise TypeError("DistributedOptimizer: got an optimizer that it has made already, expected a plain one")
    if isinstance(optimizer, OptimizerWrapper):
        raise TypeError("DistributedOptimizer: got an OptimizerWrapper, expected the optimizer that it was made of, or "
                        "the other way round: sok1x.OptimizerWrapper(sok1x.DistributedOptimizer(optimizer))")
    if _of_horovod(base):
        raise TypeError("DistributedOptimizer: got Horovod's DistributedOptimizer, expected a plain optimizer: this "
                        "one averages dense gradients, over Horovod if that is initialized, and leaves tables alone")
    if isinstance(clip_norm, np.ndarray) and clip_norm.shape == ():
        clip_norm = clip_norm[()]
    if clip_norm is not None and not is_number(clip_norm) and not isinstance(clip_norm, (tf.Tensor, Variable)):
        raise TypeError("DistributedOptimizer: clip_norm: got {!r} of type {}, expected a number, a scalar tensor or "
                        "None".format(clip_norm, type(clip_norm).__name__))
    if isinstance(clip_norm, numbers.Real) and not float(clip_norm) > 0:
        raise ValueError("DistributedOptimizer: clip_norm: got {}, expected a number above 0".format(clip_norm))
    if isinstance(optimizer, tf.train.Optimizer):
        mixin: type = _DistributedTrain
    elif isinstance(optimizer, KERAS_OPTIMIZERS):
        mixin = _DistributedKeras
    else:
        raise TypeError("DistributedOptimizer: got {!r} of type {}, expected an optimizer of tf.train or "
                        "tf.keras.optimizers{}".format(optimizer, base.__name__, keras3.hint(optimizer)))
    made: Any = object.__new__(_class(mixin, base, bool(average), clip_norm))
    object.__setattr__(made, "__dict__", optimizer.__dict__)
    return made


_classes: Dict[Tuple[type, type, bool, Any], type] = {}


def _class(mixin: type, base: type, average: bool, clip_norm: Any) -> type:
    """The class of the made optimizers. It has their arguments, so that what Keras makes by `from_config` has them too.

    It keeps the optimizer's name, which Keras writes into configurations.
    """
    key = mixin, base, average, clip_norm
    known = clip_norm is None or isinstance(clip_norm, numbers.Real)  # not a tensor, which has a graph
    made = _classes.get(key) if known else None
    if made is None:
        made = type(base.__name__, (mixin, base), {
            "__module__": base.__module__, "__doc__": base.__doc__, "_sok1x_average": average,
            "_sok1x_clip_norm": clip_norm})
        if known:
            _classes[key] = made
    return made


def _of_horovod(base: type) -> bool:
    return any(each.__module__.split(".")[0] == "horovod" for each in base.__mro__)


def prepare(optimizer: Any, grads_and_vars: Any) -> List[Tuple[Any, Any]]:
    """What a `DistributedOptimizer` applies, given gradients of any kind: averaged, and clipped if it is to clip.

    Args:
        optimizer: made by `DistributedOptimizer`.
        grads_and_vars: pairs (gradient, variable): float tensors of the variable's shape, tf.IndexedSlices, or None.

    Returns:
        The pairs, for `apply_prepared`.

    Raises:
        TypeError: a gradient of another dtype, an optimizer that Horovod has made anew, or one of tf.contrib.opt that
            has no step for tables.
        ValueError: as for `gradients.average`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.optimizers import distributed_optimizer
        >>> with tf.Graph().as_default():
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5), clip_norm=1.0)
        ...     pairs = distributed_optimizer.prepare(optimizer, [(tf.constant([3.0, 4.0]), weights)])
        ...     step = distributed_optimizer.apply_prepared(optimizer, pairs)
    """
    pairs = list(grads_and_vars)
    unfit.refuse_tables(optimizer, pairs)
    summed_before.refuse(optimizer, pairs)
    pairs = gradients.average(pairs, optimizer._sok1x_averages())
    if optimizer._sok1x_clip_norm is not None and any(gradient is not None for gradient, _ in pairs):
        found, variables = zip(*pairs)
        clipped, _ = clipping.clip_by_global_norm(found, optimizer._sok1x_clip_norm, variables=variables)
        pairs = list(zip(clipped, variables))
    return pairs


def apply_prepared(optimizer: Any, pairs: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies what `prepare` gave, as it is.

    Args:
        optimizer: made by `DistributedOptimizer`.
        pairs: what `prepare` gave.
        *args: as for the optimizer's own `apply_gradients`.
        **kwargs: likewise.

    Returns:
        As the optimizer's own `apply_gradients`.

    Raises:
        ValueError: no variable has a gradient.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.optimizers import distributed_optimizer
        >>> with tf.Graph().as_default():
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
        ...     step = distributed_optimizer.apply_prepared(optimizer, [(tf.constant([3.0, 4.0]), weights)])
    """
    return super(_Distributed, optimizer).apply_gradients(pairs, *args, **kwargs)


@contextlib.contextmanager
def prepared(optimizer: Any, grads_and_vars: Any) -> Iterator[List[Tuple[Any, Any]]]:
    """Inside, in all threads of a step, a Keras optimizer's `apply_gradients` has nothing left to communicate.

    Args:
        optimizer: of tf.keras.optimizers, made by `DistributedOptimizer`.
        grads_and_vars: as for `prepare`.

    Yields:
        The pairs as they are to be applied: averaged, and clipped by all limits that the optimizer has.

    Raises:
        TypeError: as for `prepare`.
        ValueError: likewise.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.optimizers import distributed_optimizer
        >>> with tf.Graph().as_default():
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0], use_resource=True)
        ...     optimizer = sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.5))
        ...     with distributed_optimizer.prepared(optimizer, [(tf.constant([3.0, 4.0]), weights)]) as pairs:
        ...         step = optimizer.apply_gradients(pairs)
    """
    pairs = prepare(optimizer, grads_and_vars)
    with keras_clips.lifted(optimizer) as clip:
        pairs = clip(pairs)
        with _prepared.entered(optimizer):
            yield pairs


class _Distributed(KnowsDistinctRows):
    """What the made classes have in common; they derive from this and from the optimizer's own class."""

    _sok1x_average: bool
    _sok1x_clip_norm: Any

    def _sok1x_averages(self) -> bool:
        if _of_horovod(type(self)):
            raise TypeError("DistributedOptimizer: got an optimizer of its class that was made anew by Horovod's "
                            "DistributedOptimizer; call sok1x.DistributedOptimizer, on a plain optimizer, and no other")
        return self._sok1x_average

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own, with what is not averaged yet averaged, and clipped if `clip_norm` was given."""
        if _prepared.value is self:
            return apply_prepared(self, grads_and_vars, *args, **kwargs)
        return apply_prepared(self, prepare(self, grads_and_vars), *args, **kwargs)


class _DistributedTrain(SlotsOfTables, _Distributed):
    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own, averaged."""
        return summed_before.given(self, gradients.average(
            super().compute_gradients(*args, **kwargs), self._sok1x_averages(), new=True))  # type: ignore[misc]


class _DistributedKeras(_Distributed):
    def get_gradients(self, loss: Any, params: Any) -> Any:
        """As the optimizer's own, averaged; and clipped by its clipnorm and clipvalue where those clip here."""
        with keras_clips.lifted(self) as clip:
            found = super().get_gradients(loss, params)  # type: ignore[misc]
        variables = tf.nest.flatten(params)
        return [gradient for gradient, _ in self._sok1x_computed(zip(found, variables), clip)]

    def _compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        with keras_clips.lifted(self) as clip:
            pairs = super()._compute_gradients(*args, **kwargs)  # type: ignore[misc]
        return self._sok1x_computed(pairs, clip)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As the newer optimizers' own, averaged."""
        return summed_before.given(self, gradients.average(
            super().compute_gradients(*args, **kwargs), self._sok1x_averages(), new=True))  # type: ignore[misc]

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own, with what is not averaged yet averaged, and clipped by all ranks' norms."""
        if _prepared.value is self:
            return apply_prepared(self, grads_and_vars, *args, **kwargs)
        pairs = prepare(self, grads_and_vars)
        if not V2:  # which clips where it computes gradients
            return apply_prepared(self, pairs, *args, **kwargs)
        with keras_clips.lifted(self) as clip:
            return apply_prepared(self, clip(pairs), *args, **kwargs)

    def _deduplicate_sparse_grad(self, grads: Any) -> Any:
        """What the newer optimizers do: a lookup's gradient has distinct indices, which are left as they are."""
        made = iter(super()._deduplicate_sparse_grad([  # type: ignore[misc]
            gradient for gradient in grads if not _is_lookups(gradient)]))
        return [gradient if _is_lookups(gradient) else next(made) for gradient in grads]

    def _sok1x_computed(self, pairs: Any, clip: Any) -> Any:
        averaged = summed_before.given(self, gradients.average(pairs, self._sok1x_averages(), new=True))
        return averaged if V2 else clip(averaged)


def _is_lookups(gradient: Any) -> bool:
    return isinstance(gradient, tf.IndexedSlices) and embedding.looked_up(gradient.indices) is not None
