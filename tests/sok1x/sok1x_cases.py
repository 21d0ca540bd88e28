"""What the tests of the public API share: a session with everything initialized, what its runs are made of, and small
layers and batches."""
import contextlib

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)


@contextlib.contextmanager
def graph():
    """A graph of its own. Layers are built in it; `session()` then runs them."""
    with tf.Graph().as_default() as made:
        yield made


@contextlib.contextmanager
def session(initialize=True, config=None):
    """A session in the current graph, after sok.Init and the variables' initializers. config: its `tf.ConfigProto`."""
    init = sok.Init(global_batch_size=8)
    with tf.Session(config=config) as made:
        made.run(init)
        if initialize:
            made.run(tf.global_variables_initializer())
        yield made


def nodes_of(run, fetched, feed=None):
    """The nodes that a run of a session is made of, by name."""
    metadata = tf.RunMetadata()
    run.run(fetched, feed, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return {node.name: node for part in metadata.partition_graphs for node in part.node}


def dense_layer(**changes):
    arguments = dict(max_vocabulary_size_per_gpu=32, embedding_vec_size=4, slot_num=2, nnz_per_slot=3)
    return sok.All2AllDenseEmbedding(**dict(arguments, **changes))


def sparse_layer(**changes):
    arguments = dict(combiner="sum", max_vocabulary_size_per_gpu=32, embedding_vec_size=4, slot_num=2, max_nnz=3)
    return sok.DistributedEmbedding(**dict(arguments, **changes))


def sparse_value(bags, width, dtype=np.int64):
    """A SparseTensorValue from a list of lists of keys."""
    indices = [[row, column] for row, bag in enumerate(bags) for column in range(len(bag))]
    values = [key for bag in bags for key in bag]
    return tf.SparseTensorValue(np.array(indices, np.int64).reshape(-1, 2), np.array(values, dtype),
                                          np.array([len(bags), width], np.int64))


def sparse_constant(bags, width, dtype=np.int64):
    value = sparse_value(bags, width, dtype)
    return tf.SparseTensor(value.indices, tf.constant(value.values), value.dense_shape)
