"""Tables are called after their layers, and ops of ours after what they do."""
import json

import numpy as np
import pytest
import tensorflow as tf
from sok1x_cases import dense_layer, graph, session, sparse_constant, sparse_layer
from tensorflow.python.client import timeline

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

v1 = tf.compat.v1


def test_of_layers():
    """Given names, those that Keras makes up, one name twice, copies, and what TensorFlow cannot call anything."""
    with graph():
        layers = [dense_layer(name="user_fields"), dense_layer(), sparse_layer(name="user_fields"),
                  sparse_layer(name="deep/ads."), sparse_layer(),
                  dense_layer(max_vocabulary_size_per_gpu=None, name="g")]
        layers += [type(layer).from_config(layer.get_config()) for layer in layers[:2]]
        names = ["user_fields/EmbeddingVariable", "EmbeddingVariable_1", "user_fields/EmbeddingVariable_1",
                 "deep/ads./EmbeddingVariable", "EmbeddingVariable_4", "g/EmbeddingVariable",
                 "user_fields/EmbeddingVariable_2", "EmbeddingVariable_7"]
        tables = [layer.embedding_variable for layer in layers]
        assert [table.op.name for table in tables] == [table.table.name for table in tables] == names
        assert [table.m_var_name for table in tables] == ["EmbeddingVariable"] + [
            "EmbeddingVariable_{}".format(number) for number in range(1, 8)]
        assert tables[0].stamps.name == "user_fields/EmbeddingVariable/stamps:0"
        with pytest.raises(ValueError, match="layer 'my fields': name: got 'my fields', expected .*letters"):
            dense_layer(name="my fields")
        assert len(v1.get_collection(sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES)) == 8
        keys = tf.constant([[[5, -2, 5], [9, 1, 0]]], tf.int64)
        loss = tf.reduce_sum(layers[0](keys)) + tf.reduce_sum(layers[0](keys + 1)) + tf.reduce_sum(layers[5](keys))
        v1.train.AdamOptimizer().minimize(loss)
        slots = {variable.op.name for variable in v1.global_variables() if "/Adam" in variable.op.name}
        assert slots == {names[place] + slot for place in (0, 5) for slot in ("/Adam", "/Adam_1")}
        full = dense_layer(max_vocabulary_size_per_gpu=2, name="small")
        asked = full(keys, training=True)
        with session() as run:
            with pytest.raises(tf.errors.ResourceExhaustedError, match="table 'small/EmbeddingVariable' is full"):
                run.run(asked)
        with pytest.raises(ValueError, match=r"layer 'user_fields' \(table 'user_fields/EmbeddingVariable'\)"):
            layers[0](tf.constant([1], tf.int64))


def test_a_model_of_layers_without_names_has_the_same_tables_when_copied():
    """So that what the one has saved the other restores, and a name never changes a row's initial value."""
    rows = []
    for name in (None, "named"):
        with tf.Graph().as_default():
            inputs = tf.keras.Input([2, 3], dtype=tf.int64)
            model = tf.keras.Model(inputs, dense_layer(name=name)(inputs))
            tables = [model.layers[1].embedding_variable.op.name]
            with session() as run:
                rows.append(run.run(model.output, {inputs: [[[1, 2, 3], [4, 5, 6]]],
                                                   tf.keras.backend.learning_phase(): 1}))
        with tf.Graph().as_default():
            copy = tf.keras.models.Model.from_config(model.get_config())
            tables.append(copy.layers[1].embedding_variable.op.name)
        assert tables[0] == tables[1] == ("named/EmbeddingVariable" if name else "EmbeddingVariable")
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("fuse", ["0", "1"])
def test_a_profiler_tells_ops_apart(monkeypatch, fuse):
    """In TensorFlow's timeline, and by type in the graph."""
    monkeypatch.setenv("SOK1X_FUSE", fuse)
    with graph() as made:
        layers = [dense_layer(name="a"), dense_layer(name="b"), sparse_layer(), sparse_layer()]
        keys = tf.constant([[[5, -2, 5], [9, 1, 0]]], tf.int64)
        bags = sparse_constant([[1, 2], [3]], 2)
        loss = tf.add_n([tf.reduce_sum(layer(of)) for layer, of in zip(layers, [keys, keys, bags, bags])])
        train = sok.tf.keras.optimizers.LazyAdamOptimizer(0.1).minimize(
            loss, var_list=[layer.embedding_variable for layer in layers])
        types = {op.get_attr("function").decode().split(".", 1)[1]: op.type for op in made.get_operations()
                 if op_types.is_ours(op)}
        assert types["dense_lookup.forward"] == types["combined_lookup.forward"] == "Sok1xLookup"
        assert types["dense_lookup.backward"] == types["combined_lookup.backward"] == "Sok1xGradient"
        assert types["distinct_rows.find"] == "Sok1xDistinct" and types["adam.lazy_step"] == "Sok1xUpdate"
        with session() as run:
            metadata = v1.RunMetadata()
            run.run(train, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=metadata)
        events = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())["traceEvents"]
        shown = {event["name"] for event in events if event["name"].startswith("Sok1x")}
        kinds = ["Sok1xLookup", "Sok1xDistinct", "Sok1xUpdate"] + ["Sok1xGradient"] * (fuse == "0")  # else with a step
        assert shown == {name + "s" * int(fuse) for name in kinds}
