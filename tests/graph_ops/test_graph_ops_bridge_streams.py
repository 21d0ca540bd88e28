"""How often streams are made to wait for one another: once for a group, with a driver that only counts."""
import os
import subprocess

import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


# In place of CUDA's driver: how often a stream was made to wait for another.
COUNTING_DRIVER = """
extern "C" {
int records = 0, waits = 0, fails = 0;
int cuEventRecord(void*, void*) { ++records; return fails; }
int cuStreamWaitEvent(void*, void*, unsigned) { ++waits; return 0; }
int cuMemcpyDtoDAsync_v2(unsigned long, unsigned long, unsigned long, void*) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
}
"""
ORDERED = """
import ctypes, os, sys, types
sys.path.insert(0, {here!r})
driver = ctypes.CDLL("libcuda.so.1")
import numpy as np
import tensorflow.compat.v1 as tf
from bulk_service import Service, member
from sok1x.graph_ops.bridge.tensorflow_versions import own_words
from sok1x.graph_ops.bridge import bulk
tf.logging.set_verbosity(tf.logging.ERROR)
seen = []
def note(what):
    waits, records = (ctypes.c_int.in_dll(driver, name) for name in ("waits", "records"))
    assert waits.value == records.value
    seen.append((what, waits.value))
    waits.value = records.value = 0
def serve(service, requests):
    group = bulk.RequestGroup(service.bridge, requests)
    for request in requests:
        request.gpu = types.SimpleNamespace(stream=1, event=2)
    group.begin()
    note("begin")
    assert not group.lock(exclusive=True).any()
    note("lock")
    group.outputs(range(5), [0] * 5, [(3,)] * 5)
    note("outputs")
    group.temporary(100)
    note("temporary")
    group.unlock()
    note("unlock")
    requests[0].finish()
    note("finish of one")
    ctypes.c_int.in_dll(driver, "fails").value = fails
    group.finish()
    ctypes.c_int.in_dll(driver, "fails").value = 0
fails = 0
tables = [tf.get_variable("v%d" % i, initializer=np.zeros(3, "float32"), use_resource=True) for i in range(5)]
nodes = [member(i, dtypes=[tf.float32], variables=[tables[i]])[0].op for i in range(5)]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print(Service(serve, 5).run(session, *nodes))
    print(seen)
    fails = 719
    for error in Service(serve, 5).run(session, *nodes)[1:]:
        print("error", type(error).__name__, own_words(error.message).splitlines()[0])
"""


@pytest.mark.skipif(tf.test.is_built_with_cuda(), reason="TensorFlow would use the driver's stand-in itself")
def test_streams_are_ordered_once_for_a_group(tmp_path):
    (tmp_path / "driver.cc").write_text(COUNTING_DRIVER)
    subprocess.check_call(["g++", "-shared", "-fPIC", str(tmp_path / "driver.cc"), "-o",
                           str(tmp_path / "libcuda.so.1")])
    path = "{}:{}".format(tmp_path, os.environ.get("LD_LIBRARY_PATH", ""))
    finished = run_ranks(0, ORDERED.format(here=HERE), timeout=60, env={
        "LD_LIBRARY_PATH": path, "SOK1X_TEST_DEVICE": "host", "CUDA_VISIBLE_DEVICES": ""})
    lines = finished.out.splitlines()
    assert lines[0] == str([None] * 5)
    assert lines[1] == str([(what, 1) for what in (
        "begin", "lock", "outputs", "temporary", "unlock", "finish of one")]), lines[1]
    assert lines[2:] == ["error InternalError sok1x: CUDA could not order the streams (driver error 719)"] * 4
