"""Whole checkpoints under a Saver's prefix: what is replaced, what dead saves left, and what they may not hide."""
import contextlib
import errno
import os
import shutil
from concurrent import futures

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from prefix_checkpoints import TOKEN, files, make, save

import sok1x as sok
from sok1x.checkpoint.errors import LockedError, WriteError
from sok1x.checkpoint.files import folder_lock, folders, giving_way, links, manifest, prefixes, publishing, retiring
from sok1x.checkpoint.files.folder_lock import FolderLock


@pytest.mark.parametrize("dead, url", [(False, ""), (True, ""), (False, "file://")])
def test_one_that_is_replaced_is_there_until_its_successor_is(tmp_path, dead, url):
    prefix = make(str(tmp_path / "my-1"))
    before = files(tmp_path)
    if dead:  # between the two renames of `publish_as`
        os.rename(prefix, folders.hidden(prefix, TOKEN, "old"))
    for endings in ([], [".index"]):
        with pytest.raises(OSError):
            with prefixes.replaced(url + prefix):
                assert prefixes.folder_of(url + prefix) not in (None, prefix)
                save(prefix, *endings)
                raise OSError(errno.ENOSPC, "full")
        assert files(tmp_path) == before and prefixes.folder_of(prefix) == prefix
    with prefixes.replaced(url + prefix):
        pass  # asked whether to replace it, the user has said no
    assert files(tmp_path) == before
    with prefixes.replaced(url + prefix):
        save(prefix, ".index")
    assert prefixes.folder_of(prefix) is None
    assert files(tmp_path) == {"my-1.index": "new", "my-1.data-00000-of-00001": "old"}


@pytest.mark.parametrize("refused", list(range(5)) + [None])
def test_one_that_is_replaced_from_inside(tmp_path, monkeypatch, refused):
    """Whatever the system refuses, a whole one has the name of both; in the end in the place of the former."""
    folder = make(str(tmp_path / "my-1"), others=["of_2_ranks.rows"])
    inner = make(folder + "/model.ckpt-1", "new", link=False)
    with open(folder + "/notes", "w") as file:
        file.write("mine")
    replace, done = os.replace, []

    def replaced(source, target):
        if len(done) == refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        done.append(replace(source, target))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replaced)
        with contextlib.nullcontext() if refused is None else pytest.raises(WriteError, match="Input/output"):
            prefixes.replace_around(inner)
    whole = prefixes.folder_of(inner)
    assert whole == (folder if refused is None else inner)
    assert {files(whole)[name] for name in manifest.read(whole).files} == {"new"}
    if refused is not None:
        for name in ("table.1-of-2.rows", "model.ckpt-1.index", "manifest.json"):  # of one that was killed
            (tmp_path / "my-1" / "{}.{}.tmp".format(name, TOKEN)).write_text("half")
        assert folders.is_complete(folder)  # who restores it finds other shards than its manifest's, and says so
        prefixes.replace_around(inner)
    assert {name: content for name, content in files(tmp_path).items() if not name.endswith("manifest.json")} == {
        "my-1/notes": "mine", "my-1.index": "new", "my-1.data-00000-of-00001": "new",
        "my-1/model.ckpt-1.index": "new", "my-1/model.ckpt-1.data-00000-of-00001": "new"}


def test_a_relative_prefix_is_in_a_checkpoints_folder(tmp_path, monkeypatch):
    folder = make(str(tmp_path / "my-1"))
    monkeypatch.chdir(folder)
    assert prefixes.around("model.ckpt-1") == prefixes.folder_of("model.ckpt-1") == folder
    assert prefixes.step_around("model.ckpt-1") == 1 and prefixes.around("model.ckpt-2") is None


@pytest.mark.parametrize("both", [False, True])
def test_one_that_is_removed_is_gone_also_if_its_job_died(tmp_path, both):
    prefix = make(str(tmp_path / "my-1"))
    os.rename(prefix, folders.hidden(prefix, TOKEN, "old"))
    if both:
        make(prefix)
    prefixes.remove(prefix)
    assert prefixes.folder_of(prefix) is None
    assert sorted(os.listdir(str(tmp_path))) == ["my-1.data-00000-of-00001", "my-1.index"]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("how", ["replaced", "left", "replaced by TensorFlow", "removed"])
