"""Layers on a GPU: everything stays there, TensorFlow's threads go on, and every way to choose the device works."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores.table_variables import OWN

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = 64 << 10  # bytes
BATCH, SLOTS, DIM, ROWS = 512, 8, 64, 1 << 14


@pytest.fixture(autouse=True)
def needs_tensorflow_with_gpus():
    if not tf.test.is_gpu_available():
        pytest.skip("TensorFlow sees no GPU")


def session(**options):
    config = tf.ConfigProto(**options)
    config.gpu_options.allow_growth = True
    return tf.Session(config=config)


class Model:
    """Both layers over keys that lie on the GPU, with a gradient step and an evaluation."""

    def __init__(self, seed, device=None):
        random = np.random.RandomState(seed)
        with tf.device(device):
            self.dense = sok.All2AllDenseEmbedding(
                max_vocabulary_size_per_gpu=ROWS, embedding_vec_size=DIM, slot_num=SLOTS, nnz_per_slot=1)
            self.sparse = sok.DistributedEmbedding(
                combiner="sum", max_vocabulary_size_per_gpu=ROWS, embedding_vec_size=DIM, slot_num=SLOTS, max_nnz=3)
            keys = tf.Variable(random.randint(0, ROWS // 2, (BATCH, SLOTS, 1)), dtype=tf.int64, use_resource=True)
            lengths = random.randint(0, 4, BATCH * SLOTS)
            rows = np.repeat(np.arange(BATCH * SLOTS), lengths)
            places = np.concatenate([np.arange(length) for length in lengths])
            indices = tf.Variable(np.stack([rows, places], axis=1), dtype=tf.int64, use_resource=True)
            values = tf.Variable(random.randint(0, ROWS // 2, len(rows)), dtype=tf.int64, use_resource=True)
            with tf.device("/cpu:0"):
                shape = tf.constant([BATCH * SLOTS, 3], tf.int64)
            bags = tf.SparseTensor(indices, values, shape)
            self.vectors = [self.dense(keys, training=True), self.sparse(bags, training=True)]
            self.loss = tf.add_n([tf.reduce_sum(tf.square(vector)) for vector in self.vectors])
            self.step = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1e-3)).minimize(self.loss)
            with tf.control_dependencies([self.step]):
                self.evaluation = tf.reduce_sum(self.dense(keys, training=False))
        self.init = sok.Init(global_batch_size=BATCH)

    def start(self, session):
        assert session.run(self.init) == b"OK"
        session.run(tf.global_variables_initializer())


@register
class _Where(Operation):
    """Where its input and a temporary lie: what CUDA's driver says of the addresses (2: a device's memory)."""

    name = "test.where"

    def run(self, request, config, world, headers):
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")

        def kind(pointer):
            answer = ctypes.c_uint()
            assert cuda.cuPointerGetAttribute(ctypes.byref(answer), 2, ctypes.c_uint64(pointer)) == 0
            return answer.value

        places = [request.inputs[0].pointer, request.temporary("float32", 100).pointer,
                  request.output(0, "float32", (100,)).pointer]
        with request.variables("test", exclusive=True) as variables:
            places += [variable.pointer for variable in variables]
        request.host_output(0, "int64", (len(places),)).numpy()[:] = [kind(place) for place in places]


def test_inputs_outputs_temporaries_and_variables_lie_on_the_gpu(seed):
    with tf.Graph().as_default(), session() as sess:
        model = Model(seed)
        variables = model.dense.embedding_variable.table_variables
        where = library.call("test.where", NoConfig(), [model.vectors[0]], [tf.float32], [[100]],
                             resources=variables.resources(*OWN).handles,
                             host_dtypes=[tf.int64], host_shapes=[[None]])[1]
        model.start(sess)
        assert sess.run(where).tolist() == [2] * 6


def test_a_step_copies_nothing_large_between_host_and_device(seed, monkeypatch):
    """All edges that TensorFlow has between devices, from the graphs it runs; and all copies of ours."""
    from sok1x.cuda_kernels import gpu
    copied = []

    def counting(original):
        def copy(self, target, source, nbytes):
            copied.append(nbytes)
            original(self, target, source, nbytes)
        return copy

    for name in ("to_host", "to_device"):
        monkeypatch.setattr(gpu.Gpu, name, counting(getattr(gpu.Gpu, name)))
    with tf.Graph().as_default() as graph, session() as sess:
        model = Model(seed)
        model.start(sess)
        for _ in range(3):
            sess.run([model.step, model.evaluation])
        copied.clear()
        metadata = tf.RunMetadata()
        sess.run([model.step, model.evaluation], run_metadata=metadata,
                 options=tf.RunOptions(output_partition_graphs=True))
        assert all(nbytes <= SMALL for nbytes in copied), copied
        crossing = [node for partition in metadata.partition_graphs for node in partition.node
                    if node.op in ("_Send", "_HostSend") and
                    node.attr["send_device"].s != node.attr["recv_device"].s]
        for node in crossing:
            source = node.input[0].split(":")[0].lstrip("^")
            number = int(node.input[0].split(":")[1]) if ":" in node.input[0] else 0
            try:
                shape = graph.get_operation_by_name(source).outputs[number].shape
            except KeyError:  # made by TensorFlow's optimizers: constants
                continue
            assert shape.num_elements() is not None and shape.num_elements() * 8 <= SMALL, (source, shape)
        ours = [(node.op, node.device) for partition in metadata.partition_graphs for node in partition.node
                if node.op.startswith("Sok1x")]
        # Both lookups and the evaluation's; a gradient each, by itself or with the step that follows it.
        ops = [op.rstrip("s") for op, _ in ours]
        made = ops.count("Sok1xGradient") + [op for op, _ in ours].count("Sok1xUpdates")
        assert (ops.count("Sok1xLookup"), made) == (3, 2) and len(ops) >= 6, ours
        assert all("GPU" in device for _, device in ours), ours


@pytest.mark.parametrize("device,soft", [(None, False), (None, True), ("/gpu:0", False), ("/gpu:0", True),
                                         ("/cpu:0", False)])
def test_every_placement_trains_alike(seed, device, soft):
    with tf.Graph().as_default(), session(allow_soft_placement=soft) as sess:
        model = Model(seed, device)
        model.start(sess)
        got = [sess.run([model.loss, model.step])[0] for _ in range(3)]
    with tf.Graph().as_default(), session(device_count={"GPU": 0}) as sess:
        model = Model(seed)
        model.start(sess)
        expected = [sess.run([model.loss, model.step])[0] for _ in range(3)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


CHOOSING = """
import sys
import tensorflow.compat.v1 as tf
import sok1x as sok
from sok1x.cuda_kernels import gpu
layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=64, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
out = layer(tf.constant([[[1]], [[2]]], tf.int64), training=True)
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = sys.argv[1]
with tf.Session(config=config) as session:
    session.run(sok.Init(global_batch_size=2))
    session.run(tf.global_variables_initializer())
    session.run(out)
print("ordinals", sorted(gpu._gpus))
"""


def test_visible_device_list_names_the_gpu():
    from sok1x.cuda_kernels import gpu
    last = gpu.count() - 1
    finished = run_ranks(0, CHOOSING, last, env={"SOK1X_TEST_DEVICE": ""})  # which sees all that this process sees
    assert "ordinals [{}]".format(last) in finished.out
