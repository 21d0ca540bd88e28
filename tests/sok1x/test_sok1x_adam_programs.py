"""Adam and LazyAdamOptimizer by their names, in a Keras model, and in a program on two ranks."""
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from sok1x_cases import dense_layer, graph, session

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

HERE = os.path.dirname(os.path.abspath(__file__))


def test_model_of_keras():
    with graph():
        layer = dense_layer(slot_num=1, nnz_per_slot=2, embedding_initializer="ones")
        keys = tf.keras.Input([1, 2], dtype=tf.int64)
        model = tf.keras.Model(keys, tf.keras.layers.Lambda(lambda x: tf.reduce_sum(x, [2, 3]))(layer(keys)))
        model.compile(sok.tf.keras.optimizers.Adam(0.1), "mse")
        with session() as run:
            tf.keras.backend.set_session(run)
            try:
                fitted = model.fit(np.array([[[1, 2]], [[3, 4]]]), np.zeros([2, 1]), batch_size=2, epochs=5, verbose=0)
            finally:
                tf.keras.backend.set_session(None)
        assert fitted.history["loss"][-1] < 0.5 * fitted.history["loss"][0]
        assert any(op_types.is_ours(op) and op.get_attr("function") == b"operations.adam.step"
                   for op in tf.get_default_graph().get_operations())


@pytest.mark.parametrize("program", [
    "import sok1x as sok; module = sok.tf.keras.optimizers; "
    "import sys; assert 'tensorflow' not in sys.modules; ours = module.Adam, module.LazyAdamOptimizer",
    "from sok1x.tf.keras.optimizers.adam import Adam; "
    "from sok1x.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer; ours = Adam, LazyAdamOptimizer",
    "import tensorflow.compat.v1 as tf; from sok1x import *; assert tf.Session; import sok1x; "
    "sok1x.__dir__().index('tf'); "
    "sok1x.install_as_sparse_operation_kit(); import sparse_operation_kit as sok; "
    "from sparse_operation_kit.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer; "
    "ours = sok.tf.keras.optimizers.Adam, LazyAdamOptimizer",
], ids=["attributes", "modules", "alias"])
def test_names(program):
    """Lazily, and without a word."""
    program += ("\nassert [each.__module__ + '.' + each.__name__ for each in ours] == ["
                "'sok1x.tf.keras.optimizers.adam.Adam', 'sok1x.tf.keras.optimizers.lazy_adam.LazyAdamOptimizer']\n"
                "import sys; assert not [name for name in sys.modules if name.endswith('contrib.opt')]\n"
                "try: sys.modules['sok1x.tf.keras.optimizers'].Nothing\n"
                "except AttributeError as error: assert 'LazyAdamOptimizer' in str(error)\n"
                "else: raise AssertionError\n")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "")


def test_two_ranks(tmp_path, seed):
    """The same rows, and the same dense variable, as on one rank; also with Horovod for the dense one."""
    results = []
    for ranks in (1, 2):
        out = str(tmp_path / "{}.npz".format(ranks))
        run_ranks(ranks, os.path.join(HERE, "program_adam.py"), out, seed)
        with np.load(out) as loaded:
            results.append(dict(loaded))
    assert len(results[0]) == 2 * 3 * 2
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=1e-5, atol=1e-6, err_msg=name)
