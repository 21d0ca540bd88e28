"""What an update of a served model is given: keys of any integer type, and which of them are meant."""
import os
import pathlib
import shutil
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from other_user import as_nobody, needs_root, open_folder

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError, DamagedError, NoSpaceError, WriteError
from sok1x.serving import __main__ as command
from sok1x.serving import bundles, updating

KEYS = np.array([2 ** 53, 2 ** 53 + 1, 7, 2 ** 62], np.int64)
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture(scope="module", params=["table", "search"])
def model(request, tmp_path_factory):
    """A SavedModel of a table with these keys and rows, stored in float16."""
    folder = str(tmp_path_factory.mktemp("model"))
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(2, "0", name="t")
        assigned = sok.assign(table, KEYS, ROWS)
        session.run(tf.global_variables_initializer())
        session.run(assigned)
        sok.CheckpointManager(folder + "/saved").save(session, 1)
    return sok.serving.export_saved_model(folder + "/1", folder + "/saved", inputs={}, outputs={}, unseen=-1.0,
                                          storage="float16", index=request.param)


def rows(path):
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.saved_model.load(session, ["serve"], path).signature_def["t"]
        return session.run(found.outputs["rows"].name, {found.inputs["keys"].name: KEYS})


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_those_keys_are_evicted_and_no_others(model, tmp_path, dtype):
    """In float64, 2^53 + 1 is 2^53. (NumPy looks for many keys otherwise than for few.)"""
    gone = np.concatenate([KEYS[1:2], np.arange(100, 150)]).astype(dtype)
    np.savez(str(tmp_path / "gone.npz"), keys=gone)
    expected = np.where(KEYS[:, np.newaxis] == KEYS[1], -1, ROWS)
    path = sok.serving.update_saved_model(model, str(tmp_path / "2"), evicted={"t": gone})
    np.testing.assert_array_equal(rows(path), expected)
    given = ["update", model, "--to", str(tmp_path / "3"), "--evicted", "t={}/gone.npz".format(tmp_path)]
    assert command.main(given) == 0
    np.testing.assert_array_equal(rows(str(tmp_path / "3")), expected)


def test_changes_of_unsigned_keys(model, tmp_path):
    path = sok.serving.update_saved_model(
        pathlib.Path(model), tmp_path / "2", {"t": (KEYS[1:2].astype(np.uint64), np.ones([1, 2]))})
    np.testing.assert_array_equal(rows(str(path)), np.where(KEYS[:, np.newaxis] == KEYS[1], 1, ROWS))


@needs_root
def test_a_model_that_may_not_be_written_to(model, request, monkeypatch):
    """As published ones are: it is brought up to date, and what is refused leaves nothing."""
    above = open_folder(request)
    published = shutil.copytree(model, os.path.join(above, "1"))
    os.mkdir(os.path.join(published, "assets"))
    (pathlib.Path(published) / "assets" / "words").write_text("a")
    for folder, _, names in os.walk(above):
        for one in [folder] + [os.path.join(folder, name) for name in names]:
            os.chown(one, 65534, 65534)
            os.chmod(one, 0o755 if folder == one == above else 0o555 if folder == one else 0o444)
    stock, works = updating._rewrite, []

    def rewritten(prefix, partial, *_):  # no session runs in a forked child
        for name in ("variables", "parts"):
            (pathlib.Path(partial) / name / "file").write_text("")
        if not works:
            raise CheckpointError("it fails")

    monkeypatch.setattr(updating, "_rewrite", rewritten)
    assert as_nobody(lambda: sok.serving.update_saved_model(published, above + "/2")) == "CheckpointError: it fails"
    assert os.listdir(above) == ["1"]
    works.append(True)
    assert as_nobody(lambda: sok.serving.update_saved_model(published, above + "/2")) == above + "/2"
    assert sorted(os.listdir(above)) == ["1", "2"]
    assert (pathlib.Path(above) / "2" / "assets" / "words").read_text() == "a"
    monkeypatch.setattr(updating, "_rewrite", stock)
    path = sok.serving.update_saved_model(published, above + "/3", {"t": (KEYS[1:2], np.ones([1, 2]))})
    np.testing.assert_array_equal(rows(path), np.where(KEYS[:, np.newaxis] == KEYS[1], 1, ROWS))


