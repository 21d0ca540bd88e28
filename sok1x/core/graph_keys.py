"""Names of the graph collections that sok1x fills."""
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import resource_variable_ops, tf_ops, variable_pb2


class GraphKeys:
    """Names of graph collections.

    Attributes:
        GLOBAL_EMBEDDING_VARIABLES: every `EmbeddingVariable` of the graph, in creation order. Each is also in
            TensorFlow's own `GLOBAL_VARIABLES` and, unless its layer is frozen, `TRAINABLE_VARIABLES`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default() as graph:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     found = tf.get_collection(sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
        >>> found == [layer.embedding_variable]
        True
    """

    GLOBAL_EMBEDDING_VARIABLES = "global_embedding_variables"


def tables_made_here() -> List[Any]:
    """The variables of the default graph's tables, but for those that came with a MetaGraph: they are no tables here.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core import graph_keys
        >>> with tf.Graph().as_default():
        ...     table = sok.DynamicVariable(2)
        ...     graph_keys.tables_made_here() == [table]
        True
    """
    return [one for one in tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES) if hasattr(one, "table")]


# tf.train.Saver exports collections with every checkpoint, and warns about those it cannot write.
tf_ops.register_proto_function(
    GraphKeys.GLOBAL_EMBEDDING_VARIABLES, proto_type=variable_pb2.VariableDef,
    to_proto=lambda variable, export_scope=None: variable.to_proto(export_scope),
    from_proto=lambda proto, import_scope=None: resource_variable_ops.ResourceVariable(
        variable_def=proto, import_scope=import_scope))
