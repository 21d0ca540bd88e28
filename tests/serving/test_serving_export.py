"""Exported models predict, in a process that cannot import sok1x, what an evaluation has predicted."""
import os
import subprocess
import sys

import numpy as np
import once
import pytest
import tensorflow as tf
from ranks import environment, run_ranks
from tensorflow.python import pywrap_tensorflow

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError
from sok1x.cuda_kernels import row_init
from sok1x.cuda_kernels.arrays import of_numpy
from sok1x.serving import __main__ as command
from sok1x.serving import initial_rows

v1 = tf.compat.v1
HERE = os.path.dirname(os.path.abspath(__file__))
SMALLEST = 2.0 ** -24  # a half's last place below its normal numbers


def exported(folder, ranks, seed, *forms, evaluate_on=None):
    """{(form, output): numbers} that program_served.py has printed."""
    os.makedirs(folder, exist_ok=True)
    program = os.path.join(HERE, "program_export.py")
    run_ranks(ranks, program, folder, seed, *forms, timeout=300)
    if evaluate_on:
        run_ranks(evaluate_on, program, folder, seed, timeout=300)
    done = run_ranks(0, os.path.join(HERE, "program_served.py"), folder, timeout=300)
    lines = [line.split("\t") for line in done.out.splitlines()]
    return {tuple(line[:2]): [float(one) for one in line[2:]] for line in lines}


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What was exported of a model that two ranks have trained: its folder, and what was compared."""
    def make(folder):
        seed = int(os.environ.get("SOK1X_TEST_SEED", np.random.randint(2 ** 31)))
        print("SOK1X_TEST_SEED={}".format(seed))
        return seed, folder, exported(folder, 2, seed, "function", "command", "tables")

    seed, folder, compared = once.made(tmp_path_factory, "serving_export", make)
    print("SOK1X_TEST_SEED={}".format(seed))
    return folder, compared


def test_two_ranks(two_ranks):
    """By a model function, and by the command from a checkpoint alone."""
    found = two_ranks[1]
    assert {form for form, _ in found} == {"function", "command", "tables"}
    off = {name: numbers for name, numbers in found.items() if name[0] != "tables" and numbers[0] != 0}
    assert not off
    seen, unseen, _, beyond = found["tables", "dense"]
    assert seen and unseen and beyond <= SMALLEST


def test_the_loader_that_tensorflow_serving_has(two_ranks):
    """TensorFlow's C API, in a process without TensorFlow's Python: tables, strings, vocabulary and its asset."""
    library = os.path.join(os.path.dirname(pywrap_tensorflow.__file__), "_pywrap_tensorflow_internal.so")
    done = run_ranks(0, os.path.join(HERE, "program_c_api.py"), library, two_ranks[0], "function", fresh=True)
    lines = [line.split() for line in done.out.splitlines()]
    assert len(lines) == len([one for one in two_ranks[1] if one[0] == "function"])
    assert not [line for line in lines if float(line[2])], done.out


def predict(path, values, signature="serving_default"):
    with tf.Graph().as_default(), v1.Session() as session:
        found = v1.saved_model.load(session, ["serve"], path).signature_def[signature]
        return session.run({name: one.name for name, one in found.outputs.items()},
                           {found.inputs[name].name: value for name, value in values.items()})


def test_an_update(two_ranks, tmp_path):
    """Rows changed, added and taken out; all others stay."""
    model = os.path.join(two_ranks[0], "models", "tables", "1")
    values = np.load(os.path.join(two_ranks[0], "batch.npz"), allow_pickle=True)
    every = np.unique(values["dense"])
    before = predict(model, {"keys": every}, "EmbeddingVariable")["rows"]
    known = every[(before != -1.5).any(1)]
    unknown = np.setdiff1d(every, known)
    changed = np.concatenate([known[::2], unknown[::2]])[::-1]
    gone = known[1::4]
    rows = np.random.RandomState(0).randint(-9, 9, [len(changed), 9]).astype(np.float32)
    direct = np.array([7, 0]), np.ones([2, 5])
    path = str(tmp_path / "2")
    files = str(tmp_path / "{}.npz")
    np.savez(files.format(0), keys=changed[:3], values=rows[:3])  # as each rank has written its own
    np.savez(files.format(1), keys=changed[3:], values=rows[3:])
    np.savez(files.format("gone"), keys=gone)
    np.savez(files.format("direct"), keys=direct[0], values=direct[1])
    given = ["--changes", "EmbeddingVariable_2=" + files.format("direct"),
             "--evicted", "EmbeddingVariable=" + files.format("gone")]
    for rank in range(2):
        given += ["--changes", "EmbeddingVariable=" + files.format(rank)]
    assert command.main(["update", model, "--to", path] + given) == 0
    after = predict(path, {"keys": every}, "EmbeddingVariable")["rows"]
    expected = before.copy()
    expected[np.searchsorted(every, gone)] = -1.5
    expected[np.searchsorted(every, changed)] = rows
    np.testing.assert_array_equal(after, expected)
    found = predict(path, {"keys": np.arange(9)}, "EmbeddingVariable_2")["rows"]
    assert (found[[0, 7]] == 1).all() and (found[[1, 8]] != 1).all()
    # The rows that nobody has any more are the first that new keys get.
    length = v1.train.load_checkpoint(os.path.join(path, "variables", "variables")).get_variable_to_shape_map()
    name = "sok1x_tables/EmbeddingVariable/"
    assert length[name + "keys"][0] == len(known) - len(gone) + len(unknown[::2]) + \
        np.setdiff1d(load_keys(model, name), every).size
    assert length[name + "rows"][0] <= 1 + load_keys(model, name).size + len(unknown[::2])
    for wrong, error, words in (
            ({"other": (known, rows)}, CheckpointError, "no table 'other'"),
            ({"EmbeddingVariable": (changed, rows[1:])}, ValueError, "got rows of shape"),
            ({"EmbeddingVariable": (changed[[0, 0]], rows[:2])}, ValueError, "more than once"),
            ({"EmbeddingVariable_2": ([10 ** 6], np.ones([1, 5]))}, ValueError, "expected keys in"),
            ({"EmbeddingVariable": (changed[:1], rows[:1] + 1e6)}, CheckpointError, "float16 has numbers up to")):
        with pytest.raises(error, match=words):
            sok.serving.update_saved_model(model, str(tmp_path / "3"), wrong)
    assert [name for name in os.listdir(str(tmp_path)) if not name.endswith(".npz")] == ["2"]


def test_a_keras_model_and_the_weights_it_saves(tmp_path, seed):
    """Keras names what it saves by where it is in the model."""
    random = np.random.RandomState(seed)
    keys, labels = random.randint(-20, 20, [32, 2]), random.randint(0, 2, 32)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.keras.backend.set_session(session)
        session.run(sok.Init(global_batch_size=32))
        given = tf.keras.Input([2], dtype=tf.int64, name="keys")
        layer = sok.All2AllDenseEmbedding(100, 4, 2, 1, name="ads")
        vectors = tf.keras.layers.Flatten()(layer(tf.keras.layers.Reshape([2, 1])(given)))
        model = tf.keras.Model(given, tf.keras.layers.Dense(1)(tf.keras.layers.Dropout(0.5)(vectors)))
        model.compile("sgd", "mse")
        model.fit(keys, labels, verbose=0)
        model.save_weights(str(tmp_path / "weights"), save_format="tf")
        asked = np.concatenate([keys, keys + 10])
        expected, rows = tf.keras.Model(given, [model.output, vectors]).predict(asked)
        path = sok.serving.export_saved_model(str(tmp_path / "1"), str(tmp_path / "weights"),
                                              inputs={"keys": model.input},
                                              outputs={"score": model.output, "rows": vectors})
    found = predict(path, {"keys": asked})
    np.testing.assert_array_equal(found["rows"], rows)
    # A product of matrices may depend on how many samples there are at a time.
    np.testing.assert_allclose(found["score"], expected, rtol=1e-5, atol=1e-6)
    assert len(np.unique(rows)) > 50 and np.abs(expected).max() > 1e-4


def load_keys(model, name):
    return v1.train.load_checkpoint(os.path.join(model, "variables", "variables")).get_tensor(name + "keys")


@pytest.mark.parametrize("kind, a, b", [("uniform", -0.05, 0.05), ("uniform", 0.2, -0.1),
                                        ("normal", 0.1, 0.3), ("truncated_normal", 0.0, 0.2)])
def test_first_rows_by_stock_ops_are_those_of_the_kernel(kind, a, b, seed):
    random = np.random.RandomState(seed)
    keys = np.concatenate([random.randint(-2 ** 63, 2 ** 63 - 1, 3000, dtype=np.int64), np.arange(-5, 5),
                           [-2 ** 63, 2 ** 63 - 1]]).astype(np.int64)
    table = int(random.randint(2 ** 62)) * 4 + 3
    missing = random.rand(len(keys)) < 0.8
    with tf.Graph().as_default(), v1.Session() as session:
        expected, made = [], []
        for dim in (1, 6, 16):
            rows = np.zeros([len(keys), dim], np.float32)
            row_init.initial_rows(seed, table, of_numpy(keys), kind, a, b, None, of_numpy(rows))
            rows[~missing] = 7
            expected.append(rows)
            draw = initial_rows.Draw(initial_rows.stream_of(seed, table), kind, a, b)
            made.append(initial_rows.filled(tf.fill([len(keys), dim], 7.0), tf.constant(keys), tf.constant(missing),
                                            draw))
        for found, rows in zip(session.run(made), expected):
            np.testing.assert_array_equal(found, rows)


@pytest.mark.slow
def test_four_ranks(tmp_path, seed):
    """On each number of ranks sums are rounded at other places; the export has them at the same."""
    found = exported(str(tmp_path / "as saved"), 4, seed, "function", "command")
    assert found and not {name: numbers for name, numbers in found.items() if numbers[0] != 0}


@pytest.mark.slow
def test_an_evaluation_on_another_number_of_ranks(tmp_path, seed):
    """What one rank predicts that restores what two have saved: with ranks=1, and without it almost."""
    found = exported(str(tmp_path), 2, seed, "one rank", "function", evaluate_on=1)
    assert not {name: numbers for name, numbers in found.items() if name[0] == "one rank" and numbers[0] != 0}
    off = {name[1]: numbers[0] for name, numbers in found.items() if name[0] == "function" and numbers[0] != 0}
    assert off and max(off.values()) < 0.05 and not {"dense", "auto_float32_sum", "sok2_float32_sum"} & set(off), off


@pytest.mark.slow
def test_one_rank_in_all_forms(tmp_path, seed):
    """By tensors of the training graph, in float16, and from a tf.train.Saver's files."""
    found = exported(str(tmp_path), 1, seed, "tensors", "half", "plain", "function")
    assert not {name: numbers for name, numbers in found.items() if name[0] != "half" and numbers[0] != 0}
    for output in ("dense", "small", "direct"):  # rows as they are
        assert found["half", output][1] <= SMALLEST
    assert found["half", "score"][0] < 0.01  # which may be the same, by chance; but not all are
    assert any(numbers[0] > 0 for name, numbers in found.items() if name[0] == "half")


