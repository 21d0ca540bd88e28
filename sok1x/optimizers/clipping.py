"""Clipping by norms that are those of the whole gradient: of all ranks' rows, and of dense variables once."""
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.gradients import provenance, shard_gradients
from sok1x.graph_ops.operations import collectives, embedding, segments


def clip_by_global_norm(t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: Optional[str] = None,
                        variables: Optional[Sequence[Any]] = None) -> Tuple[List[Any], tf.Tensor]:
    """`tf.clip_by_global_norm` for models with tables: by the norm over all ranks' rows.

    A table's gradient is on each rank that of its own rows, so TensorFlow's function finds another norm on each rank,
    scales the dense gradients differently, and lets the replicas of dense variables drift apart. Here the squared norms
    of tables' gradients are added over the ranks, each row once; those of dense gradients, which must be averaged (or
    summed) over the ranks before, count once. The norm is equal on all ranks, bit for bit: all ranks take part in it,
    also where all gradients are dense. So all must run it in the same steps, as they must a lookup; a rank that runs it
    alone, as in a summary, waits for the others.

    Where one optimizer has all variables, `sok1x.DistributedOptimizer(optimizer, clip_norm=...)` does it by itself.

    Args:
        t_list: gradients: float16, float32 or float64 tensors of any shape, tf.IndexedSlices with values [u, D], or
            None.
        clip_norm: the largest norm: a number or a scalar float tensor of shape [].
        use_norm: the norm, if it is known already, as by `global_norm`: a scalar float tensor of shape [].
        name: of the ops.
        variables: the gradients' variables, in the same order. They need not be given, unless a table's gradient has
            been made by hand: what comes from a lookup is known.

    Returns:
        (clipped gradients, norm): a list like t_list, and a scalar tensor, float64 if all gradients are, else float32.
        If the norm is Inf or NaN, all clipped gradients are NaN, as with TensorFlow's function.

    Raises:
        TypeError: t_list is no list or tuple.
        ValueError: there is no gradient in it, or there are more or fewer variables; or, on several ranks, one of a
            dense variable that is not averaged yet, or a use_norm of this rank's rows alone.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
        ...     gradients, variables = zip(*optimizer.compute_gradients(tf.reduce_sum(weights * [3.0, 4.0])))
        ...     clipped, norm = sok.clip_by_global_norm(gradients, 2.5)
        ...     step = optimizer.apply_gradients(zip(clipped, variables))
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run([norm] + clipped)[0], session.run(clipped)[0].tolist()
        (5.0, [1.5, 2.0])
    """
    if use_norm is None:
        use_norm = _norm("clip_by_global_norm", t_list, name, variables)
    else:
        use_norm = tf.convert_to_tensor(use_norm)
        if provenance.ranks() > 1 and provenance.scaled_by(use_norm).scaled_by_table:
            raise ValueError(
                "clip_by_global_norm: use_norm: got '{}', which is computed from this rank's rows of a table and so is "
                "another number on each rank, expected a norm over all ranks; take sok1x.global_norm, or leave "
                "use_norm out".format(_name(use_norm)))
    gradients = [None if each is None else _values(each) for each in _checked("clip_by_global_norm", t_list)]
    clipped: List[Any] = [None] * len(gradients)
    for dtype in sorted({each.dtype for each in gradients if each is not None}, key=lambda dtype: dtype.name):
        # Of a float16 the norm may not be one; the sums were not made in it either.
        wide = tf.float32 if dtype == tf.float16 else dtype
        places = [i for i, each in enumerate(gradients) if each is not None and each.dtype == dtype]
        limit = clip_norm if isinstance(clip_norm, (int, float)) else tf.cast(clip_norm, wide)
        scaled, _ = tf.clip_by_global_norm([tf.cast(gradients[i], wide) for i in places], limit,
                                           use_norm=tf.cast(use_norm, wide), name=name)
        for i, each in zip(places, scaled):
            clipped[i] = tf.cast(each, dtype)
    for gradient, values in zip(gradients, clipped):
        if gradient is not None:
            shard_gradients.keep_marks(gradient, values)
    return [shard_gradients.with_values(gradient, values) for gradient, values in zip(t_list, clipped)], use_norm