def test_a_link_to_a_checkpoint_gives_way_and_what_it_leads_to_stays(tmp_path, how, inside):
    """As of one that the user has moved to another disk; where a run has gone on in it, what it has saved moves."""
    prefix, disk = str(tmp_path / "my-1"), str(tmp_path / "disk")
    os.rename(make(prefix), disk)
    before = files(disk)
    if inside:
        make(disk + "/model.ckpt-9", "mine", link=False)
    run = {name: content for name, content in files(disk).items() if name not in before}
    os.symlink("disk", prefix)
    if how == "left":  # by a job that died when both had their names
        os.rename(prefix, folders.hidden(prefix, TOKEN, "old"))
        make(prefix, "new")
        prefixes.remove_leftovers(prefix)
    elif how == "replaced":
        make(prefix, "new")
    elif how == "removed":
        prefixes.remove(prefix)
    else:
        with prefixes.replaced(prefix):
            save(prefix, ".index")
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".my")]
    assert before.items() <= files(disk).items()
    if inside:
        assert run.items() <= files(prefix).items()
    else:
        assert os.path.exists(prefix) == (how in ("replaced", "left"))
    if os.path.isdir(prefix) and not os.path.islink(prefix):  # its user removes it
        shutil.rmtree(prefix)
        assert prefixes.folder_of(prefix) is None


def test_a_link_to_another_disk_does_not_count_when_its_successor_is_gone(tmp_path, monkeypatch):
    """What a run has saved behind it cannot move, and stays there."""
    prefix, disk, rename = str(tmp_path / "my-1"), str(tmp_path / "disk"), os.rename
    os.rename(make(prefix), disk)
    make(disk + "/model.ckpt-9", "mine", link=False)
    os.symlink("disk", prefix)
    before = files(disk)

    def renamed(source, target):
        if os.path.realpath(os.path.dirname(source)) == disk:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", renamed)
        for content in ("new", "newer"):
            make(prefix, content)
            prefixes.remove_leftovers(prefix)
    assert files(disk) == before and files(prefix)["model.ckpt-1.index"] == "newer"
    shutil.rmtree(prefix)
    assert prefixes.folder_of(prefix) is None


def test_another_job_s_is_not_replaced(tmp_path):
    prefix = make(str(tmp_path / "my-1"))
    with FolderLock(str(tmp_path)):
        with pytest.raises(LockedError):
            with prefixes.replaced(prefix):
                pass
    assert prefixes.folder_of(prefix) == prefix


