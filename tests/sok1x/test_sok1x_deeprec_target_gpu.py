"""EmbeddingVariable.target_gpu: which rank has all rows, and when it can be set no more."""
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import deeprec
from sok1x.deeprec import EmbeddingVariableOption as Option
from sok1x.deeprec import config_pb2


@pytest.fixture(autouse=True)
def one_graph():
    sok.init()
    with tf.Graph().as_default():
        yield


def test_target_gpu():
    items = deeprec.get_embedding_variable("items", 2)
    items.target_gpu = -1
    for wrong, kind in ((5, ValueError), (-2, ValueError), ("0", TypeError)):
        with pytest.raises(kind, match="target_gpu: got"):
            items.target_gpu = wrong
    items.target_gpu = 0
    assert items.mode == "localized:0" and items.target_gpu == 0
    deeprec.group_embedding_lookup([items], [[7]])
    with pytest.raises(ValueError, match="looked up already"):
        items.target_gpu = -1


@pytest.mark.parametrize("inside", [
    lambda look: tf.cond(tf.placeholder_with_default(True, []), look, lambda: tf.zeros([1, 2])),
    lambda look: tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, look()), [0, tf.zeros([1, 2])]),
    lambda look: tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, tf.cond(i > 0, look, lambda: tf.zeros([1, 2]))),
                               [0, tf.zeros([1, 2])])], ids=["branch", "loop", "branch of a loop"])
def test_target_gpu_after_a_lookup_in(inside):
    tf.disable_control_flow_v2()
    items, others = (deeprec.get_embedding_variable(name, 2) for name in ("items", "others"))
    inside(lambda: tf.ensure_shape(deeprec.group_embedding_lookup([items], [[7]])[0], [1, 2]))
    with pytest.raises(ValueError, match="looked up already"):
        items.target_gpu = 0
    others.target_gpu = 0


@pytest.mark.parametrize("make, op", [
    (lambda items, folder: sok.assign(items, [7], [[1.0, 2.0]]), "assign/assign_rows"),
    (lambda items, folder: tf.cond(
        tf.placeholder_with_default(True, []),
        lambda: tf.group(sok.assign(items, [7], [[1.0, 2.0]])), tf.no_op), "cond/assign/assign_rows"),
    (lambda items, folder: tf.train.Saver(), "save_shard"),
    (lambda items, folder: sok.CheckpointManager(folder), "save_shard"),
    (lambda items, folder: sok.Saver().restore_from_file(items, folder), "restore_from_file"),
    (lambda items, folder: sok.Saver().dump_to_file(items, folder), "dump_to_file"),
    (lambda items, folder: sok.Saver().load_embedding_values(items, tf.ones([3, 2])), "load_embedding_values")],
    ids=["assign", "branch", "tf.train.Saver", "manager", "restore", "dump", "values"])
def test_target_gpu_after_an_op_that_goes_by_place(make, op, tmp_path):
    tf.disable_control_flow_v2()
    items = deeprec.get_embedding_variable("items", 2)
    make(items, str(tmp_path))
    with pytest.raises(ValueError, match="target_gpu: got 0 for a table whose rows op '{}' assigns, saves".format(op)):
        items.target_gpu = 0
    items.target_gpu = -1  # as it is


@pytest.mark.parametrize("options", [
    dict(evict_option=deeprec.GlobalStepEvict(3)), dict(evict_option=deeprec.L2WeightEvict(0.5)),
    dict(filter_option=deeprec.CounterFilter(2)), dict(storage_option=deeprec.StorageOption(config_pb2.HBM_DRAM))],
    ids=["steps", "norms", "filter", "hybrid"])
def test_target_gpu_of_a_table_that_has_ops_of_its_own(options):
    items = deeprec.get_embedding_variable("items", 2, ev_option=Option(**options))
    for rank in (0, -1, 0):
        items.target_gpu = rank
    assert items.mode == "localized:0"


def test_target_gpu_after_what_does_not_go_by_place(tmp_path):
    others = deeprec.get_embedding_variable("others", 2)
    sok.assign(others, [7], [[1.0, 2.0]])
    items = deeprec.get_embedding_variable("items", 2, initializer=3.0)
    looks = [sok.export(items)[0], sok.table_stats(items), items.rows_in_use(), items.total_count(), items.read_value()]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(looks)
        sok.dump(str(tmp_path), [items])
        for rank in (0, -1, 0):
            items.target_gpu = rank
        rows, = deeprec.group_embedding_lookup([items], [[7]])
        assert session.run(rows).tolist() == [[3, 3]]
        sok.dump(str(tmp_path), [items])
        session.run(sok.assign(items, [7], [[0.0, 0.0]]))
        sok.load(str(tmp_path), [items])
        assert session.run(rows).tolist() == [[3, 3]]