def global_norm(t_list: Sequence[Any], name: Optional[str] = None,
                variables: Optional[Sequence[Any]] = None) -> tf.Tensor:
    """`tf.global_norm` for models with tables: of all ranks' rows, and of dense gradients once.

    All ranks take part in it, also where all gradients are dense: all must run it in the same steps, as they must a
    lookup. A rank that runs it alone, as in a summary, waits for the others.

    Args:
        t_list: gradients, as for `clip_by_global_norm`: float tensors of any shape, tf.IndexedSlices, or None.
        name: of the ops.
        variables: the gradients' variables, in the same order; need not be given.

    Returns:
        A scalar tensor, float64 if all gradients are, else float32; equal on all ranks bit for bit.

    Raises:
        TypeError: t_list is no list or tuple.
        ValueError: there is no gradient in it, or there are more or fewer variables; or, on several ranks, one of a
            dense variable that is not averaged yet.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
        ...     loss = tf.reduce_sum(layer(tf.constant([[[7]], [[7]]], tf.int64)))
        ...     norm = sok.global_norm(tf.gradients(loss, [layer.embedding_variable]))
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(norm)
        4.0
    """
    return _norm("global_norm", t_list, name, variables)


def norm_of_sums(t_list: Sequence[Any]) -> tf.Tensor:
    """`global_norm`, of dense variables' tf.IndexedSlices, too, as of dense gradients: a row counts as the sum of its
    slices, of which averaged ones have some of each rank.

    Args:
        t_list: as for `global_norm`.

    Returns:
        As `global_norm`.

    Raises:
        TypeError, ValueError: as `global_norm` does.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.optimizers import clipping
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     rows = tf.get_variable("rows", [3, 1], use_resource=True)
        ...     found = tf.gradients(tf.reduce_sum(tf.gather(rows, [1, 2, 1])), [rows])
        ...     norm = clipping.norm_of_sums(found)
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     round(float(session.run(norm)) ** 2, 4)
        5.0
    """
    return _norm("global_norm", t_list, None, None, of_sums=True)


def _norm(function: str, t_list: Sequence[Any], name: Optional[str], variables: Optional[Sequence[Any]],
          of_sums: bool = False) -> tf.Tensor:
    gradients = _checked(function, t_list)
    if variables is not None and len(variables) != len(gradients):
        raise ValueError("{}: variables: got {} for {} gradients, expected as many".format(
            function, len(variables), len(gradients)))
    with tf.name_scope(name, "global_norm"):
        own: List[tf.Tensor] = []
        shared: List[tf.Tensor] = []
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                of_table = _is_of_table(function, i, gradient, None if variables is None else variables[i])
                (own if of_table else shared).append(_squared_norm(gradient, of_table or of_sums))
        dtype = tf.float64 if all(each.dtype == tf.float64 for each in own + shared) else tf.float32
        sums = [tf.add_n([tf.cast(each, tf.float64) for each in part]) if part else None for part in (own, shared)]
        # Sums of equal numbers may differ in their last bit, as where ranks have other numbers of threads: on several
        # ranks all take that of one.
        if own or provenance.ranks() > 1:
            total = tf.reduce_sum(collectives.squared_norms(*[[] if one is None else [one] for one in sums]))
        else:
            total = sums[1]
        # As TensorFlow's sum, it is Inf if it has no place in this dtype.
        return tf.sqrt(tf.cast(total, dtype), name="norm")


def clip_by_norms(pairs: Sequence[Tuple[Any, Any]], clip_norm: float) -> List[Tuple[Any, Any]]:
    """Clips each variable's gradient by its own norm, a table's by that of all ranks' rows: Keras' `clipnorm`.

    Args:
        pairs: (gradient, variable): averaged float tensors of the variable's shape, tf.IndexedSlices, or None.
        clip_norm: the largest norm of each.

    Returns:
        The pairs with clipped gradients.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import clipping
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     (clipped, _), = clipping.clip_by_norms([(tf.constant([3.0, 4.0]), weights)], 2.5)
        ...     session.run(clipped).tolist()
        [1.5, 2.0]
    """
    pairs = list(pairs)
    places = [i for i, (gradient, _) in enumerate(pairs) if gradient is not None]
    tables = [i for i in places if isinstance(pairs[i][1], ShardVariable)]
    dense = [i for i in places if i not in tables]
    if provenance.ranks() == 1:
        for i in dense:
            pairs[i] = tf.clip_by_norm(pairs[i][0], clip_norm), pairs[i][1]
        dense = []
    squared = [[_squared_norm(pairs[i][0], part is tables) for i in part] for part in (tables, dense)]
    norms = tf.unstack(collectives.squared_norms(*squared)) if tables or dense else []
    for i, norm in zip(tables + dense, norms):
        gradient, variable = pairs[i]
        values = _values(gradient)
        norm = tf.sqrt(tf.cast(norm, tf.float64 if values.dtype == tf.float64 else tf.float32))
        # Not by the norm's inverse: a gradient of zeros stays what it is.
        factor = tf.cast(clip_norm / tf.maximum(norm, clip_norm), values.dtype)
        clipped = values * factor
        shard_gradients.keep_marks(values, clipped)  # the norm is all ranks'
        pairs[i] = shard_gradients.with_values(gradient, clipped), variable
    return pairs


