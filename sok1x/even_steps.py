"""Data of different length on the ranks: those that have no batch left get empty ones until all have none."""
from typing import Any, Iterator, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly.even_batches import EvenBatches
from sok1x.graph_ops.bridge.tensorflow_versions import V2, dataset_ops
from sok1x.graph_ops.operations import empty_batch, even_steps


class EvenSteps:
    """A dataset's batches, with as many steps on all ranks as the one with the most batches has.

    Every rank must run the same steps, for each exchanges rows with all others. In each step the ranks tell each other
    whether they have a batch (one small message; nothing on one rank). Those that have none left get an empty one: 0
    in the first dimension, all other dimensions, dtypes and the structure as ever, also in strings, SparseTensors and
    RaggedTensors. Where no rank has one, the step ends on all of them with `tf.errors.OutOfRangeError`, as a dataset
    on one rank does: a loop catches it, `MonitoredTrainingSession` and estimators end by it in good order.

    On all ranks make as many of these, in the same order, of batches of the same dtypes. A rank may have no data at
    all. If one's dataset repeats for ever, so do the others' empty batches: end by a number of steps then.

    What a model makes of an empty batch: sums over its samples and their gradients are 0, so a loss that is a sum over
    samples, divided by the samples of all ranks (`samples`, or a fixed global batch size), trains as one rank that sees
    all samples would; `sok.DistributedOptimizer(..., average=False)` then sums the dense gradients. `tf.losses` give 0.
    But `tf.reduce_mean` over no samples is NaN: in the loss that is shown, on which an estimator stops, though not in
    its gradient, which is 0. And batch normalization is no longer of use: it takes NaN into its moving averages and
    gradients, so drop the rest of the data there instead.

    With `tf.Session` run `initializer` before each epoch. `MonitoredTrainingSession` and estimators run it themselves;
    an estimator's input_fn is `lambda: sok.EvenSteps(make_dataset()).get_next()`. In graph mode `tf.keras.Model.fit`
    takes the tensors of `get_next`, as `tf.keras.Input(tensor=...)` and `target_tensors`, with any `steps_per_epoch`:
    where the steps end it stops training, with a warning. Batches that Python makes come by
    `tf.data.Dataset.from_generator`.

    Eagerly, on TensorFlow 2, it is gone through by a `for` loop, once an epoch, which ends on all ranks after the same
    step; `samples` is that of the batch that was taken last. All ranks leave the loop early, or none does. A
    `tf.function` that is called in the loop is traced once more for an empty batch, unless its `input_signature` has
    None for the first dimension.

    Args:
        source: a tf.data.Dataset of batches, shapes [B, ...] of any dtypes; or an iterator of one, which its maker
            initializes. It may differ in length between ranks, and be empty. Eagerly an iterator is gone through once,
            from where it is.
        name: of the ops.

    Raises:
        TypeError: source is neither, or has parts that are no tensors.
        ValueError: a part of a batch has no first dimension, or an unknown number of dimensions; the place is a
            function's body, or a branch or loop; or eager execution on TensorFlow 1.15.
        tf.errors.OutOfRangeError: (when run) no rank has another batch.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     steps = sok.EvenSteps(tf.data.Dataset.range(5).batch(2))  # another number on each rank
        ...     values = steps.get_next()
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     for epoch in range(2):
        ...         session.run(steps.initializer)
        ...         while True:
        ...             try:
        ...                 print(*session.run([values, steps.samples]))
        ...             except tf.errors.OutOfRangeError:
        ...                 break
        [0 1] 2
        [2 3] 2
        [4] 1
        [0 1] 2
        [2 3] 2
        [4] 1
    """

    def __init__(self, source: Any, name: str = "EvenSteps") -> None:
        self._taken = False
        self._eager: Optional[EvenBatches] = None
        _check_place()
        ours = isinstance(source, dataset_ops.DatasetV2)
        iterators = tf.compat.v2.data.Iterator if tf.executing_eagerly() else tf.data.Iterator
        if not ours and not isinstance(source, iterators):
            raise TypeError("sok1x.EvenSteps: got {!r} of type {}, expected a tf.data.Dataset or an iterator of "
                            "one".format(source, type(source).__name__))
        if tf.executing_eagerly():
            self._eager = EvenBatches(source)
            return
        # Batches come in host memory, but for those of an iterator that somebody has placed on a GPU.
        on_gpu = not ours and "GPU" in source._iterator_resource.device.upper()
        with tf.name_scope(name), tf.device("" if on_gpu else "/cpu:0"):
            self._iterator = tf.data.make_initializable_iterator(source) if ours else source
            self._build()
        if ours:  # as estimators do with a dataset: MonitoredTrainingSession runs these
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, self._iterator.initializer)

    def _build(self) -> None:
        structure = self._iterator.element_spec
        specs = empty_batch.specs(structure)
        flat_specs = tf.nest.flatten(specs)
        following = tf.data.experimental.get_next_as_optional(self._iterator)
        has = following.has_value()
        tensors = tf.cond(
            has, lambda: _parts(following.get_value()),
            lambda: _parts([empty_batch.empty(spec) for spec in flat_specs]), strict=True)
        batch = _packed(flat_specs, tensors)
        totals = even_steps.exchange(has, batch, even_steps.label(flat_specs))
        with tf.control_dependencies([totals]):
            batch = _packed(flat_specs, [tf.identity(tensor) for tensor in tensors])
        self._batch = tf.nest.pack_sequence_as(specs, batch)
        self._samples = _samples(totals, flat_specs)

    def __iter__(self) -> Iterator[Any]:
        """Eagerly, an epoch: as many batches on all ranks as the one with the most has.

        Returns:
            An iterator over batches in the dataset's structure.

        Raises:
            TypeError: in a graph, where `get_next` gives the batch of each step.
            RuntimeError: (at the first batch) in a function's body, which would go through the data when it is traced.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     steps = sok.EvenSteps(tf.data.Dataset.range(5).batch(2))
            >>> iter(steps)
            Traceback (most recent call last):
            ...
            TypeError: sok1x.EvenSteps: got a loop over one that is made in a graph, expected steps.get_next()
        """
        if self._eager is None:
            raise TypeError("sok1x.EvenSteps: got a loop over one that is made in a graph, expected steps.get_next()")
        return self._eager.epoch()

    def get_next(self) -> Any:
        """The batch of a step: to be called once.

        Returns:
            Tensors in the dataset's structure, of static shapes [None, ...].

        Raises:
            ValueError: eager execution; or it was called before. One batch a step is what all its users are to see, so
                keep the tensors; for another one in the same step, or elsewhere, make another EvenSteps of the
                iterator.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     dataset = tf.data.Dataset.from_tensor_slices(([[7], [9]], [0.0, 1.0])).batch(2)
            ...     keys, labels = sok.EvenSteps(dataset).get_next()
            >>> keys.shape.as_list(), labels.shape.as_list()
            ([None, 1], [None])
        """
        _refuse_eagerly(self._eager, "get_next")
        if self._taken:
            raise ValueError("sok1x.EvenSteps: got a second call of get_next, expected one: keep the tensors of the "
                             "first, or make another EvenSteps where each step is to take two batches")
        self._taken = True
        return self._batch

    @property
    def initializer(self) -> tf.Operation:
        """The op that begins an epoch: to be run on all ranks.

        Returns:
            The tf.Operation.

        Raises:
            ValueError: the source is an iterator that has no initializer of its own; or eager execution.
        """
        _refuse_eagerly(self._eager, "initializer")
        return self._iterator.initializer

    @property
    def samples(self) -> tf.Tensor:
        """How many samples all ranks have together in this step, for the loss to divide by; eagerly, in the step of the
        batch that was taken last: who takes batches ahead keeps it with each.

        Give it to a `tf.function` as an argument. A function that reads it in its body goes on reading that of the
        EvenSteps which it was traced with, where another has taken its name since, and is refused once the loop over
        that one is over.

        Summed over the ranks is the first dimension of the batch's dense and ragged tensors, which must be the same in
        all of them; of SparseTensors where there are no others. It comes with the batch and costs nothing.

        Returns:
            A scalar tensor, int64, at least 1 unless batches of the dataset itself are empty.

        Raises:
            ValueError: eagerly, before the first batch.
            tf.errors.InvalidArgumentError: (when run) the batch's tensors differ in their first dimension; or a
                function that reads it in its body is called where no loop over this EvenSteps is under way. With
                jit_compile=True it is an error too, of an op "EvenSteps_loop_is_over_or_dimensions_differ".

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     steps = sok.EvenSteps(tf.data.Dataset.from_tensor_slices([0.5, 1.5, 4.0]).batch(2))
            ...     loss = tf.reduce_sum(tf.square(steps.get_next())) / tf.cast(steps.samples, tf.float32)
            ...     _ = session.run(sok.Init(global_batch_size=2))
            ...     session.run(steps.initializer)
            ...     print(session.run(loss), session.run(loss))
            1.25 16.0
        """
        if self._eager is None:
            return self._samples
        if self._eager.totals is None:
            raise ValueError("sok1x.EvenSteps: samples: got no batch yet, expected it in the loop over the batches, as "
                             "each step has another number")
        if not tf.executing_eagerly():
            return self._eager.samples_in_function()
        return _samples(self._eager.totals, self._eager.specs)


