"""Export as a TensorFlow checkpoint: stock TensorFlow restores it and looks keys up."""
import contextlib
import errno
import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import made_checkpoints
import numpy as np
import pytest
from ranks import run_ranks

from sok1x.checkpoint import __main__ as command
from sok1x.checkpoint import tensorflow_errors
from sok1x.checkpoint.files import outputs

# What someone who serves the model has: stock TensorFlow, and the two names.
SERVE = """
    import sys, numpy as np
    import tensorflow.compat.v1 as tf
    prefix, keys_file, out, compact = sys.argv[1:]
    reader = tf.train.NewCheckpointReader(prefix)
    shapes = reader.get_variable_to_shape_map()
    print(sorted(shapes.items()))
    user = tf.get_variable("user/id", shapes["user/id"])
    wanted = np.load(keys_file)
    rows = np.searchsorted(reader.get_tensor("user/id/keys"), wanted) if compact == "yes" else wanted
    looked_up = tf.nn.embedding_lookup(user, rows)
    with tf.Session() as session:
        tf.train.Saver({"user/id": user}).restore(session, prefix)
        np.savez(out, user=session.run(looked_up), all=session.run(user), item=reader.get_tensor("item"))
"""


@pytest.fixture
def made(tmp_path, seed):
    random = np.random.RandomState(seed)
    user = made_checkpoints.hash_table(random, ranks=2, rows=400, used=500, low=0)
    item = made_checkpoints.direct_table(random, ranks=2, rows=70, dim=5)
    made_checkpoints.save(tmp_path / "saved", [user, item])
    return str(tmp_path / "saved"), user, item


def serve(tmp_path, prefix, keys, compact):
    np.save(str(tmp_path / "keys.npy"), keys)
    done = run_ranks(0, textwrap.dedent(SERVE), prefix, tmp_path / "keys.npy", tmp_path / "out.npz",
                     "yes" if compact else "no")
    return done.out, np.load(str(tmp_path / "out.npz"))


@pytest.mark.parametrize("options", [[], ["--rows", "1500000"], ["--compact"]])
def test_stock_tensorflow_looks_keys_up(made, tmp_path, seed, options):
    directory, user, item = made
    compact = "--compact" in options
    prefix = str(tmp_path / "out" / "served")
    done = subprocess.run([sys.executable, "-m", "sok1x.checkpoint", "export", directory, "--format", "tensorflow",
                           "--output", prefix] + options, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == sorted(str(tmp_path / "out" / name) for name in os.listdir(
        str(tmp_path / "out")))
    expected = user.by_key("rows")
    keys = np.random.RandomState(seed).permutation(sorted(expected))[:200]
    told, arrays = serve(tmp_path, prefix, keys, compact)
    assert np.array_equal(arrays["user"], [expected[key] for key in keys])
    assert np.array_equal(arrays["item"][:140], [item.by_key("rows")[key] for key in range(140)])
    if compact:
        assert np.array_equal(arrays["all"], [expected[key] for key in sorted(expected)])
        assert "('user/id/keys', [500])" in told
    else:
        rows = 1500000 if options else max(expected) + 1
        assert arrays["all"].shape == (rows, 16)
        missing = np.setdiff1d(np.arange(rows), list(expected))
        assert not arrays["all"][missing].any()


def refused(capsys, directory, prefix, *options):
    assert command.main(["export", directory, "--format", "tensorflow", "--output", str(prefix)] + list(options)) == 1
    return capsys.readouterr().err


def test_keys_that_are_no_rows_are_refused(tmp_path, seed, capsys):
    random = np.random.RandomState(seed)
    table = made_checkpoints.hash_table(random, ranks=2, rows=400, used=500)
    table.keys = [np.where(np.arange(len(keys)) == 3, keys - 10 ** 7, keys) for keys in table.keys]
    directory = str(tmp_path / "negative")
    made_checkpoints.save(directory, [table])
    message = refused(capsys, directory, tmp_path / "o")
    assert "Table 'user/id' has the key -" in message and "use --compact." in message
    table = made_checkpoints.hash_table(random, ranks=2, rows=400, used=500, low=0)
    directory = str(tmp_path / "few-rows")
    made_checkpoints.save(directory, [table])
    greatest = max(table.by_key("rows"))
    message = refused(capsys, directory, tmp_path / "o", "--rows", "1000")
    assert "has the key {}, and row i of 1000 rows".format(greatest) in message
    assert "use --compact, or --rows of at least {}".format(greatest + 1) in message
    table.keys[0][5] = 2 ** 62
    directory = str(tmp_path / "far")
    made_checkpoints.save(directory, [table])
    message = refused(capsys, directory, tmp_path / "o")
    assert "has 500 keys, the greatest of which is {}".format(2 ** 62) in message and "Use --compact" in message
    assert "There is no memory for table 'user/id'" in refused(
        capsys, directory, tmp_path / "o", "--rows", str(2 ** 62 + 1))
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith((".o", "o"))]


