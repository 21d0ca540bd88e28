"""What a Saver's checkpoint has beside its folder comes and goes with the folder, whoever takes that away."""
import contextlib
import errno
import glob
import os
from unittest import mock

import made_checkpoints
import numpy as np
import pytest
from ranks import run_ranks

from sok1x.checkpoint.errors import WriteError
from sok1x.checkpoint.files import (
    folder_lock,
    folders,
    giving_way,
    links,
    manifest,
    prefixes,
    publishing,
    retiring,
    writing,
)
from sok1x.checkpoint.files.folder_lock import FolderLock
from sok1x.checkpoint.savers.prefix_saving import PrefixSaving

TOKEN = "0123456789abcdef"
ENDINGS = (".data-00000-of-00001", ".index")


def make(directory, step, content=b"old", link=True, publish=True, meta=False):
    """A checkpoint of a table and of two files of TensorFlow's."""
    table = made_checkpoints.direct_table(np.random.RandomState(0), ranks=1, rows=2, dim=4)
    final = folders.step_folder(str(directory), step)
    folder = publishing.make_temporary(final, folders.new_token())
    outcome = made_checkpoints.save_shard(folder, TOKEN, step, table, 0)
    for ending in ENDINGS + ((".meta",) if meta else ()):
        with open(folders.tensorflow_prefix(folder, step) + ending, "wb") as file:
            file.write(content + ending.encode())
    made = writing.assemble(TOKEN, step, [[outcome]], writing.tensorflow_files(folder))
    manifest.write(folder, made)
    if publish:
        publishing.publish(folder, str(directory), step)
    if link:
        links.link_files(final, step, made.other_files(), final)
    return final if publish else folder


def beside(directory):
    """{name: content} of all files beside the folders."""
    found = {}
    for path in glob.glob(str(directory) + "/*"):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                found[os.path.basename(path)] = file.read()
    return found


def of(step, content=b"old", endings=ENDINGS):
    return {"model.ckpt-{}{}".format(step, ending): content + ending.encode() for ending in endings}


@pytest.fixture
def lock(tmp_path):
    with FolderLock(str(tmp_path)) as held:
        yield held


@pytest.fixture(params=[True, False], ids=["links", "copies"])
def with_links(request, monkeypatch):
    """Whether the file system has hard links."""
    def refused(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not request.param:
        monkeypatch.setattr(os, "link", refused)
    return request.param


def test_one_that_is_not_kept_leaves_nothing_beside_it(tmp_path, lock, with_links):
    for step in (1, 2, 3):
        make(tmp_path, step, meta=True)
    giving_way.remove(retiring.retire(lock, 1))
    assert beside(tmp_path) == of(3, endings=ENDINGS + (".meta",))
    assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "model.ckpt-3"] + sorted(beside(tmp_path))


@pytest.mark.parametrize("dies_at", range(4))
def test_a_death_while_one_is_taken_away(tmp_path, lock, monkeypatch, dies_at):
    """It is whole, or gone; never half of it, which TensorFlow finds by its index."""
    make(tmp_path, 1)
    make(tmp_path, 2)
    unlink, rename, done = os.unlink, os.rename, []

    def dying(act):
        def called(*paths):
            if len(done) == dies_at:
                raise KeyboardInterrupt
            done.append(act(*paths))
        return called

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", dying(unlink))
        patch.setattr(os, "rename", dying(rename))
        try:
            retiring.retire(lock, 1)
        except KeyboardInterrupt:
            pass
    assert [one.step for one in folders.complete(str(tmp_path))] == ([2, 1] if dies_at < 3 else [2])
    assert not dies_at or "model.ckpt-1.index" not in beside(tmp_path)
    retiring.remove_leftovers(lock)
    giving_way.remove(retiring.retire(lock, 1))
    assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "model.ckpt-2"] + sorted(of(2))


