"""Every operation that takes row numbers or shapes from a graph refuses what it cannot take, before it writes anything.

CASES has each registered operation, so that a new one must be thought of here.
"""
import importlib
import pkgutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from given_gradients import OPTIMIZERS, D, Model, V
from sok1x_cases import dense_layer, graph, session, sparse_layer

import sok1x as sok
from sok1x import graph_ops
from sok1x.graph_ops.bridge import registry
from sok1x.graph_ops.operations import local_lookup, segments
from sok1x.graph_ops.stores import stamps
from sok1x.graph_ops.transfer.shard_transfer import load, save

v1 = tf
errors = tf.errors
LABEL = "embedding table 'EmbeddingVariable' on rank 0"


def unknown(value, dtype=None):
    """A tensor of which the graph knows no shape."""
    return v1.placeholder_with_default(np.asarray(value, dtype), None)


RATES = {
    "operations.gradient_descent.step": lambda rate: sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(rate)),
    "operations.adam.lazy_step": sok.tf.keras.optimizers.LazyAdamOptimizer,
    "operations.adam.step": lambda rate: sok.optimizers.Adam(lambda: rate),
}


def applied(name, model, values, indices):
    step = OPTIMIZERS[name]().apply_gradients([(tf.IndexedSlices(values, indices), model.shard)])
    assert step is not None
    return step


def optimizer_cases(name):
    """What a sparse gradient must not be: (how the op is made, words of the error, what is fed)."""
    cases = {}
    for bad, dtype in ((-1, "int32"), (V, "int32"), (2 ** 31 - 1, "int32"), (-2 ** 31, "int32"), (2 ** 32 + 1, "int64"),
                       (-2 ** 63, "int64"), (200, "uint8")):
        cases["row {} of {}".format(bad, dtype)] = (
            lambda m, bad=bad, dtype=dtype: applied(name, m, tf.ones([3, D]), tf.constant([1, bad, 2], dtype)),
            ["got row {} at position 1 of 3".format(bad), "[0, {})".format(V), "nothing was changed"])
    cases["another table's rows"] = (lambda m: applied(name, m, m.others.values, m.others.indices), ["got row 14 "])
    cases["rows that are computed"] = (
        lambda m: applied(name, m, m.slices.values, tf.gather(m.slices.indices * 4, [0, 1, 2, 3])), ["got row 8 "])
    cases["rows that TensorFlow has made distinct"] = (
        lambda m: applied(name, m, tf.ones([2, D]), tf.unique(tf.constant([1, V, 1]))[0]), ["got row 8 at position 1"])
    cases["fed"] = (lambda m: (applied(name, m, m.slices.values, m.slices.indices), {m.slices.indices: [0, 1, V, 2]}),
                    ["got row 8 at position 2"])
    cases["fed, fewer"] = (lambda m: (applied(name, m, m.slices.values, m.slices.indices), {m.slices.indices: [0]}),
                           ["got gradients of shape [4, 4] for 1 rows"])
    shapes = {"fewer values": ([2, D], 3), "more values": ([4, D], 3), "narrow values": ([3, D - 1], 3),
              "wide values": ([3, D + 1], 3), "flat values": ([3 * D], 3), "no values": ([0, D], 3)}
    for what, (shape, count) in shapes.items():
        cases[what] = (lambda m, shape=shape, count=count: applied(
            name, m, unknown(np.ones(shape, np.float32)), unknown(np.arange(count))),
            ["got gradients of shape {} for 3 rows, expected [3, 4]".format(shape)])
    cases["own rows, other values"] = (
        lambda m: applied(name, m, m.slices.values[:3], m.slices.indices), ["got gradients of shape [3, 4] for 4 rows"])
    cases["a matrix of rows"] = (lambda m: applied(name, m, unknown(np.ones([2, D], np.float32)), unknown([[0, 1]])),
                                 ["for rows of shape [2], got float32 for [1, 2]"])
    for shape in ([2], [0]):
        def many(m, shape=shape):
            return RATES[name](unknown(np.ones(shape, np.float32))).apply_gradients([(m.slices, m.shard)])
        cases["a learning rate of shape {}".format(shape)] = (many, ["got a learning rate of shape {}".format(shape)])
    if name == "operations.adam.step":  # there TensorFlow itself computes with the rate before
        del cases["a learning rate of shape [0]"]
    return cases