def test_a_file_url_is_a_path(model, tmp_path, monkeypatch):
    """Of a model, a new one, and the checkpoint that it is made of; URLs of other file systems are refused."""
    monkeypatch.chdir(tmp_path)
    url, saved = "file://{}/".format(tmp_path), "file://" + os.path.join(os.path.dirname(model), "saved")
    assert sok.serving.export_saved_model(url + "1", saved, inputs={}, outputs={}, unseen=0.0) == url + "1"
    given = {"t": (KEYS[1:2], np.ones([1, 2]))}
    assert sok.serving.update_saved_model(url + "1", url + "2", given) == url + "2"
    np.testing.assert_array_equal(rows(str(tmp_path / "2")), np.where(KEYS[:, np.newaxis] == KEYS[1], 1, ROWS))
    assert sorted(os.listdir(str(tmp_path))) == ["1", "2"]
    for call in (lambda: sok.serving.export_saved_model(url + "2", saved),
                 lambda: sok.serving.update_saved_model(url + "1", url + "2", given)):
        with pytest.raises(WriteError, match="it is there already"):
            call()
    for call, name in ((lambda: sok.serving.export_saved_model("gs://b/1", saved), "export_saved_model: export_dir"),
                       (lambda: sok.serving.export_saved_model("3", "gs://b"), "export_saved_model: checkpoint"),
                       (lambda: sok.serving.update_saved_model("gs://b", "3"), "update_saved_model: model_dir"),
                       (lambda: sok.serving.update_saved_model(model, "gs://b"), "update_saved_model: export_dir")):
        with pytest.raises(ValueError, match=name + ": got 'gs://b.*, expected a folder's path and no URL"):
            call()


def test_what_is_refused(model, tmp_path):
    to = str(tmp_path / "2")
    beyond = np.array([7, 2 ** 63], np.uint64)
    for given, words in (({"changes": {"t": (beyond, np.zeros([2, 2]))}}, "changes: got key 9223372036854775808, "),
                         ({"evicted": {"t": beyond}}, "evicted: got key 9223372036854775808, expected keys below 2")):
        with pytest.raises(ValueError, match="table 't': " + words):
            sok.serving.update_saved_model(model, to, **given)
    with pytest.raises(CheckpointError, match="1000000.0 in column 1 of the row of key 7, and float16"):
        sok.serving.update_saved_model(model, to, {"t": ([2 ** 53, 7], [[0, 0], [0, 1e6]])})
    assert not os.listdir(str(tmp_path))


def test_one_rank_updates_with_the_changes_of_all(model, tmp_path, monkeypatch):
    """Of several that call it, one has written: the others are told what to do."""
    world = types.SimpleNamespace(size=2, rank=1)
    path = sok.serving.update_saved_model(model, str(tmp_path / "2"), evicted={"t": KEYS[:1]})
    for current, words in ((None, "as one with the next number.$"), (world, "On several ranks one of them alone")):
        launch = types.SimpleNamespace(current=lambda current=current: current)
        monkeypatch.setattr(updating, "launch", launch)  # the executor of this process asks its own
        with pytest.raises(WriteError, match="it is there already; .*{}".format(words)):
            sok.serving.update_saved_model(model, path, evicted={"t": KEYS[1:2]})


def flipped(text):
    """With a bit changed in the middle: of rows, where there are most."""
    return text[:len(text) // 2] + bytes([text[len(text) // 2] ^ 1]) + text[len(text) // 2 + 1:]


def halved(text):
    return text[:len(text) // 2]


@pytest.mark.parametrize("damage", [flipped, halved])
@pytest.mark.parametrize("suffix", [".data-00000-of-00001", ".index"])
def test_damaged_files_of_tensorflow(model, tmp_path, capsys, damage, suffix):
    """Of the model, and of a Saver from which one is exported."""
    shutil.copytree(model, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(2, "0", name="t")
        assigned = sok.assign(table, KEYS, ROWS)
        session.run(tf.global_variables_initializer())
        session.run(assigned)
        tf.train.Saver().save(session, str(tmp_path / "saved"), write_meta_graph=False)
    for path in (tmp_path / "model" / "variables" / "variables", tmp_path / "saved"):
        file = pathlib.Path(str(path) + suffix)
        file.write_bytes(damage(file.read_bytes()))
    np.savez(str(tmp_path / "gone.npz"), keys=KEYS[:1])
    to, calls = str(tmp_path / "2"), (
        ("model", lambda: sok.serving.update_saved_model(tmp_path / "model", to, evicted={"t": KEYS[:1]}),
         ["update", str(tmp_path / "model"), "--evicted", "t={}/gone.npz".format(tmp_path)]),
        ("saved", lambda: sok.serving.export_saved_model(to, tmp_path / "saved", unseen=0.0),
         ["export", str(tmp_path / "saved"), "--unseen", "0"]))
    for what, call, arguments in calls:
        with pytest.raises(DamagedError, match="Cannot read {}/{}".format(tmp_path, what)):
            call()
        assert command.main(arguments + ["--to", to]) == 1
        assert capsys.readouterr().err.startswith("error: Cannot read {}/{}".format(tmp_path, what))
    assert not [name for name in os.listdir(str(tmp_path)) if name.endswith(".tmp") or name == "2"]


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise tf.errors.ResourceExhaustedError(None, None, "part-0; No space left on device")

    monkeypatch.setattr(tf.Session, "run", full)
    writer = bundles.BundleWriter(str(tmp_path), str(tmp_path / "variables"))
    writer.add("name", np.zeros([3]))
    with pytest.raises(NoSpaceError, match="No space left to write {}/variables".format(tmp_path)):
        writer.finish()
