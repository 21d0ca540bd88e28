"""Which checkpoint of a folder is exported: the latest, whoever has saved it."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.files import folders, links, manifest
from sok1x.serving import sources


class Job:
    """A table of one row, whose value a step raises, and what saves it."""

    def __init__(self, folder):
        sok.init()
        self.folder = str(folder)
        with tf.Graph().as_default() as graph:
            table = sok.Variable(np.zeros([1, 2], np.float32), name="table")
            dense = tf.get_variable("dense", [1], initializer=tf.zeros_initializer())
            self.manager = sok.CheckpointManager(self.folder)
            self.saver, self.dense_saver = tf.train.Saver(), tf.train.Saver([dense])
            self._add = table.assign_add(tf.ones([1, 2]), read_value=False)
            self.session = tf.Session(graph=graph)
            self.session.run(tf.global_variables_initializer())
        self.train()

    def train(self):
        self.session.run(self._add)

    def at(self, name):
        return os.path.join(self.folder, name)


def value(source):
    (_, rows), = source.chunks("table")
    return float(rows[0, 0])


def save_whole(job, name, step):
    """As several ranks' Savers save under a prefix: a folder, and links beside it."""
    with job.session.graph.as_default():
        job.manager.save(job.session, step)
    os.rename(folders.step_folder(job.folder, step), job.at(name))
    links.link_files(job.at(name), step, manifest.read(job.at(name)).other_files(), job.at(name))
    tf.train.update_checkpoint_state(job.folder, job.at(name))


def test_a_saver_s_later_checkpoint_is_the_latest(tmp_path):
    job = Job(tmp_path)
    job.manager.save(job.session, 1)
    assert value(sources.open_source(job.folder)) == 1
    job.train()
    job.saver.save(job.session, job.at("model.ckpt"), 2)
    assert value(sources.open_source(job.folder)) == 2
    assert value(sources.open_source(job.folder, 1)) == 1
    job.train()
    job.manager.save(job.session, 3)
    assert value(sources.open_source(job.folder)) == 3
    job.dense_saver.save(job.session, job.at("model.ckpt"), 4)  # without tables: it is not what is looked for
    assert value(sources.open_source(job.folder)) == 3


def test_a_saver_s_checkpoint_that_is_called_as_its_folder(tmp_path):
    job = Job(tmp_path / "name")
    job.saver.save(job.session, job.at("name"))
    assert value(sources.open_source(job.folder)) == value(sources.open_source(job.at("name"))) == 1


@pytest.mark.parametrize("before", [False, True])
def test_a_whole_checkpoint_of_another_name(tmp_path, before):
    job = Job(tmp_path)
    if before:
        job.manager.save(job.session, 1)
    job.train()
    save_whole(job, "my-2", 2)
    assert value(sources.open_source(job.at("my-2"))) == value(sources.open_source(job.folder)) == 2


@pytest.mark.parametrize("by", ["a manager", "a saver", "savers of several ranks"])
def test_a_checkpoint_in_whose_folder_a_run_has_gone_on(tmp_path, by):
    """As restoring has it: the latest in the folder, and each step by its number."""
    first = Job(tmp_path / "first")
    with first.session.graph.as_default():
        start = first.manager.save(first.session, 1)
    assert value(sources.open_source(start)) == value(sources.open_source(first.folder)) == 1
    job = Job(start)
    job.train()
    if by == "a manager":
        job.manager.save(job.session, 2)
    elif by == "a saver":
        job.saver.save(job.session, job.at("model.ckpt"), 2)
    else:
        save_whole(job, "model.ckpt-2", 2)
    assert value(sources.open_source(start)) == value(sources.open_source(start, 2)) == 2
    assert value(sources.open_source(start, 1)) == 1


def test_a_prefix_in_whose_folder_a_run_has_gone_on_is_what_was_saved_to_it(tmp_path):
    first = Job(tmp_path)
    save_whole(first, "my-1", 1)
    job = Job(first.at("my-1"))
    job.train()
    with job.session.graph.as_default():
        job.manager.save(job.session, 2)
    assert value(sources.open_source(first.at("my-1"))) == 1 and value(sources.open_source(job.folder, 2)) == 2


def test_chosen_tables_of_a_marked_graph(tmp_path):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        for name in ("a", "b", "c"):
            table = sok.Variable([[1.0, 2.0]], name=name)
        keys = tf.placeholder(tf.int64, [None], "keys")
        sok.serving.mark_for_serving({"keys": keys}, {"rows": sok.all2all_dense_embedding(table, keys)})
        session.run(tf.global_variables_initializer())
        sok.CheckpointManager(str(tmp_path / "saved")).save(session, 1)
    for name, chosen, expected in (("1", None, ["serving_default"]),
                                   ("2", ["a", "b"], ["a", "b", "serving_default"])):
        path = sok.serving.export_saved_model(str(tmp_path / name), str(tmp_path / "saved"), tables=chosen)
        with tf.Graph().as_default(), tf.Session() as session:
            assert sorted(tf.saved_model.load(session, ["serve"], path).signature_def) == expected