def sparse(layer, keys=(1, 2), indices=((0, 0), (1, 0)), dense_shape=(2, 3), **options):
    given = tf.SparseTensor(v1.placeholder_with_default(np.array(indices, np.int64), [None, 2]),
                            v1.placeholder_with_default(np.array(keys, np.int64), [None]),
                            v1.placeholder_with_default(np.array(dense_shape, np.int64), [2]))
    return layer(given, **options)


def local_upstream(wrong):
    """The gradient of a lookup in one rank's shard, from one of a shape that does not fit."""
    def make(model):
        out = local_lookup.lookup(model.shard.table_variables, tf.constant([1, 2], tf.int64))
        return tf.gradients(out, model.shard, grad_ys=unknown(np.ones(wrong, np.float32)))[0].values
    return make


def upstream(kind, wrong):
    """A lookup's gradient from one of a shape that does not fit."""
    def make(model):
        layer = (dense_layer if kind == "dense" else sparse_layer)(use_hashtable=False)
        out = layer(tf.ones([1, 2, 3], tf.int64)) if kind == "dense" else sparse(layer)
        return tf.gradients(out, layer.embedding_variable, grad_ys=unknown(np.ones(wrong, np.float32)))[0].values
    return make


def second(kind, wrong):
    """The gradient of a lookup's gradient, likewise."""
    def make(model):
        layer = (dense_layer if kind == "dense" else sparse_layer)(use_hashtable=False)
        out = layer(tf.ones([1, 2, 3], tf.int64)) if kind == "dense" else sparse(layer)
        given = tf.ones_like(out)
        values = tf.gradients(out, layer.embedding_variable, grad_ys=given)[0].values
        return tf.gradients(values, given, grad_ys=unknown(np.ones(wrong, np.float32)))[0]
    return make


def segment_sum(data, ids, count):
    return lambda m: segments.unsorted_segment_sum(unknown(data, np.float32), unknown(ids), unknown(count))


def sums_gradient(model):
    data, sums = tf.ones([3, D]), unknown(np.ones([2, D], np.float32))
    return tf.gradients(segments.unsorted_segment_sum(data, tf.constant([0, 2, 1]), tf.constant(3)), data, sums)[0]


def assigned(hashed, keys, values):
    def make(model):
        shard = dense_layer(max_vocabulary_size_per_gpu=V).embedding_variable if hashed else model.shard
        return sok.assign(shard, unknown(keys, np.int64), unknown(values, np.float32))
    return make


