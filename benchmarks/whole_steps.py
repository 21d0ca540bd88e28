"""That TensorFlow runs the whole of a step that is timed."""
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2


def config(**options):
    """A session's configuration in which all of a step is run of which nothing but its end is asked for.

    TensorFlow leaves out what only `tf.group` waits for and is free of effects: TensorFlow 2 all of
    `tf.nn.embedding_lookup`, 1.15 what comes behind the rows are read, as the sum over a sample's rows.
    """
    made = tf.ConfigProto(**options)
    made.graph_options.rewrite_options.dependency_optimization = rewriter_config_pb2.RewriterConfig.OFF
    return made