def test_keras_weights_that_cannot_be_saved_leave_those_that_were(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    path = str(tmp_path / "weights")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.keras.backend.set_session(session)
        session.run(sok.Init(global_batch_size=4))
        layer = sok.All2AllDenseEmbedding(10, 4, 2, 1)
        model = tf.keras.Sequential([tf.keras.Input([2, 1], dtype=tf.int64), layer])
        session.run(tf.global_variables_initializer())
        model.save_weights(path, save_format="tf")
        assert not os.path.isdir(path)
        make(path)
        before = files(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(tf.Session, "run", full)
            with pytest.raises(tf.errors.ResourceExhaustedError):
                model.save_weights(path, save_format="tf")
        assert files(tmp_path) == before and prefixes.folder_of(path) == path
        for url in ("", "file://"):
            model.save_weights(url + path, save_format="tf")
            assert prefixes.folder_of(path) is None
            tf.train.load_checkpoint(path)
            make(path)


def test_a_saver_replaces_one_whose_job_died_while_it_did(tmp_path):
    """The .old one counts, so it may not stay beside what is saved."""
    sok.init()
    prefix = str(tmp_path / "my-1")
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.Variable(np.zeros([1, 2], np.float32), name="table")
        add = table.assign_add(tf.ones([1, 2]), read_value=False)
        manager, saver = sok.CheckpointManager(str(tmp_path)), tf.train.Saver()
        session.run(tf.global_variables_initializer())
        os.rename(manager.save(session, 1), folders.hidden(prefix, TOKEN, "old"))
        session.run(add)
        saver.save(session, str(tmp_path / "my"), 1)
        session.run(table.initializer)
        saver.restore(session, prefix)
        assert session.run(table).tolist() == [[1, 1]]
    assert not [name for name in os.listdir(str(tmp_path)) if name.endswith(".old")]


def test_leftovers_of_other_steps(tmp_path):
    def folder(name, file="t.0-of-1.keys"):
        (tmp_path / name).mkdir()
        if file:
            (tmp_path / name / file).write_text("")

    make(str(tmp_path / "my-3"))
    hidden = ".{}." + TOKEN + ".{}"
    folder(hidden.format("my-100", "tmp"))
    folder(hidden.format("my-200", "gone"))
    folder(hidden.format("my-8", "tmp"), None)
    folder(hidden.format("my-3", "old"))  # that has been replaced
    for file in ("my-100.index", "my-7.data-00000-of-00001"):
        (tmp_path / "{}.{}.tmp".format(file, TOKEN)).write_text("")
    stay = {"my-3": 0, "my-3.index": 0, "my-3.data-00000-of-00001": 0}
    for kept, file in ((hidden.format("my-4", "old"), "manifest.json"),  # that counts
                       (hidden.format("my-5", "tmp"), ".sok1x-dump.lock"),  # a dump, which looks after its own
                       (hidden.format("my-5", "old"), "mine"), (hidden.format("mine-6", "tmp"), "shard"),
                       (hidden.format("my-6", "tmp").replace(TOKEN, "00ff00ff"), "shard"),
                       (hidden.format("my-7", "tmp").replace(TOKEN, TOKEN[::-1]), "shard")):
        folder(kept, file)
        stay[kept] = 0
    folders.at_work.add(TOKEN[::-1])  # another thread's
    try:
        prefixes.remove_leftovers(str(tmp_path / "my-300"))
    finally:
        folders.at_work.discard(TOKEN[::-1])
    assert sorted(os.listdir(str(tmp_path))) == sorted(stay)


def test_a_save_spares_what_another_thread_s_writes(tmp_path):
    with FolderLock(str(tmp_path)) as lock:
        token = folders.new_token()
        folder = publishing.make_temporary(folders.step_folder(str(tmp_path), 1), token)
        folders.at_work.add(token)
        retiring.remove_leftovers(lock)
        assert os.path.isdir(folder)
        folders.at_work.discard(token)
        retiring.remove_leftovers(lock)
        assert not os.path.isdir(folder)


def in_another_thread(act):
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(act).result()


@pytest.mark.parametrize("ends", ["saved", "not saved", "failed"])
def test_another_thread_s_save_spares_what_tensorflow_replaces(tmp_path, monkeypatch, ends):
    prefix, rename, free = make(str(tmp_path / "model.ckpt-1")), os.rename, []
    lock = folder_lock.of_process(str(tmp_path))

    def another_save():
        with lock.renaming:
            retiring.remove_leftovers(lock)
            prefixes.remove_leftovers(prefix)
            make(folders.step_folder(str(tmp_path), 2), "another's", link=False, step=2)
            giving_way.remove(retiring.retire(lock, 1))

    def renamed(source, target):
        in_another_thread(lambda: free.append(lock.renaming.acquire(blocking=False) and lock.renaming.release()))
        rename(source, target)

    with monkeypatch.context() as patch, contextlib.suppress(KeyError):
        patch.setattr(prefixes.os, "rename", renamed)
        with prefixes.replaced(prefix):
            in_another_thread(another_save)
            assert not os.path.lexists(prefix) and folders.is_complete(prefixes.folder_of(prefix))
            with prefixes.replaced(prefix):  # of a second one of that name nothing is to be replaced
                pass
            if ends == "saved":
                save(prefix, ".index", ".data-00000-of-00001")
            elif ends == "failed":
                raise KeyError
    assert free and not any(free)  # of the folder's names
    assert prefixes.folder_of(prefix) == (None if ends == "saved" else prefix)
    assert files(tmp_path)["model.ckpt-1.index"] == ("new" if ends == "saved" else "old")
    assert not folders.at_work and folders.hidden_of(prefix) == []


def test_links_that_cannot_be_made(tmp_path, monkeypatch):
    """No index stands beside the data of another checkpoint, and nothing is left over."""
    prefix = make(str(tmp_path / "my-1"))
    make(str(tmp_path / "other-1"), "new")
    names = os.listdir(str(tmp_path / "other-1"))
    real = os.replace

    def replace(source, target):
        if target.endswith(".index"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(WriteError, match="No space left to write {}.index".format(prefix)):
        links.link_files(str(tmp_path / "other-1"), 1, [one for one in names if "model" in one], prefix)
    assert not os.path.exists(prefix + ".index")
    assert not [name for name in os.listdir(str(tmp_path)) if name.endswith(".tmp")] and not folders.at_work
    monkeypatch.undo()
    os.mkdir(prefix + ".data-00000-of-00002")
    with pytest.raises(WriteError, match="Cannot write {}.data-00000-of-00002".format(prefix)):
        links.link_files(str(tmp_path / "other-1"), 1, [one for one in names if "model" in one], prefix)
