"""A model with every kind of lookup, for tests of exports; and batches for it."""
import numpy as np
import tensorflow as tf

import sok1x as sok
from sok1x.graph_ops.bridge.tensorflow_versions import V2

v1 = tf.compat.v1
BAGS = [("auto", "float32", "sum"), ("auto", "mixed_float16", "mean"), ("all2all", "mixed_float16", "sum"),
        ("reduce_scatter", "float32", "sum"), ("reduce_scatter", "float32", "mean"),
        ("reduce_scatter", "mixed_float16", "sum"), ("reduce_scatter", "mixed_float16", "mean")]
WORDS = ["red", "green", "blue"]
ROWS = 40  # of tables without an index
MOST = 9  # keys of a bag


def keys_of(random, count, known):
    """Any int64s, half of them among those that training has seen."""
    far = random.randint(-2 ** 63, 2 ** 63 - 1, count, dtype=np.int64)
    near = random.randint(-known, known, count)
    return np.where(random.rand(count) < 0.5, near, far * (random.rand(count) < 0.9))


def batch(random, samples, known):
    """{input: value} of so many samples; keys below `known` in absolute value come again and again."""
    lengths = random.randint(0, 4, samples)
    total = int(lengths.sum())
    slots = np.stack([np.repeat(np.arange(samples), lengths), np.concatenate([np.arange(n) for n in lengths] or [[]])])
    # Bags long enough that their rows' order matters to their sum, and that 'auto' would have partial sums travel.
    keys_in = random.randint(0, MOST + 1, 2 * samples)
    bags = np.stack([np.repeat(np.arange(2 * samples), keys_in),
                     np.concatenate([np.arange(n) for n in keys_in])], 1)
    order = random.permutation(total)
    weights = random.rand(total).astype(np.float32) + 0.5
    if V2:  # of every third sample they add up to zero; 1.15 divides by that
        weights[slots[0] % 3 == 0] = 0
    return {
        "dense": keys_of(random, samples * 6, known).reshape(samples, 2, 3),
        "small": random.randint(-known, known, [samples, 1, 1]),
        "direct": random.randint(0, ROWS, [samples, 1, 2]),
        "bags_indices": bags.astype(np.int64), "bags_values": keys_of(random, len(bags), known),
        "bags_dense_shape": np.array([2 * samples, MOST], np.int64),
        "ragged_values": keys_of(random, total, known),
        "ragged_row_splits": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        # Out of order, as a SparseTensor may be.
        "sparse_indices": slots.T.astype(np.int64)[order], "sparse_values": random.randint(0, ROWS, total)[order],
        "sparse_dense_shape": np.array([samples, 4], np.int64),
        "weights": weights,
        "word": np.array(WORDS + ["grey"], dtype=object)[random.randint(0, 4, samples)],
        "city": np.array(["city{}".format(n) for n in random.randint(0, 2 * known, samples)], dtype=object)}


def inputs_of():
    """Placeholders for a batch."""
    sparse = {name: tf.SparseTensor(*(v1.placeholder(tf.int64, shape, "{}_{}".format(name, part)) for part, shape in (
        ("indices", [None, 2]), ("values", [None]), ("dense_shape", [2])))) for name in ("bags", "sparse")}
    ragged = tf.RaggedTensor.from_row_splits(v1.placeholder(tf.int64, [None], "ragged_values"),
                                             v1.placeholder(tf.int64, [None], "ragged_row_splits"), validate=False)
    return dict(sparse, ragged=ragged, dense=v1.placeholder(tf.int64, [None, 2, 3], "dense"),
                small=v1.placeholder(tf.int32, [None, 1, 1], "small"),
                direct=v1.placeholder(tf.int64, [None, 1, 2], "direct"),
                weights=v1.placeholder(tf.float32, [None], "weights"),
                word=v1.placeholder(tf.string, [None], "word"), city=v1.placeholder(tf.string, [None], "city"))


