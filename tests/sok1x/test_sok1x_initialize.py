"""Init and InitHook in one process without a launcher."""
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from sok1x_cases import graph

import sok1x as sok


def test_value_is_ok_any_number_of_times_in_any_session():
    for _ in range(2):
        with graph(), tf.Session() as session:
            init = sok.Init(global_batch_size=8)
            assert [session.run(init) for _ in range(2)] == [b"OK", b"OK"]
            assert session.run(sok.Init()) == b"OK"


@pytest.mark.parametrize("wrong, error, words", [
    (dict(global_batch_size=0), ValueError, "global_batch_size: got 0"),
    (dict(global_batch_size=2.0), TypeError, "global_batch_size: got 2.0 of type float"),
    (dict(global_batch_size=True), TypeError, "global_batch_size"),
    (dict(global_batch_size="8"), TypeError, "global_batch_size"),
    (dict(seed=-1), ValueError, "seed: got -1"),
    (dict(seed=2 ** 63), ValueError, "seed"),
    (dict(seed=None), TypeError, "seed"),
    (dict(visible_devices="0"), TypeError, "visible_devices"),
])
def test_wrong_arguments_fail_at_construction(wrong, error, words):
    with graph():
        for function in (sok.Init, sok.InitHook):
            with pytest.raises(error, match=words):
                function(**wrong)


BEFORE_INIT = """
import sys
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)
import sok1x as sok

sparse = tf.SparseTensor([[0, 0]], tf.constant([7], tf.int64), [2, 3])
by_key = sok.All2AllDenseEmbedding(16, 4, 2, 1)
by_row = sok.All2AllDenseEmbedding(16, 4, 2, 1, embedding_initializer=tf.keras.initializers.Ones(), name="rows")
combined = sok.DistributedEmbedding("sum", 16, 4, 2, 3)
dense = tf.get_variable("dense", initializer=[1.0])
keys = tf.constant([[[7], [9]]], tf.int64)
lookup, evaluation, combination = by_key(keys), by_key(keys, training=False), combined(sparse)
loss = tf.reduce_sum(lookup)
step = tf.train.AdamOptimizer().minimize(loss)
own = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
averaged = own.compute_gradients(tf.reduce_sum(dense), [dense])[0][0]
broadcast = sok.broadcast_global_variables(0)

def refused(fetch):
    try:
        session.run(fetch)
    except tf.errors.FailedPreconditionError as error:
        assert "sok1x.Init" in error.message and "first" in error.message, error.message
        return
    raise AssertionError("ran before Init: {}".format(fetch))

with tf.Session() as session:
    session.run([dense.initializer] + [slot.initializer for slot in tf.global_variables()
                                       if slot.op.name.startswith(("beta", "EmbeddingVariable/Adam"))])
    for layer in (by_key, by_row, combined):
        refused(layer.embedding_variable.initializer)
        shard = layer.embedding_variable
        for variable in shard.index + [shard.stamps, shard.steps]:
            refused(variable.initializer)
    for fetch in (tf.global_variables_initializer(), lookup, evaluation, combination, step, averaged,
                  broadcast):
        refused(fetch)
    assert session.run(sok.Init(global_batch_size=8)) == b"OK"
    session.run(tf.global_variables_initializer())
    session.run([lookup, evaluation, combination, step, averaged, broadcast])

# Initialized process, but a session whose variables are not: TensorFlow's own code, and what to run.
with tf.Session() as session:
    try:
        session.run(lookup)
    except tf.errors.FailedPreconditionError as error:
        assert "global_variables_initializer" in error.message and "EmbeddingVariable" in error.message
    else:
        raise AssertionError("read variables without values")
print("done")
"""


def test_everything_before_init_says_to_run_it_first():
    assert run_ranks(0, BEFORE_INIT).out == "done\n"


MONITORED = """
import sys
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)
import sok1x as sok

layer = sok.All2AllDenseEmbedding(16, 4, 2, 1, embedding_initializer="ones")
loss = tf.reduce_mean(layer(tf.constant([[[7], [9]]], tf.int64)) ** 2)
step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
operations = len(tf.get_default_graph().get_operations())
hook = sok.InitHook(global_batch_size=1)
hook.begin()
assert len(tf.get_default_graph().get_operations()) == operations

def train(folder):
    losses = []
    hooks = [tf.estimator.StopAtStepHook(num_steps=5), sok.BroadcastGlobalVariablesHook(), hook]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks) as session:
        while not session.should_stop():
            losses.append(session.run([loss, step])[0])
    return losses

first = train(sys.argv[1])
assert len(first) == 5 and first[0] == 1.0 and first == sorted(first, reverse=True), first
second = train(sys.argv[1])  # goes on from the checkpoint: rows and index are in it
assert len(second) == 5 and second[0] < first[-1], (first, second)
print("done")
"""


def test_monitored_training_session_with_hooks_and_checkpoint(tmp_path):
    assert run_ranks(0, MONITORED, str(tmp_path)).out == "done\n"


SEEDS = """
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok
tf.disable_v2_behavior()
first = sys.argv[1] == "first"
if first:
    sok.init(seed=3)
table = sok.DynamicVariable(dimension=2, initializer="normal", name="t")
rows = sok.all2all_dense_embedding(table, tf.constant([7, 9], tf.int64))
with tf.Session() as session:
    if sys.argv[1] == "op":
        session.run(sok.Init(global_batch_size=2, seed=3))
    elif sys.argv[1] == "call":
        sok.init(seed=3)
    elif sys.argv[1] == "twice":
        sok.init(seed=3)
        session.run(sok.Init(global_batch_size=2))  # whatever seed there is
        for other in (lambda: session.run(sok.Init(global_batch_size=2, seed=4)), lambda: sok.init(seed=4)):
            try:
                other()
            except (tf.errors.InvalidArgumentError, ValueError) as error:
                assert "the ranks have joined with seed 3" in str(error), error
            else:
                raise AssertionError("another seed")
    session.run(tf.global_variables_initializer())
    print(session.run(rows).tolist())
    if sys.argv[1] == "late":
        try:
            session.run(sok.Init(global_batch_size=2, seed=3))
        except tf.errors.InvalidArgumentError as error:
            assert "the ranks have joined with seed" in str(error), error
        else:
            raise AssertionError("rows have been drawn with another seed")
"""


def test_a_seed_that_comes_after_a_table_of_a_process_alone():
    drawn = {when: run_ranks(0, "import sys\n" + SEEDS, when, timeout=60).out.strip()
             for when in ("first", "op", "call", "twice", "late")}
    assert drawn["first"] == drawn["op"] == drawn["call"] == drawn["twice"] != drawn["late"], drawn