def clip_by_values(pairs: Sequence[Tuple[Any, Any]], limit: float) -> List[Tuple[Any, Any]]:
    """Clips each number of a gradient: Keras' `clipvalue`. Of a table that several lookups have, numbers of their sum.

    Args:
        pairs: as for `clip_by_norms`.
        limit: the largest size of a number.

    Returns:
        The pairs with clipped gradients.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import clipping
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     (clipped, _), = clipping.clip_by_values([(tf.constant([3.0, -4.0]), weights)], 2.5)
        ...     session.run(clipped).tolist()
        [2.5, -2.5]
    """
    made = []
    for gradient, variable in pairs:
        if isinstance(variable, ShardVariable):
            gradient = _of_distinct_rows(gradient)
        if gradient is not None:
            clipped = tf.clip_by_value(gradient, -limit, limit)
            shard_gradients.keep_marks(_values(gradient), _values(clipped))  # limits are all ranks'
            gradient = clipped
        made.append((gradient, variable))
    return made


def _checked(function: str, t_list: Any) -> List[Any]:
    if not isinstance(t_list, (list, tuple)):
        raise TypeError("{}: t_list: got {!r} of type {}, expected a list or tuple".format(
            function, t_list, type(t_list).__name__))
    if all(each is None for each in t_list):
        raise ValueError("{}: t_list: got {}, expected at least one gradient".format(function, list(t_list)))
    return [each if each is None or isinstance(each, tf.IndexedSlices) else tf.convert_to_tensor(each)
            for each in t_list]


def _is_of_table(function: str, place: int, gradient: Any, variable: Any) -> bool:
    """Whether a gradient is that of this rank's rows of a table; else it has been averaged."""
    found = provenance.standing(gradient)
    if isinstance(variable, ShardVariable) or variable is None and found.tables and not found.exchanged:
        return True
    if provenance.ranks() > 1 and (found.own or not found.exchanged):
        raise ValueError(
            "{}: got a gradient ('{}', at position {} of t_list{}) that is not averaged over the "
            "ranks, whose norm differs from rank to rank; take gradients from sok1x.DistributedOptimizer's "
            "compute_gradients, which averages them, from hvd.allreduce, or, in eager execution, from "
            "hvd.DistributedGradientTape; or have sok1x.DistributedOptimizer(..., clip_norm=...) clip".format(
                function, _name(_values(gradient)), place,
                "" if variable is None else ", of variable '{}'".format(variable.name)))
    return False


def _squared_norm(gradient: Any, of_sums: bool) -> tf.Tensor:
    """The sum of squares, float32 or float64 []; of_sums: of the sum that each row has."""
    values = _values(_of_distinct_rows(gradient) if of_sums else gradient)
    with tf_ops.colocate_with(values):
        return 2 * tf.nn.l2_loss(tf.cast(values, tf.float32) if values.dtype == tf.float16 else values)


def _of_distinct_rows(gradient: Any) -> Any:
    """A table's gradient, in which a row that occurs twice, in two lookups, has their sum, as in TensorFlow's dense
    gradient."""
    if not isinstance(gradient, tf.IndexedSlices) or embedding.looked_up(gradient.indices) is not None:
        return gradient
    return tf.IndexedSlices(*segments.sums_by_index(gradient.values, gradient.indices), gradient.dense_shape)


def _values(gradient: Any) -> tf.Tensor:
    return tf.convert_to_tensor(shard_gradients.values_of(gradient))


def _name(tensor: Any) -> str:
    return str(tensor.name) if hasattr(tensor, "graph") else "an eager tensor"
