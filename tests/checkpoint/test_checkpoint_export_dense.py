"""Dense variables in an export as a TensorFlow checkpoint: a stock model starts from it as a whole."""
import os
import re

import made_checkpoints
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint import __main__ as command

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_export_dense.py")


def loss_of(ranks, *arguments):
    """The average loss, and the step, that every rank says."""
    said = re.findall(r"loss (\S+) after (\d+)", run_ranks(ranks, PROGRAM, *arguments, timeout=200).out)
    assert len(said) == max(1, ranks) and len(set(said)) == 1, said
    return float(said[0][0]), int(said[0][1])


def test_a_stock_estimator_starts_from_a_checkpoint_of_two_ranks(tmp_path, capsys):
    loss, step = loss_of(2, tmp_path, "ours")
    assert step == 6 and loss < 0.65
    prefix = str(tmp_path / "out" / "whole")
    assert command.main(["export", str(tmp_path / "ours"), "--format", "tensorflow", "--output", prefix,
                         "--dense", "--rows", "9"]) == 0
    assert sorted(os.path.basename(path) for path in capsys.readouterr().out.split()) == sorted(
        os.listdir(str(tmp_path / "out")))
    names = [name for name, _ in tf.train.list_variables(prefix)]
    layer = "dnn/input_from_feature_columns/input_layer/"
    assert {layer + "ab/embedding_weights", layer + "k_embedding/embedding_weights", "dnn/logits/bias",
            "dnn/hiddenlayer_0/kernel", "global_step"} <= set(names)
    assert not [name for name in names if name.endswith(("/steps", "/stamps", "embedding_weights/Adagrad"))]
    one = str(tmp_path / "one")
    assert command.main(["export", str(tmp_path / "ours"), "--format", "tensorflow", "--output", one, "--dense",
                         "--table", layer + "k_embedding/embedding_weights"]) == 0
    assert {name for name, _ in tf.train.list_variables(one)} == set(names) - {layer + "ab/embedding_weights"}
    assert loss_of(0, tmp_path, "stock", prefix) == (pytest.approx(loss, rel=1e-6), 1)


def test_dense_variables_that_are_damaged_or_not_there(tmp_path, seed, capsys):
    table = made_checkpoints.direct_table(np.random.RandomState(seed))
    for dense, words in ((False, "There are no dense variables in"), (True, "model.ckpt-7.index")):
        directory = tmp_path / str(dense)
        folder = made_checkpoints.save(directory, [table], dense=dense)
        if dense:
            with open(os.path.join(folder, "model.ckpt-7.index"), "r+b") as file:
                file.write(b"x")
        assert command.main(["export", str(directory), "--format", "tensorflow", "--output", str(tmp_path / "o"),
                             "--dense"]) == 1
        told = capsys.readouterr()
        assert words in told.err and not told.out and not (tmp_path / "o.index").exists()


def test_strings_that_end_with_zeros(tmp_path):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0]], name="table")
        for name, value in (("scalar", b"x\0"), ("array", [b"y\0", b""])):
            tf.get_variable(name, initializer=tf.constant(value), use_resource=True)
        manager = sok.CheckpointManager(str(tmp_path / "ours"))
        session.run(tf.global_variables_initializer())
        folder, prefix = manager.save(session, 1), str(tmp_path / "o")
    assert command.main(["export", folder, "--format", "tensorflow", "--output", prefix, "--dense"]) == 0
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("scalar") == b"x\0" and reader.get_tensor("array").tolist() == [b"y\0", b""]
    assert reader.get_variable_to_shape_map()["scalar"] == []
