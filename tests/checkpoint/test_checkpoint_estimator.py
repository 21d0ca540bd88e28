"""tf.estimator.Estimator on any number of ranks, with TensorFlow's own checkpoints and one line of ours."""
import glob
import os
import re

import tensorflow.compat.v1 as tf
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "program_estimator.py")


def run(ranks, folder, *what, saved_by="own", check=True):
    finished = run_ranks(ranks, PROGRAM, folder, saved_by, *what, timeout=180, check=check)
    done = re.findall(r"^rank (\d) did (\w+) from (\d+) to (\d+)$", finished.out, re.MULTILINE)
    assert len(done) == ranks * len(what) * len(saved_by.split(",")) or not check, str(finished)
    return [(name, int(first), int(last)) for rank, name, first, last in done if rank == "0"]


def test_trains_evaluates_predicts_and_goes_on_after_a_kill_on_any_number_of_ranks(tmp_path):
    root = str(tmp_path)
    folder = os.path.join(root, "own")
    run(2, root, "train:6", "evaluate:6", "predict:6", "kill:15", check=False)
    # The checkpoint of step 14 is there, or whole ones of steps before: the kill came in step 15.
    assert tf.train.latest_checkpoint(folder).endswith("-14"), os.listdir(folder)
    assert run(2, root, "evaluate:14", "train:17", "evaluate:17", "both:24", "predict:24") == [
        ("evaluate", 14, 14), ("train", 14, 17), ("evaluate", 17, 17), ("both", 17, 24), ("predict", 24, 24)]

    # What TensorFlow's users look for is there, once: rank 0's.
    state = tf.train.get_checkpoint_state(folder)
    steps = [int(path.split("-")[-1]) for path in state.all_model_checkpoint_paths]
    assert steps == [17, 21, 24]
    assert sorted(os.path.basename(path) for path in glob.glob(folder + "/*.index")) == [
        "model.ckpt-{}.index".format(step) for step in steps]
    assert not [name for name in os.listdir(folder) if name.endswith((".tmp", ".old", ".gone"))]
    events = glob.glob(folder + "/events.*")
    assert len(events) == len({path.split(".")[-2] for path in events}) and events
    for path in events:
        try:
            list(tf.train.summary_iterator(path))
        except tf.errors.DataLossError as error:  # two writers of one file would give 'corrupted record'
            assert "truncated record" in error.message, "the killed job's"

    # On one rank and back on two.
    assert run(1, root, "evaluate:24", "train:30", "evaluate:30")[1] == ("train", 24, 30)
    assert run(2, root, "evaluate:30", "train:33", "evaluate:33", "early:0") == [
        ("evaluate", 30, 30), ("train", 30, 33), ("evaluate", 33, 33), ("early", 33, 33)]


def test_with_hooks_of_ours(tmp_path):
    """What they save is what evaluate() and the next train() restore, on two ranks and on one."""
    assert run(2, str(tmp_path), "train:6", "evaluate:6", "train:9", "predict:9", saved_by="hook,listener") == 2 * [
        ("train", 0, 6), ("evaluate", 6, 6), ("train", 6, 9), ("predict", 9, 9)]
    assert run(1, str(tmp_path), "evaluate:9", "train:12", "evaluate:12", saved_by="hook,listener") == 2 * [
        ("evaluate", 9, 9), ("train", 9, 12), ("evaluate", 12, 12)]


def test_a_cluster_of_tf_config_is_refused_where_ranks_would_wait_for_it(tmp_path):
    finished = run_ranks(2, os.path.join(HERE, "program_estimator_cluster.py"), tmp_path, timeout=300)
    assert finished.out.count(" ok") == 2, str(finished)