def test_two_variables_of_one_name_are_refused(tmp_path, seed, capsys):
    random = np.random.RandomState(seed)
    directory = str(tmp_path / "saved")
    made_checkpoints.save(directory, [made_checkpoints.hash_table(random, name) for name in ("a", "a/keys")])
    message = refused(capsys, directory, tmp_path / "o", "--compact")
    assert "the keys of table 'a' would be a variable 'a/keys', as the table of that name" in message
    assert os.listdir(str(tmp_path)) == ["saved"]
    for name in ("a", "a/keys"):
        assert command.main(["export", directory, "--format", "tensorflow", "--output", str(tmp_path / "o"),
                             "--compact", "--table", name]) == 0


def test_an_earlier_export_stays_where_a_later_one_fails(made, tmp_path, capsys, monkeypatch):
    """And is gone, with files of other names, where it does not."""
    folder = tmp_path / "out"
    prefix = str(folder / "served")
    arguments = ["export", made[0], "--format", "tensorflow", "--output", prefix, "--compact"]
    assert command.main(arguments + ["--table", "item"]) == 0
    (folder / "served.data-00007-of-00009").write_text("of an export of more files")

    def files():
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    before, real, done = files(), os.replace, []

    def replace(source, target):
        done.append(target)
        if target == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    for failing in (prefix + ".data-00001-of-00002", prefix + ".index"):
        assert "No space left to write {}".format(failing) in refused(capsys, made[0], prefix, "--compact")
        assert files() == before and failing in done
    failing = None
    assert command.main(arguments) == 0
    assert sorted(files()) == ["served.data-0000{}-of-00002".format(part) for part in range(2)] + ["served.index"]
    (folder / "served.index").unlink()
    (folder / "served.index").mkdir()
    (folder / "served.index" / "file").write_text("the user's")
    assert "Cannot write {}.index".format(prefix) in refused(capsys, made[0], prefix, "--compact")
    assert (folder / "served.index" / "file").exists()


@pytest.mark.parametrize("words", ["Cannot write", "No space left to write"])
def test_what_the_system_refuses_is_one_line(made, tmp_path, capsys, monkeypatch, words):
    """TensorFlow's own message goes on with the op, its graph, and a hint about memory."""
    said = "Not a directory"
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(outputs, "folder_beside", lambda output: contextlib.nullcontext(str(tmp_path / "file" / "in")))
    if words != "Cannot write":  # as if the disk were full there
        monkeypatch.setattr(tensorflow_errors, "os", SimpleNamespace(strerror=lambda number: said))
    message = refused(capsys, made[0], tmp_path / "o", "--compact")
    lines = [line for line in message.splitlines() if line]
    assert len(lines) == 1 and "{} {}".format(words, tmp_path / "o") in lines[0], message
    assert (said in lines[0]) == (words == "Cannot write"), message