@pytest.mark.slow
def test_a_table_of_more_than_two_gigabytes(tmp_path):
    """It is put together from two ranks' shards in a process that never has it in memory."""
    program = os.path.join(HERE, "program_large.py")
    assert run_ranks(2, program, "make", tmp_path, timeout=900, check=False).code == 0
    export = run_ranks(0, program, "export", tmp_path, timeout=900, check=False)  # which tells how far it is
    assert export.code == 0, str(export)
    grew = export.out.split()
    model = tmp_path / "model" / "1" / "variables"
    assert sum(os.path.getsize(str(model / name)) for name in os.listdir(str(model))) > 2 ** 31
    # 36 bytes for each of 9 million keys, and parts of files.
    assert int(grew[-1]) < 36 * 9000000 + (300 << 20), grew
    run_ranks(0, program, "serve", tmp_path, timeout=900)


@pytest.mark.slow
def test_saved_model_cli(tmp_path, seed):
    """`saved_model_cli run` loads the default signature of tables alone."""
    exported(str(tmp_path), 1, seed, "tables")
    model = str(tmp_path / "models" / "tables" / "1")
    program = os.path.join(os.path.dirname(sys.executable), "saved_model_cli")
    done = subprocess.run(
        [program, "run", "--dir", model, "--tag_set", "serve", "--signature_def", "EmbeddingVariable",
         "--input_exprs", "keys=[1, -7, {}]".format(2 ** 62), "--outdir", str(tmp_path / "out")],
        env=environment({"PYTHONPATH": ""}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
        timeout=300)
    assert done.returncode == 0, done.stdout
    assert np.load(str(tmp_path / "out" / "rows.npy")).shape == (3, 9)


SEEDS = """
import sys
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)
import sok1x as sok
how, folder = sys.argv[1:]

def model(keys, **seed):
    layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=8, embedding_vec_size=2, slot_num=1, nnz_per_slot=1)
    rows = layer(keys)
    return rows, sok.Scaffold(global_batch_size=1, **seed)

def served(**seed):
    keys = tf.placeholder(tf.int64, [None, 1, 1])
    return {"keys": keys}, {"rows": model(keys, **seed)[0]}

if how == "train":
    with tf.Graph().as_default(), tf.Session() as session:
        rows, _ = model(tf.constant([[[7]]], tf.int64), seed=5)
        session.run(sok.Init(global_batch_size=1, seed=5))
        session.run(tf.global_variables_initializer())
        sok.CheckpointManager(folder + "/saved").save(session, 1)
else:
    export = lambda **seed: sok.serving.export_saved_model(
        folder + "/" + how, folder + "/saved", lambda: served(**seed))
    export(seed=5) if how == "own" else export()
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(sok.Init(global_batch_size=4, seed=6 if how == "later" else 5)) == b"OK"
print("ok")
"""


def test_a_model_that_a_function_builds_may_have_its_own_seed(tmp_path):
    for how in ("train", "own", "later"):
        assert "ok" in run_ranks(0, SEEDS, how, tmp_path).out
