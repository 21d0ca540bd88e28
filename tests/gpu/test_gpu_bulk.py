"""Many requests at once on a GPU: groups read inputs, write shared tables and give outputs, among TensorFlow's ops."""
import os
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import gpu
from sok1x.graph_ops.bridge import bulk
from sok1x.graph_ops.bridge.bridge import Array

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "graph_ops"))
from bulk_service import Service, member, variable  # noqa: E402

MEMBERS, SIZE = 6, 100000


@pytest.fixture(autouse=True)
def needs_tensorflow_with_gpus():
    if not tf.test.is_gpu_available():
        pytest.skip("TensorFlow sees no GPU")


def session():
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    return tf.Session(config=config)


def on_gpu(device, pointer, size):
    return Array(int(pointer), "float32", (size,), size, device)


def test_groups_are_in_order_with_tensorflow(seed):
    """Outputs are what the tables were, tables get what the inputs are; TensorFlow's own ops make and use both."""
    random = np.random.RandomState(seed)
    start = random.randint(0, 100, (3, SIZE)).astype("float32")

    def serve(service, requests):
        device = gpu.of_stream(int(service.intake.table["stream"][0]))
        with device.active():
            group = bulk.RequestGroup(service.bridge, requests)
            for request in requests:
                request.gpu = device
            group.begin()
            inputs = group.inputs()
            assert not group.lock(exclusive=True).any()
            pointers, codes = group.outputs(range(MEMBERS), [0] * MEMBERS, [(SIZE,)] * MEMBERS)
            assert not codes.any()
            scratch = group.temporary(4 * SIZE)
            for i in range(MEMBERS):
                table, given = group.variables["data"][i, 0], inputs["data"][i, 0]
                device.copy(scratch, table, 4 * SIZE)
                device.copy(pointers[i], scratch, 4 * SIZE)
                device.copy(table, given, 4 * SIZE)
            group.unlock()
            single = requests[0].temporary("float32", 1000)  # a member alone, in the same stream
            single.write(np.ones(1000))
            assert (single.read() == 1).all()
            group.finish()

    with tf.Graph().as_default(), session() as sess:
        tables = [variable("v{}".format(i), start[i]) for i in range(3)]
        fed = tf.placeholder(tf.float32, [MEMBERS, SIZE])
        with tf.device("/gpu:0"):
            nodes = [member(i, [fed[i] * 2 + 1], [tf.float32], [tables[i % 3]])[0] for i in range(MEMBERS)]
            results = [node * 3 for node in nodes]
        sess.run(tf.global_variables_initializer())
        held = start
        for _ in range(20):
            values = random.randint(0, 100, (MEMBERS, SIZE)).astype("float32")
            [got] = Service(serve, MEMBERS).run(sess, results, feed_dict={fed: values})
            given = values * 2 + 1
            for i in range(MEMBERS):
                np.testing.assert_array_equal(got[i], 3 * (held[i] if i < 3 else given[i - 3]))
            held = given[3:]
            np.testing.assert_array_equal(sess.run(tables), held)


def test_temporaries_of_a_request_are_cut_out_of_one_block():
    def serve(service, requests):
        device = gpu.of_stream(int(service.intake.table["stream"][0]))
        with device.active():
            requests[0].gpu = device
            requests[0].begin()
            arrays = [requests[0].temporary("float32", size) for size in (10, 1000, 0, 64)]
            for number, array in enumerate(arrays):
                array.write(np.full(array.size, number, "float32"))
            for number, array in enumerate(arrays):
                assert (array.read() == number).all()
            requests[0].finish()
        return [array.pointer for array in arrays]

    with tf.Graph().as_default(), session() as sess:
        with tf.device("/gpu:0"):
            node = member(0, [tf.zeros([4])])
        runs = []
        for _ in range(3):
            service = Service(serve, 1)
            service.run(sess, node)
            runs.append(service.result)
    for first, second, nothing, third in runs[1:]:
        assert (second - first, nothing, third - second) == (256, 0, 4096)