@pytest.mark.parametrize("how", ["data", "index", "same file", "link", "same length"])
@pytest.mark.parametrize("replaced", [False, True])
def test_what_another_has_saved_beside_it_stays(tmp_path, lock, how, replaced):
    """As a tf.train.Saver on one rank does: its data anew, and its index into the file that is there."""
    prefix = make(tmp_path, 1)
    target = prefix + (".data-00000-of-00001" if how == "data" else ".index")
    if how != "same file":
        os.unlink(target)
    if how == "link":
        os.symlink(folders.tensorflow_prefix(prefix, 1) + ".index", target)
    else:
        with open(target, "wb") as file:
            file.write(b"his.index" if how == "same length" else b"another's")
    before = beside(tmp_path)
    if replaced:
        make(tmp_path, 1, b"new", link=False)
    else:
        make(tmp_path, 2, link=False)
        giving_way.remove(retiring.retire(lock, 1))
        assert [one.step for one in folders.complete(str(tmp_path))] == [2]
    after = beside(tmp_path) if how != "link" else {name: before[name] for name in os.listdir(str(tmp_path))
                                                    if name in before}
    assert after == before


def test_one_that_is_saved_anew_has_its_own_files_beside_it(tmp_path, with_links):
    prefix = make(tmp_path, 1, meta=True)
    make(tmp_path, 1, b"new", link=False)
    assert beside(tmp_path) == of(1, b"new")
    for ending in ENDINGS:
        assert os.path.samefile(prefix + ending, folders.tensorflow_prefix(prefix, 1) + ending) == with_links
    assert not [name for name in os.listdir(str(tmp_path)) if name.endswith((".old", ".tmp"))]


def test_one_without_links_gets_none(tmp_path):
    make(tmp_path, 1, link=False)
    make(tmp_path, 1, b"new", link=False)
    assert beside(tmp_path) == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError], ids=["dies", "refused"])
@pytest.mark.parametrize("at", range(8))
def test_a_death_while_one_is_saved_anew(tmp_path, lock, monkeypatch, at, error):
    """Where an index is beside it, the data is that index's; and the next job puts right what is not the folder's."""
    final = make(tmp_path, 1)
    temporary = make(tmp_path, 1, b"new", link=False, publish=False)
    done = []

    def stopping(act):
        def called(*paths):
            if len(done) == at:
                done.append(None)
                raise error(errno.EIO, os.strerror(errno.EIO))
            done.append(None)
            act(*paths)
        return called

    with monkeypatch.context() as patch:
        patch.setattr(giving_way, "remove", lambda paths: None)
        patch.setattr(folders, "at_work", set())
        for name in ("unlink", "rename", "replace", "link"):
            patch.setattr(os, name, stopping(getattr(os, name)))
        try:
            publishing.publish(temporary, str(tmp_path), 1)
        except (KeyboardInterrupt, WriteError):
            pass
    there = {name: content for name, content in beside(tmp_path).items() if not name.endswith(".tmp")}
    assert there in (of(1), of(1, b"new")) or "model.ckpt-1.index" not in there
    found, = folders.complete(str(tmp_path))
    with open(found.prefix + ".index", "rb") as file:
        content = file.read()[:3]
    retiring.remove_leftovers(lock)
    assert [one.folder for one in folders.complete(str(tmp_path))] == [final]
    assert beside(tmp_path) == of(1, content) and content == (b"new" if at > 1 else b"old")
    assert sorted(os.listdir(str(tmp_path))) == [folder_lock.NAME, "model.ckpt-1"] + sorted(of(1))


@pytest.mark.parametrize("at", range(13))
def test_a_death_while_a_saver_saves_one_anew(tmp_path, monkeypatch, at):
    """Where an index is beside it, the data is that index's; and a save of the next step puts right what is not."""
    prefix, done = make(tmp_path, 1), []
    saver = PrefixSaving([], None, mock.Mock(rank=0))
    saver._directory, saver._prefix, saver._lock = str(tmp_path), prefix, FolderLock(str(tmp_path))
    saver._complete = lambda _session, folder, *_: manifest.read(folder).other_files()
    temporary = make(tmp_path, 1, b"new", link=False, publish=False)

    def dying(act):
        def called(*paths, **options):
            if len(done) == at:
                raise KeyboardInterrupt
            done.append(act(*paths, **options))
        return called

    with monkeypatch.context() as patch:
        patch.setattr(folders, "at_work", set())
        for name in ("unlink", "rename", "replace", "link"):
            patch.setattr(os, name, dying(getattr(os, name)))
        with contextlib.suppress(KeyboardInterrupt):
            saver._publish(None, temporary, TOKEN, 1, [])
    there = {name: content for name, content in beside(tmp_path).items() if not name.endswith(".tmp")}
    assert there in (of(1), of(1, b"new")) or "model.ckpt-1.index" not in there
    prefixes.remove_leftovers(str(tmp_path / "model.ckpt-2"))  # as a Saver of the next step does
    prefixes.remove_leftovers(prefix)
    assert beside(tmp_path) == of(1, b"new" if at > 1 else b"old")
    assert sorted(os.listdir(str(tmp_path))) == ["model.ckpt-1"] + sorted(of(1))