def looked_up(inputs, training, words):
    """{name: what comes out of a table}."""
    found = {}
    dense = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=4096, embedding_vec_size=9, slot_num=2,
                                      nnz_per_slot=3)
    found["dense"] = dense(inputs["dense"], training=training)
    small = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=4096, embedding_vec_size=4, slot_num=1,
                                      nnz_per_slot=1, key_dtype="int32", embedding_initializer="glorot_normal")
    found["small"] = small(inputs["small"], training=training)
    direct = sok.All2AllDenseEmbedding(ROWS // sok.communication.num_ranks(), embedding_vec_size=5, slot_num=1,
                                       nnz_per_slot=2, use_hashtable=False)
    found["direct"] = direct(inputs["direct"], training=training)
    for exchange, dtype, combiner in BAGS:
        layer = sok.DistributedEmbedding(combiner=combiner, max_vocabulary_size_per_gpu=4096, embedding_vec_size=16,
                                         slot_num=2, max_nnz=MOST, exchange=exchange, dtype=dtype,
                                         embedding_initializer="normal" if combiner == "sum" else "glorot_uniform")
        found["{}_{}_{}".format(exchange, dtype, combiner)] = tf.cast(
            layer(inputs["bags"], training=training), tf.float32)
    half = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=4096, embedding_vec_size=4, slot_num=2,
                                     nnz_per_slot=3, dtype="mixed_float16", embedding_initializer="random_uniform")
    found["half"] = tf.cast(half(inputs["dense"], training=training), tf.float32)
    with v1.variable_scope("sok2"):
        dynamic = sok.DynamicVariable(dimension=6, initializer="truncated_normal", name="dynamic")
        whole = sok.Variable(np.arange(4 * ROWS, dtype=np.float32).reshape(ROWS, 4) / 7, name="whole")
        local = sok.Variable(shape=[ROWS, 3], initializer="normal", mode="localized:0", name="local")
        given = sok.DynamicVariable(dimension=3, initializer=[1.0, 2.0, 3.0], name="given")
    sparse_weights = tf.SparseTensor(inputs["sparse"].indices, inputs["weights"], inputs["sparse"].dense_shape)
    ragged_weights = inputs["ragged"].with_values(inputs["weights"])
    for combiner in ("sum", "mean", "sqrtn"):
        for weighted in (False, True):
            vectors = sok.lookup_sparse(
                [dynamic, whole, local, given],
                [inputs["ragged"], inputs["sparse"], inputs["sparse"], inputs["ragged"]],
                [ragged_weights, sparse_weights, None, None] if weighted else None, combiner)
            found["sok2_{}_{}".format(combiner, weighted)] = tf.concat(vectors, 1)
    for number, combiner in enumerate(("sum", "sqrtn")):  # they train always; 'auto', and with weights
        far = sok.DynamicVariable(dimension=16, initializer="normal", name="far_{}".format(number))
        for dtype in ("float32", "float16"):
            bags = tf.cast(sok.lookup_sparse(far, inputs["bags"], combiners=combiner, dtype=dtype), tf.float32)
            found["sok2_{}_{}".format(dtype, combiner)] = tf.reshape(bags, [-1, 2 * 16])
    pooled = sok.deeprec.get_embedding_variable("pooled", 5, ev_option=sok.deeprec.EmbeddingVariableOption(
        init_option=sok.deeprec.InitializerOption(tf.random_normal_initializer(), default_value_dim=50)))
    found["pooled"] = tf.reshape(sok.deeprec.group_embedding_lookup_sparse([pooled], [inputs["bags"]], ["sum"])[0],
                                 [-1, 2 * 5])
    columns, stock = sok.feature_column, tf.feature_column
    with columns.group_embedding_column_scope("strings"):
        made = [columns.embedding_column(columns.categorical_column_with_embedding("city"), 4, max_norm=0.3),
                columns.embedding_column(stock.categorical_column_with_vocabulary_file("word", words), 3)]
    found["columns"] = v1.feature_column.input_layer({name: inputs[name] for name in ("city", "word")}, made,
                                                     trainable=training is True)
    return found


def in_control_flow(inputs):
    """Lookups in a branch and in a loop, of a table with an index."""
    layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=4096, embedding_vec_size=4, slot_num=2,
                                      nnz_per_slot=3)
    keys = inputs["dense"]
    return layer, tf.concat([
        tf.cond(tf.size(keys) > 12, lambda: layer(keys, training=False),
                lambda: tf.zeros([tf.shape(keys)[0], 2, 3, 4])),
        tf.while_loop(lambda turn, _: turn < 3, lambda turn, sums: (
            turn + 1, sums + layer(keys + tf.cast(turn, tf.int64), training=False)),
            [0, tf.zeros([tf.shape(keys)[0], 2, 3, 4])],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2, 3, 4])])[1]], -1)


def predictions(found):
    """A dense part on top: float32 [B]."""
    flat = [tf.reshape(one, [-1, int(np.prod(one.shape.as_list()[1:]))]) for _, one in sorted(found.items())]
    hidden = v1.layers.dense(tf.concat(flat, 1), 7, tf.nn.relu, name="hidden")
    with v1.variable_scope("top", use_resource=True):
        return tf.sigmoid(v1.layers.dense(hidden, 1))[:, 0]


class Model:
    """inputs; outputs of an evaluation; and a train op, where the graph trains."""

    def __init__(self, words, trains=True):
        self.inputs = inputs_of()
        with v1.variable_scope("model", reuse=v1.AUTO_REUSE):
            self.training = v1.placeholder_with_default(False, [], "training") if trains else False
            found = looked_up(self.inputs, self.training, words)
            self.score = predictions(found)
        layer, flow = in_control_flow(self.inputs)
        self.outputs = dict(found, score=self.score, flow=flow)
        if trains:
            loss = tf.reduce_sum(self.score) + tf.reduce_sum(layer(self.inputs["dense"], training=self.training))
            loss += tf.add_n([tf.reduce_sum(one) for one in found.values()]) * 0.1
            self.step = sok.DistributedOptimizer(v1.train.AdagradOptimizer(0.3), average=False).minimize(loss)

    def feeds(self, values, training):
        """What to feed for a batch."""
        fed = {}
        for name, one in self.inputs.items():
            if isinstance(one, tf.SparseTensor):
                fed.update({one.indices: values[name + "_indices"], one.values: values[name + "_values"],
                            one.dense_shape: values[name + "_dense_shape"]})
            elif isinstance(one, tf.RaggedTensor):
                fed.update({one.flat_values: values[name + "_values"], one.row_splits: values[name + "_row_splits"]})
            else:
                fed[one] = values[name]
        return dict(fed, **{}) if not training else {**fed, self.training: True}
