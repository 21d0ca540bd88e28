"""That TensorFlow runs the whole of a step that is timed."""
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2


def config(**options):
    """A session's configuration in which a lookup is run of which nothing but its end is asked for.

    TensorFlow 2 takes `tf.nn.embedding_lookup` for free of effects, and leaves out what only `tf.group` waits for.
    """
    made = tf.ConfigProto(**options)
    if not tf.__version__.startswith("1."):
        made.graph_options.rewrite_options.dependency_optimization = rewriter_config_pb2.RewriterConfig.OFF
    return made
