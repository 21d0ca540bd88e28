"""What comes in a moment of its own: a wake of the executor among lookups, and a step given up as a request begins."""
import os
import subprocess

import pytest
from ranks import run_ranks
from tensorflow2_skips import ON_TENSORFLOW_2

# C++ runs these lookups alone, one after the other: the executor's Python hears of a wake among them all the same.
_BUSY = """
import threading
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
import sok1x as sok
from sok1x.graph_ops.bridge import executor

keys = tf.placeholder(tf.int64, [None, 10, 1])
layer = sok.All2AllDenseEmbedding(4096, 16, 10, 1)
vectors = tf.reduce_sum(layer(keys, training=True))
session = tf.Session()
session.run(sok.Init(global_batch_size=64))
session.run(tf.global_variables_initializer())
call, batch = session.make_callable(vectors, [keys]), np.arange(640).reshape(64, 10, 1)
call(batch)


def work():
    while True:
        try:
            call(batch)
        except tf.errors.CancelledError:  # the program ends
            return


for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
for number in range(100):
    answered = threading.Event()
    threading.Thread(target=lambda: (executor.ask(lambda: None), answered.set()), daemon=True).start()
    assert answered.wait(100), "ask {} was not heard".format(number)
print("ok")
"""


def test_a_wake_is_heard_beside_lookups_that_never_end():
    """And the program ends beside them."""
    assert "ok" in run_ranks(0, _BUSY, timeout=120).out


# Between the callback by which a step is given up, and the request: a pause, as a busy machine makes it.
_PAUSE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#define NAME _ZN10tensorflow19CancellationManager16RegisterCallbackExSt8functionIFvvEE
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
bool NAME(void* self, long long token, void* function) {
  static bool (*real)(void*, long long, void*);
  if (real == NULL) real = dlsym(dlopen("libtensorflow_framework.so.1", RTLD_NOLOAD | RTLD_NOW), TEXT(NAME));
  const bool registered = real(self, token, function);
  if (getenv("PAUSE_US") != NULL) usleep(atoi(getenv("PAUSE_US")));
  return registered;
}
"""
_GIVEN_UP = """
import ctypes
import time
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok
from sok1x import launch

batch = np.arange(8).reshape(4, 2, 1)


def read():
    time.sleep(0.05)  # so that each of both functions has a thread
    return batch


def fail():
    time.sleep(0.2)  # by then the lookup has a callback, and is no request yet
    raise ValueError("the data are over")


keys, failing = tf.py_func(read, [], tf.int64), tf.py_func(fail, [], tf.int32)
vectors = sok.All2AllDenseEmbedding(256, 4, 2, 1)(tf.ensure_shape(keys, [4, 2, 1]), training=True)
with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=4)) as session:
    session.run(sok.Init(global_batch_size=8))
    session.run(tf.global_variables_initializer())
    session.run(vectors)
    if launch.current().rank == 0:
        ctypes.CDLL(None).setenv(b"PAUSE_US", b"600000", 1)
        try:
            session.run([vectors, failing])
        except tf.errors.OpError as error:
            assert "the data are over" in str(error), error
        ctypes.CDLL(None).setenv(b"PAUSE_US", b"0", 1)
    else:
        time.sleep(4)  # rank 0 has given its step up by itself
    for _ in range(3):
        session.run(vectors)
print("ok")
"""


@pytest.mark.skipif(ON_TENSORFLOW_2, reason="the function has another name there")
@pytest.mark.skipif(os.environ.get("SOK1X_TEST_DEVICE") == "gpu", reason="there each copy of a tensor pauses, too")
def test_a_step_that_is_given_up_before_its_request_is_there_meets_no_other_ranks_step(tmp_path):
    source, library = tmp_path / "pause.c", tmp_path / "pause.so"
    source.write_text(_PAUSE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True, timeout=60)
    finished = run_ranks(2, _GIVEN_UP, timeout=120, env={"LD_PRELOAD": str(library)}, fresh=True,
                         check=False)
    assert finished.code == 0 and finished.out.count("ok") == 2, str(finished)