NONE = {}  # takes no row numbers or shapes
CASES = {
    "operations.gradient_descent.step": optimizer_cases("operations.gradient_descent.step"),
    "operations.adam.lazy_step": optimizer_cases("operations.adam.lazy_step"),
    "operations.adam.step": optimizer_cases("operations.adam.step"),
    "stores.stamps.mark": {
        "row {}".format(bad): (
            lambda m, bad=bad: stamps.mark(m.shard.table_variables, tf.constant([[1, bad]], tf.int64)),
            ["got row {} at position 1 of 2".format(bad)]) for bad in (-1, V, 2 ** 32, -2 ** 63)},
    "operations.dense_lookup.forward": {"training of two": (lambda m: dense_layer()(tf.ones([1, 2, 3], tf.int64),
                                                                  training=unknown([True, False])), ["shape [2]"])},
    "operations.combined_lookup.forward": {
        "training of two": (lambda m: sparse(sparse_layer(), training=unknown([True, False])), ["shape [2]"]),
        "fewer indices": (lambda m: sparse(sparse_layer(), indices=[[0, 0]]), ["indices of shape [1, 2]", "[2]"]),
        "more indices": (lambda m: sparse(sparse_layer(), keys=[5]), ["indices of shape [2, 2]", "of shape [1]"]),
        "a bag too far": (lambda m: sparse(sparse_layer(), indices=[[0, 0], [2, 0]]), ["got row 2 ", "[0, 2)"]),
        "fewer than none": (lambda m: sparse(sparse_layer(), dense_shape=[-2, 3]), ["dense_shape [-2, 3]"]),
        "too many": (lambda m: sparse(sparse_layer(), dense_shape=[2 ** 62, 3]), ["dense_shape [4611686018427387904"])},
    "operations.dense_lookup.backward": {str(shape): (upstream("dense", shape), ["got a gradient of float32 and shape"])
                       for shape in ([1, 2, 2, D], [1, 2, 3, D + 1], [0])},
    "operations.combined_lookup.backward": {str(shape): (upstream("combined", shape),
                                                         ["got a gradient of float32 and shape"])
                          for shape in ([2, 2, D], [1, 2, D - 1], [0])},
    "operations.dense_lookup.spread": {str(shape): (second("dense", shape), ["expected [1, 4]"])
                     for shape in ([2, D], [1, D + 1], [0, D])},
    "operations.combined_lookup.spread": {str(shape): (second("combined", shape), ["expected [2, 4]"])
                        for shape in ([3, D], [2, D - 1], [0, D])},
    "operations.local_lookup.backward": {str(shape): (local_upstream(shape), ["for a lookup's embeddings", "2 x 4"])
                                         for shape in ([3, D], [2, D - 1], [0, D])},
    "operations.assign_rows.assign": {
        "fewer values": (assigned(False, [0, 1], np.ones([1, D])), ["keys of shape [2] and values of shape [1, 4]"]),
        "narrow values": (assigned(False, [0, 1], np.ones([2, D - 1])), ["values of shape [2, 3]", "[n, 4]"]),
        "a matrix of keys": (assigned(False, [[0, 1]], np.ones([2, D])), ["keys of shape [1, 2]"]),
        "a key too far": (assigned(False, [0, V], np.ones([2, D])), ["key 8 at position 1 of the keys to assign"])},
    "operations.assign_rows.insert": {
        "fewer values": (assigned(True, [0, 1], np.ones([1, D])), ["keys of shape [2] and values of shape [1, 4]"]),
        "a matrix of keys": (assigned(True, [[0, 1]], np.ones([2, D])), ["keys of shape [1, 2]"])},
    "operations.segments.unique": {"a matrix": (lambda m: segments.unique(unknown([[1, 2]]))[0], ["shape [1, 2]"])},
    "operations.segments.segment_sum": {
        "fewer data": (segment_sum(np.ones([2, D]), [0, 1, 2], 3), ["data of shape [2, 4]"]),
        "an id too large": (segment_sum(np.ones([3, D]), [0, 3, 2], 3), ["segment_ids[1] = 3"]),
        "fewer than none": (segment_sum(np.ones([3, D]), [0, 1, 2], -1), ["num_segments -1"]),
        "two numbers": (segment_sum(np.ones([3, D]), [0, 1, 2], [3, 3]), ["num_segments of shape [2]"]),
        "too many numbers": (segment_sum(np.ones([0, 2 ** 31]), np.empty(0, np.int64), 2 ** 31 - 1), ["num_segments"])},
    "operations.segments.rows_of_segments": {"fewer sums": (sums_gradient, ["segment_ids[1] = 2"])},
    "transfer.sok_values.load": {
        "narrow": (lambda m: sok.Saver().load_embedding_values(m.shard, unknown(np.ones([2, D - 1], np.float32))),
                   ["shape [2, 3]"]),
        "too many rows": (lambda m: sok.Saver().load_embedding_values(m.shard, tf.ones([V + 1, D])), ["got 9 rows"])},
    "transfer.shard_transfer.save": {
        "two tokens": (lambda m: save(m.shard.table_variables, {}, unknown([1, 2], np.int64)), ["got token [1, 2]"])},
    "transfer.shard_transfer.load": {
        "no token": (lambda m: load(m.shard.table_variables, {}, unknown(77, np.int64)), ["got token 77"])},
    # Their inputs are what another op has left for them, which cannot be fed: see the last test.
    "operations.distinct_rows.find": NONE, "operations.bag_weights.gradient": NONE,
    # Keys of any shape have been made [n] in the graph; a step is a scalar there: see test_sok1x_forgetting.py.
    "operations.evictions.read_and_evict": NONE, "operations.evictions.since": NONE,
    # Rows leave by what the table itself holds, and by single numbers of the library's.
    "operations.evictions.evict": NONE, "stores.step_at.find": NONE,
    # Of tables whose rows do not stay: see test_sok1x_run_gradients.py.
    "operations.pinned_rows.check": NONE, "operations.pinned_rows.hold": NONE,
    # Of any shape, which they compare between ranks.
    "operations.finite.all_finite": NONE, "operations.collectives.all_reduce": NONE,
    "operations.collectives.broadcast": NONE, "operations.gather_bytes.gather": NONE,
    # Single numbers that the library makes itself; nothing is written by them.
    "operations.branches.agree": NONE, "operations.collectives.squared_norms": NONE,
    "operations.even_steps.any_left": NONE, "operations.rank_and_ranks.tell": NONE,
    "operations.session_number.tell": NONE,
    # Numbers that are made beside it: see tests/eager/program_dense_gradients.py.
    "operations.kept_gradients.check": NONE, "operations.kept_gradients.check_here": NONE,
    # They take nothing from the graph, or one number of a shape that the graph knows.
    "operations.init_op.join": NONE, "stores.initial.rows": NONE, "stores.initial.index": NONE,
    "stores.initial.given_here": NONE,
    "stores.initial.count": NONE, "stores.initial.check": NONE, "stores.initial.zeros": NONE,
    "stores.eager_names.note": NONE,
    # Its value has been compared with its variable's shape; V is its own affair: see test_sok1x_dynamic.py.
    "stores.slot_values.assign": NONE,
    "stores.initial.slot": NONE, "stores.initial.repeated_rows": NONE, "operations.local_lookup.forward": NONE,
    "stores.initial.stamps": NONE, "stores.stamps.changed": NONE, "stores.stamps.mark_loaded": NONE,
    "transfer.sok_dump.dump": NONE,
    "transfer.sok_restore.restore": NONE,
}


