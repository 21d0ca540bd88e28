"""Checkpoints that this user may not look into are not taken for none; and what is none is not passed over silently."""
import os
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf
from other_user import as_nobody, needs_root, open_folder

import sok1x as sok
from sok1x.checkpoint.files import folders, giving_way, prefixes, retiring
from sok1x.checkpoint.files.folder_lock import FolderLock
from sok1x.checkpoint.session import ranks


class Loop:
    """A table in a session, and a manager."""

    def __init__(self, path):
        sok.init()
        with tf.Graph().as_default() as graph:
            self.table = sok.Variable(np.zeros([4, 2], np.float32), name="table")
            self._add = self.table.assign_add(tf.ones([4, 2]), read_value=False)
            self.manager = sok.CheckpointManager(path)
            init = tf.global_variables_initializer()
            self.session = tf.Session(graph=graph)
            self.session.run(init)

    def save(self, step):
        self.session.run(self._add)
        self.manager.save(self.session, step)

    def restore(self):
        return self.manager.restore(self.session)


@needs_root
def test_what_may_not_be_looked_into_is_no_older_checkpoint_and_not_none(request):
    path = open_folder(request)
    loop = Loop(path)
    for step in (1, 2):
        loop.save(step)
    last = folders.step_folder(path, 2)
    os.chmod(last, 0o700)
    for look in (lambda: folders.latest(path), lambda: folders.find(path), lambda: folders.find(path, 1),
                 lambda: folders.find(last), lambda: prefixes.folder_of(last)):
        told = as_nobody(look)
        assert told.startswith("CheckpointError: Cannot read {}".format(last)), told
        assert told.endswith("(whether there is a checkpoint): Permission denied."), told
    os.chmod(path, 0o700)
    told = as_nobody(lambda: folders.latest(path))
    assert told.endswith("Cannot read {} (the folder of checkpoints): Permission denied.".format(path)), told
    told = as_nobody(lambda: ranks.expect_seen(last, "found"))
    assert told.endswith("Cannot read {} (the folder that rank 0 has found): Permission denied.".format(last)), told
    assert loop.restore() == 2


@needs_root
def test_one_that_may_not_be_written_to_is_not_removed(request):
    """Its user protects it: it is not put out of sight either, and the others go as ever."""
    path = open_folder(request)
    loop = Loop(path)
    for step in (1, 2, 3, 4):
        loop.save(step)
    loop.manager._saving.close()
    for folder, _, names in os.walk(path):
        for one in [folder] + [os.path.join(folder, name) for name in names]:
            os.chown(one, 65534, 65534)
    os.chmod(folders.step_folder(path, 2), 0o555)

    def retired():
        with FolderLock(path) as lock:
            for keep in (2, 1):
                giving_way.remove(retiring.retire(lock, keep))
        return [found.step for found in folders.complete(path)]

    assert as_nobody(retired) == "[4, 2]"
    assert [name for name in sorted(os.listdir(path)) if "ckpt" in name] == ["model.ckpt-2", "model.ckpt-4"]


@needs_root
def test_of_one_that_is_replaced_nothing_stays_whoever_protects_it(request):
    path = open_folder(request)
    replaced = os.path.join(path, ".model.ckpt-4.aa.old")
    os.makedirs(os.path.join(replaced, "below"))
    for folder in (path, replaced, os.path.join(replaced, "below")):
        os.chown(folder, 65534, 65534)
    os.chmod(replaced, 0o555)
    assert as_nobody(lambda: giving_way.remove([replaced])) == "None"
    assert os.listdir(path) == []


def test_a_later_folder_that_is_no_checkpoint_is_told(tmp_path):
    loop = Loop(str(tmp_path))
    for step in (1, 2, 3):
        loop.save(step)
    os.remove(str(tmp_path / "model.ckpt-3" / "manifest.json"))
    os.symlink(str(tmp_path / "model.ckpt-1"), str(tmp_path / "model.ckpt-9"))
    os.symlink(str(tmp_path / "model.ckpt-1"), str(tmp_path / "model.ckpt-0"))
    assert [os.path.basename(one) for one in folders.passed_over(str(tmp_path))] == ["model.ckpt-3", "model.ckpt-9"]
    with mock.patch.object(tf.logging, "warning") as warning:
        assert loop.restore() == 2
    told = [call[0][0] % call[0][1:] for call in warning.call_args_list]
    assert len(told) == 2 and told[0].startswith(str(tmp_path / "model.ckpt-3") + " has no manifest.json"), told
    assert (loop.session.run(loop.table) == 2).all()
    os.remove(str(tmp_path / "model.ckpt-9"))
    loop.save(3)
    assert not folders.passed_over(str(tmp_path))
    assert (loop.session.run(loop.table) == 3).all() and loop.restore() == 3
