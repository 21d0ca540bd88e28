"""A checkpoint that another job replaces, or removes, while it is being looked for or restored: never half of each."""
import itertools
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from prefix_checkpoints import TOKEN
from prefix_checkpoints import make as make_at
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.files import folders, prefixes, publishing, retiring
from sok1x.checkpoint.files.folder_lock import FolderLock
from sok1x.checkpoint.session import restoring, transfer


def looked_at(monkeypatch, saver, when, find):
    """What `find` gives if each of a saver's acts is done before the reader's look of that number."""
    acts, number, busy = list(zip(when, saver)), [0], []

    def looking(act):
        def look(*arguments, **options):
            if not busy:
                busy.append(True)
                number[0] += 1
                while acts and acts[0][0] <= number[0]:
                    acts.pop(0)[1]()
                busy.pop()
            return act(*arguments, **options)
        return look

    with monkeypatch.context() as patch:
        for name in ("lstat", "scandir", "listdir"):
            patch.setattr(os, name, looking(getattr(os, name)))
        try:
            return find()
        finally:
            busy.append(True)


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("how", ["of a step", "the last", "of a prefix"])
def test_who_looks_while_one_is_replaced_finds_one(tmp_path, monkeypatch, how, undone):
    """Whenever it steps aside, its successor gets the name, or it gets it back, and what is aside goes."""
    directory, other = str(tmp_path / "saved"), str(tmp_path / "other")
    final, new = (folders.step_folder(folder, 5) for folder in (directory, other))
    aside = folders.hidden(final, TOKEN, "old")
    saver = [lambda: os.rename(final, aside)] + (
        [lambda: os.rename(aside, final)] if undone else [lambda: os.rename(new, final), lambda: shutil.rmtree(aside)])
    find = {"of a step": lambda: folders.find(directory, 5), "the last": lambda: folders.find(directory),
            "of a prefix": lambda: prefixes.folder_of(final)}[how]
    missed = []
    for when in itertools.combinations_with_replacement(range(1, 9), len(saver)):
        make_at(folders.step_folder(directory, 4), link=False, step=4)  # which is not to be taken for the last
        make_at(final, link=False, step=5)
        make_at(new, "new", link=False, step=5)
        try:
            found = looked_at(monkeypatch, saver, when, find)
        except CheckpointError as error:
            found = error
        if found not in (final, aside):
            missed.append((when, found))
        shutil.rmtree(directory)
        shutil.rmtree(other)
    assert not missed


@pytest.mark.parametrize("left", [False, True])
def test_what_a_removal_that_died_has_left_goes(tmp_path, monkeypatch, left):
    """Only the state file, say, which might be what a dump has put aside. left: the one replaced is a dead job's."""
    final = folders.step_folder(str(tmp_path), 1)
    make_at(final, link=False, others=["checkpoint"])
    if left:
        shutil.copytree(final, folders.hidden(final, TOKEN, "old"))

    def rmtree(folder, **_options):
        for name in set(os.listdir(folder)).difference(["checkpoint"]):
            os.unlink(os.path.join(folder, name))
        raise KeyboardInterrupt

    with FolderLock(str(tmp_path)) as lock:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(shutil, "rmtree", rmtree)
            retiring.remove_leftovers(lock)
            make_at(final, "new", link=False)
        assert len(folders.hidden_of(final)) == 1
        retiring.remove_leftovers(lock)
    assert folders.hidden_of(final) == [] and folders.is_complete(final)


@pytest.mark.parametrize("removed", [False, True], ids=["replaced", "removed"])
def test_a_checkpoint_that_goes_while_it_is_restored(tmp_path, monkeypatch, removed):
    folder, there, run_all = str(tmp_path / "checkpoints"), [], transfer.run_all
    with tf.Graph().as_default(), tf.Session() as session:
        layer = sok.All2AllDenseEmbedding(8, 2, 1, 1, use_hashtable=False)
        layer(tf.constant([[[1]]], tf.int64))
        table = layer.embedding_variable
        dense, value = tf.get_variable("dense", [], use_resource=True), tf.placeholder(tf.float32, [])
        rows = sok.assign(table, np.arange(8), tf.fill([8, 2], value))
        put = tf.group(rows, tf.assign(dense, value))
        manager = sok.CheckpointManager(folder)
        session.run(sok.Init(global_batch_size=1))
        session.run(tf.global_variables_initializer())
        for number in (1.0, 2.0):
            session.run(put, {value: number})
            path = manager.save(session, 5)
            there.append(shutil.copytree(path, str(tmp_path / "save{}".format(number))))

        def others_save(*arguments):
            run_all(*arguments)
            if removed:
                shutil.rmtree(path)
            else:
                publishing.publish_as(there[0], path)
        monkeypatch.setattr(restoring.transfer, "run_all", others_save)
        with pytest.raises(CheckpointError, match="has replaced or removed the checkpoint in .*ckpt-5 while"):
            manager.restore(session)
        monkeypatch.undo()
        if not removed:
            assert manager.restore(session) == 5
            np.testing.assert_array_equal(session.run(table), np.full([8, 2], 1.0))
            assert session.run(dense) == 1.0


def test_one_ranks_checkpoint_that_goes_while_several_restore_it(tmp_path):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_replaced_one_rank.py")
    run_ranks(1, program, tmp_path, "saved", timeout=180)
    finished = run_ranks(2, program, tmp_path, "replaced", "removed", timeout=180)
    for rank in range(2):
        assert "rank {} did removed\n".format(rank) in finished.out, str(finished)