def _refuse_eagerly(batches: Any, name: str) -> None:
    if batches is not None:
        raise ValueError("sok1x.EvenSteps: {}: got eager execution, expected a graph; eagerly each "
                         "`for batch in steps:` is an epoch".format(name))


def _check_place() -> None:
    if tf.executing_eagerly():
        if not V2:
            raise ValueError("sok1x.EvenSteps: got eager execution, expected a graph; call "
                             "tf.disable_eager_execution() or build under `with tf.Graph().as_default():`")
        return
    graph = tf.get_default_graph()
    if graph.building_function or graph._get_control_flow_context() is not None:
        raise ValueError("sok1x.EvenSteps: got a call inside a function's body, a tf.cond or a tf.while_loop, expected "
                         "one in the graph itself, where all ranks run it in each step; move the call out")


def _parts(values: Any) -> Any:
    return tf.nest.flatten(values, expand_composites=True)


def _packed(specs: Any, tensors: Any) -> Any:
    values = tf.nest.pack_sequence_as(specs, tensors, expand_composites=True)
    return [empty_batch.with_shape(value, spec) for value, spec in zip(values, specs)]


def _samples(totals: tf.Tensor, specs: Any) -> tf.Tensor:
    numbers = [totals[i] for i in even_steps.counted(specs)]
    if len(numbers) == 1:
        return tf.identity(numbers[0], name="samples")
    same = tf.debugging.assert_equal(tf.stack(numbers[1:]), numbers[0], message=even_steps.DIFFERENT)
    with tf.control_dependencies([same]):
        return tf.identity(numbers[0], name="samples")