def test_every_operation_is_here():
    for module in pkgutil.walk_packages(graph_ops.__path__, "sok1x.graph_ops."):
        if not module.name.endswith("._bridge"):  # TensorFlow's to load
            importlib.import_module(module.name)
    assert {name for name in registry._operations if not name.startswith("test.")} == set(CASES)


@pytest.mark.parametrize("name", [name for name, cases in CASES.items() if cases])
def test_refused_before_anything_is_written(name):
    with graph():
        model = Model()
        made = {case: make(model) for case, (make, _) in CASES[name].items()}
        state = v1.global_variables()
        with session() as run:
            run.run(model.out)
            before = run.run(state)
            for case, (_, words) in CASES[name].items():
                fetch, feed = made[case] if isinstance(made[case], tuple) else (made[case], None)
                with pytest.raises((errors.InvalidArgumentError, errors.FailedPreconditionError)) as caught:
                    run.run(fetch, feed)
                for word in words + ([LABEL] if name in OPTIMIZERS else []):
                    assert word in caught.value.message, (case, caught.value.message)
            # What comes before a lookup's gradient has stamped its rows.
            clocks = set() if name == "stores.stamps.mark" else {"steps", "stamps"}
            for variable, one, two in zip(state, before, run.run(state)):
                if variable.op.name.split("/")[-1] not in clocks:
                    np.testing.assert_array_equal(one, two, variable.name)


def test_what_an_op_leaves_for_another_cannot_be_fed():
    with graph():
        layers = dense_layer(), sparse_layer()
        outs = layers[0](tf.ones([1, 2, 3], tf.int64)), sparse(layers[1])
        for layer, out in zip(layers, outs):
            slices = tf.gradients(out, layer.embedding_variable)[0]
            backward = slices.values.op
            for saved in backward.inputs[1:]:
                assert not saved.graph.is_feedable(saved), saved
            assert out.graph.is_feedable(slices.indices) and out.graph.is_feedable(slices.values)
