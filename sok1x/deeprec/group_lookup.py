"""DeepRec's group lookups: lists of variables and of ids, all in one call."""
import functools
import sys
from typing import Any, Callable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options.given_numbers import is_integer
from sok1x.deeprec.lookups import Lookup, lookup_many
from sok1x.embeddings.autograph import graph_code
from sok1x.lookup import all2all_dense_embedding

__all__ = ["group_embedding_lookup", "group_embedding_lookup_sparse"]

STRATEGIES = ("mod", "div")
_SPARSE, _DENSE = "deeprec.group_embedding_lookup_sparse", "deeprec.group_embedding_lookup"


def _in_either_order(lookup: Callable[..., List[tf.Tensor]]) -> Callable[..., List[tf.Tensor]]:
    """Has `lookup` take the older order's `"mod", sp_weights=weights`, of which Python says that it has them twice."""

    @functools.wraps(lookup)
    def looked_up(*arguments: Any, **named: Any) -> List[tf.Tensor]:
        if len(arguments) == 4 and "sp_weights" in named and "partition_strategy" not in named and (
                arguments[3] is None or isinstance(arguments[3], str)):
            return lookup(*arguments[:3], partition_strategy=arguments[3], **named)
        return lookup(*arguments, **named)

    return looked_up


@graph_code
@_in_either_order
def group_embedding_lookup_sparse(params: Any, sp_ids: Any, combiners: Any, sp_weights: Any = None,
                                  partition_strategy: Any = "mod", is_sequence: bool = False,
                                  params_num_per_group: int = sys.maxsize,
                                  name: Optional[str] = None) -> List[tf.Tensor]:
    """Looks ids up in any number of variables, and combines the rows of each sample.

    EmbeddingVariables, sok1x's other tables and TensorFlow's own variables may be mixed; the latter are looked up in
    what this rank has of them, which is everything. Each gives what `tf.nn.embedding_lookup_sparse` gives on the whole
    table, with zeros for a sample without ids, and as many samples as the ids' shape says.

    Args:
        params: a list of T variables.
        sp_ids: a list of T tf.SparseTensor or tf.RaggedTensor [B, n], int32 or int64.
        combiners: a list of T of 'mean', 'sum' and 'sqrtn', None being 'mean'; or one for all; None: all are 'mean'.
        sp_weights: None, or a list of T, floats of the same form as the ids; one of them may be None. Older scripts
            have it behind partition_strategy: where one of the two is in the other's place, it is recognized.
        partition_strategy: 'mod' or 'div': how ids are spread over the parts of a PartitionedVariable.
        is_sequence: whether ids are not combined, but each has its place; a combiner then has one row to combine.
        params_num_per_group: DeepRec fuses so many lookups into one op; here lookups of a step go together, however
            many there are.
        name: of the ops' scope.

    Returns:
        A list of T, [B, D] of the rows' dtype; of sequences [B, T', D], T' being the ids' second dimension, zeros where
        there is no id.

    Raises:
        TypeError: something that is no variable, ids or weights of another type or dtype, or a variable of integers
            whose rows are not just added up.
        ValueError: lists of different lengths, an unknown combiner or partition_strategy, ids or weights of the wrong
            rank, or a table of another graph.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import deeprec
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer())
        ...     local = tf.get_variable("local", initializer=[[1.0], [2.0]])
        ...     ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0, 1, 1], tf.int64), [2, 2])
        ...     found = deeprec.group_embedding_lookup_sparse([items, local], [ids, ids], ["sum", "mean"])
        ...     session.run(tf.global_variables_initializer())
        ...     [value.tolist() for value in session.run(found)]
        [[[2.0, 2.0], [1.0, 1.0]], [[1.5], [2.0]]]
    """
    if isinstance(sp_weights, str) or (
            not isinstance(partition_strategy, str) and partition_strategy is not None and sp_weights is None):
        sp_weights, partition_strategy = partition_strategy, sp_weights
        if isinstance(sp_weights, str):  # the other one's default
            sp_weights = None
    _check_strategy(_SPARSE, partition_strategy)
    params = _list(_SPARSE, "params", params)
    if not params:
        raise ValueError("sok1x.{}: params: got no variable, expected at least one".format(_SPARSE))
    ids = _for_each("sp_ids", sp_ids, len(params))
    weights = [None] * len(params) if sp_weights is None else _for_each("sp_weights", sp_weights, len(params))
    if combiners is None or isinstance(combiners, str):
        combiners = [combiners] * len(params)
    combiners = [combiner or "mean" for combiner in _for_each("combiners", combiners, len(params))]
    if not is_integer(params_num_per_group) or params_num_per_group < 1:
        raise ValueError("sok1x.{}: params_num_per_group: got {!r}, expected an integer, 1 or more".format(
            _SPARSE, params_num_per_group))
    return lookup_many([Lookup(*each, sequence=bool(is_sequence)) for each in zip(params, ids, weights, combiners)],
                       name, partition_strategy or "mod")


@graph_code
def group_embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod",
                           name: Optional[str] = None) -> List[tf.Tensor]:
    """Looks up one row for each id, in any number of variables.

    Args:
        params: as for `group_embedding_lookup_sparse`.
        ids: a list of T dense tensors, int32 or int64, of any shapes [...].
        partition_strategy: as for `group_embedding_lookup_sparse`.
        name: of the ops' scope.

    Returns:
        A list of T, float32 [..., D].

    Raises:
        TypeError: something that is no variable, or ids that are sparse or of another dtype.
        ValueError: lists of different lengths, an unknown partition_strategy, or a table of another graph.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import deeprec
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer())
        ...     rows = deeprec.group_embedding_lookup([items], [tf.constant([[7], [9]], tf.int64)])
        ...     session.run(tf.global_variables_initializer())
        ...     session.run(rows)[0].tolist()
        [[[1.0, 1.0]], [[1.0, 1.0]]]
    """
    _check_strategy(_DENSE, partition_strategy)
    params = _list(_DENSE, "params", params)
    with tf.name_scope(name, "group_embedding_lookup"):
        return [all2all_dense_embedding(table, each) if isinstance(table, EmbeddingVariable)
                else tf.nn.embedding_lookup(table, each, partition_strategy or "mod")
                for table, each in zip(params, _for_each("ids", ids, len(params), _DENSE))]


def _check_strategy(function: str, given: Any) -> None:
    if given is not None and (not isinstance(given, str) or given not in STRATEGIES):
        raise ValueError("sok1x.{}: partition_strategy: got {!r}, expected 'mod' or 'div'; weights are "
                         "sp_weights".format(function, given))


def _list(function: str, what: str, given: Any) -> List[Any]:
    if given is None:
        raise ValueError("sok1x.{}: {}: got None, expected a list of variables".format(function, what))
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _for_each(what: str, given: Any, expected: int, function: str = _SPARSE) -> List[Any]:
    found = _list(function, what, given)
    if len(found) != expected:
        raise ValueError("sok1x.{}: {}: got {} for {} params, expected one for each".format(
            function, what, len(found), expected))
    return found