def test_a_link_that_has_no_name_yet_goes_with_the_leftovers(tmp_path, lock):
    make(tmp_path, 1)
    name = "model.ckpt-1.data-00000-of-00001.{}.tmp"
    stay = [name.format("00ff"), "other" + name.format(TOKEN), name.format(TOKEN[::-1])]
    for one in stay + [name.format(TOKEN)]:
        (tmp_path / one).write_bytes(b"")
    folders.at_work.add(TOKEN[::-1])  # another thread's
    try:
        retiring.remove_leftovers(lock)
    finally:
        folders.at_work.discard(TOKEN[::-1])
    assert set(beside(tmp_path)) == set(of(1)) | set(stay)


def test_files_of_the_checkpoint_around_are_no_links(tmp_path):
    """They may be the same files: see `prefixes.replace_around`."""
    start = make(tmp_path, 1)
    inner = make(start, 1, link=False)
    for ending in ENDINGS:
        os.unlink(inner + ending)
        os.link(folders.tensorflow_prefix(inner, 1) + ending, inner + ending)
    make(start, 2, link=False)
    with FolderLock(start) as held:
        giving_way.remove(retiring.retire(held, 1))
    assert not os.path.exists(os.path.join(inner, manifest.NAME))
    assert beside(start)["model.ckpt-1.index"] == b"old.index" and set(of(1)) < set(beside(start))


def test_a_saver_that_removes_a_hooks_checkpoint_removes_what_is_beside_it(tmp_path):
    """One that was saved to the prefix of the folder, and since then is known by what is in it."""
    start = make(tmp_path, 1)
    assert not prefixes.remove_around(folders.tensorflow_prefix(start, 1))
    assert os.listdir(str(tmp_path)) == []


GOES_ON = """
import os, sys
import tensorflow.compat.v1 as tf
import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()
folder = sys.argv[1]
number = tf.train.get_or_create_global_step()
dense = tf.get_variable("dense", [], initializer=tf.zeros_initializer())
table = sok.EmbeddingVariable(rows=8, dim=2)
value = tf.placeholder(tf.float32, [])
put = tf.assign(dense, value)
saver, manager = tf.train.Saver(), sok.CheckpointManager(folder, keep_checkpoint_max=2)
with tf.Session() as session:
    session.run(sok.Init(global_batch_size=2))
    session.run(tf.global_variables_initializer())
    for step in (10, 20, 30):
        session.run(put, {value: step})
        saver.save(session, folder + "/model.ckpt", global_step=step)
    session.run(put, {value: 77})
    manager.save(session, 20)
    for prefix in ("/model.ckpt-20", "/model.ckpt-20/model.ckpt-20"):
        print("read", tf.train.load_variable(folder + prefix, "dense"))
        saver.restore(session, folder + prefix)
        print("restored", session.run(dense))
    for step in (40, 50, 60):
        manager.save(session, step)
    session.run(sok.Init(global_batch_size=2))  # a barrier: all ranks are here
print("left", sorted(name for name in os.listdir(folder) if name[0] != "."))
"""


def test_a_manager_goes_on_where_a_saver_has_saved(tmp_path):
    """On several ranks: no half checkpoints stay, and those who read by prefix read what the manager has saved."""
    finished = run_ranks(2, GOES_ON, tmp_path)
    assert finished.out.count("read 77.0\n") == finished.out.count("restored 77.0\n") == 4, str(finished)
    assert finished.out.count("left ['checkpoint', 'model.ckpt-50', 'model.ckpt-60']") == 2, str(finished)
