"""Processes that are forked from one that uses sok1x: what runs an op of ours is refused there, all else goes on."""
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

FORKS = """
import multiprocessing, os, signal, sys
import tensorflow
from tensorflow.core.protobuf import config_pb2
tf = tensorflow.compat.v1
eager = "eager" in sys.argv
if eager:
    tf.enable_v2_behavior()
import sok1x as sok


def refused(run, *arguments):
    try:
        run(*arguments)
    except tf.errors.FailedPreconditionError as error:
        assert "forked from one in which sok1x was in use" in error.message and "'spawn'" in error.message, error
        return "refused"


def in_child(run, *arguments, end=os._exit):
    '''What it gives in a forked child.'''
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.write(writer, str(run(*arguments)).encode())
        end(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


def in_new_session(fetch):
    with tf.Session() as session:
        return session.run(fetch)


def square(number):
    return number * number

"""

GRAPH = FORKS + """
init = sok.Init(global_batch_size=8)
rows = sok.All2AllDenseEmbedding(16, 4, 1, 1)(tf.constant([[[7]]], tf.int64))
plain = tf.constant([2.0]) * 3
assert in_child(refused, in_new_session, rows, end=sys.exit) == in_child(refused, in_new_session, init) == "refused"
assert in_child(in_new_session, plain) == "[6.]"
session = tf.Session()
session.run(init)
session.run(tf.global_variables_initializer())
assert session.run(rows).shape == (1, 1, 1, 4)
inside = tf.cond(tf.constant(True), lambda: rows + 1, lambda: rows)
from_before = session.make_callable(rows)
options = config_pb2.CallableOptions(fetch=[rows.name])
keras_like = session._make_callable_from_options(options)
for run, arguments in ((session.run, ({"a": [plain, inside]},)), (in_new_session, (inside,)),
                       (from_before, ()), (lambda: session.make_callable(rows)(), ()), (keras_like, ()),
                       (lambda: session._make_callable_from_options(options), ()), (sok.init, ())):
    assert in_child(refused, run, *arguments) == "refused", run
assert in_child(refused, session.run, rows, end=sys.exit) == "refused", "as any program ends, with TensorFlow in use"
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(square, range(4)) == [0, 1, 4, 9]
assert session.run(rows).shape == (1, 1, 1, 4)
print("ok")
"""

EAGER = FORKS + """
table = sok.DynamicVariable(dimension=4)
ids = tensorflow.ragged.constant([[1, 2], [3]], dtype=tf.int64)
look_up = lambda: sok.lookup_sparse(table, ids, combiners="sum")
before = tensorflow.function(look_up)
outer = tensorflow.function(lambda: before() + 1)
sok.init()
look_up()
assert in_child(refused, look_up, end=sys.exit) == in_child(refused, tensorflow.function(look_up)) == "refused"
assert in_child(lambda: (tensorflow.constant([2.0]) * 3).numpy()) == "[6.]"
outer()
assert in_child(refused, before) == in_child(refused, outer) == "refused"
assert before().shape == (2, 4)
print("ok")
"""


def test_sessions():
    assert run_ranks(2, GRAPH).out.count("ok") == 2


@pytest.mark.skipif(tf.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
def test_eager_execution_and_functions():
    assert run_ranks(0, EAGER, "eager").out.count("ok") == 1
