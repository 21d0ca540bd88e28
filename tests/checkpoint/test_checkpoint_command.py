"""`python -m sok1x.checkpoint`: what show, verify and export say and write; a dict of key to row is the oracle."""
import os
import subprocess
import sys
import textwrap
import tracemalloc
import zipfile

import made_checkpoints
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint import __main__ as command
from sok1x.checkpoint import progress
from sok1x.checkpoint.errors import WriteError
from sok1x.checkpoint.files import folders, manifest, outputs, publishing


@pytest.fixture
def random(seed):
    return np.random.RandomState(seed)


@pytest.fixture
def made(tmp_path, random):
    """(checkpoint_dir, hash table, direct table)."""
    user = made_checkpoints.hash_table(random, ranks=3, rows=400, used=900, slots=("user/id/Adam", "user/id/Adam_1"))
    item = made_checkpoints.direct_table(random, ranks=3, rows=70, dim=5)
    directory = tmp_path / "saved"
    made_checkpoints.save(directory, [user, item], step=5)
    made_checkpoints.save(directory, [user, item], step=12)
    return str(directory), user, item


def run(*arguments):
    return command.main([str(argument) for argument in arguments])


def test_what_one_rank_has_saved_later_is_told(made, capsys, tmp_path):
    """A Saver on one rank has folders of its own kind no more, but TensorFlow's state file names what it saves."""
    directory, _, _ = made
    alone = tmp_path / "alone"
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("weights", initializer=[1.0])
        session.run(weights.initializer)
        saver = tf.train.Saver()
        for folder, step, later in ((directory, 11, False), (directory, 30, True), (str(alone), 7, None)):
            os.makedirs(folder, exist_ok=True)
            path = saver.save(session, os.path.join(folder, "model.ckpt"), step)
            code = run("show", folder)
            out, error = capsys.readouterr()
            assert code == (later is None) and (path in error) == (later is not False), error
            assert ("step          12," in out) == (later is not None)
            assert later is not True or error.startswith("warning: this is ") and error.count("\n") == 1, error
            assert later is not None or error.startswith("error: There is no complete checkpoint"), error
    assert run("verify", directory) == 0 and "model.ckpt-30" in capsys.readouterr().err
    for arguments in (("--step", 12), ()):
        assert run("show", os.path.join(directory, "model.ckpt-12") if not arguments else directory, *arguments) == 0
        assert not capsys.readouterr().err


def test_show(made, capsys):
    directory, user, _ = made
    assert run("show", directory) == 0
    lines = capsys.readouterr().out.splitlines()
    folder = os.path.join(directory, "model.ckpt-12")
    sizes = {file: os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder)}
    fullest = max(range(3), key=lambda rank: len(user.keys[rank]))
    of_user = sum(size for file, size in sizes.items() if file.startswith("user"))
    for line in ("checkpoint    " + folder, "step          12, by 3 ranks",
                 "bytes         {:,} in {} files".format(sum(sizes.values()) - sizes["manifest.json"], len(sizes) - 1),
                 "dense         700 bytes in 2 files of TensorFlow's", "table user/id",
                 "  keys        int64, in a hash table",
                 "  D           16", "  rows        900 in use of 1,200 (3 ranks of 400)",
                 "  load factor 0.750, at most {:.3f} (rank {})".format(len(user.keys[fullest]) / 400, fullest),
                 "  slots       user/id/Adam float32 [16]", "              user/id/Adam_1 float32 [16]",
                 "table item", "  keys        int64, row numbers", "  rows        210 in use of 210 (3 ranks of 70)",
                 "  slots       none"):
        assert line in lines
    # Rows and two slots of 16 floats, stamps (of 4 bytes here), and the index's 1024 slots; row numbers have none.
    memory = "94,784 (92.6 KB) on a rank with 400 rows: 196 bytes a row, and 1,024 slots of 16 (index)"
    assert "  memory      " + memory in lines
    assert "  bytes       {:,} (".format(of_user) in "\n".join(lines)
    assert run("show", directory, "--step", 5) == run("show", os.path.join(directory, "model.ckpt-5")) == 0
    first, second = capsys.readouterr().out.split("checkpoint    ")[1:]
    assert first == second and "step          5, by" in first


@pytest.mark.parametrize("options", [dict(evict_strategy=None), dict(evict_strategy="lru", remember_evicted=5000),
                                     dict(evict_strategy="ttl", time_to_live=9, remember_evicted=70)])
def test_show_tells_what_a_table_takes(options, tmp_path, capsys):
    """As `sok.table_stats` says it of the table itself; the keys that it remembers by a rule."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(4, init_capacity=300, max_capacity=300, name="t", **options)
        vectors = sok.all2all_dense_embedding(table, tf.range(300, dtype=tf.int64))
        step = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1)).apply_gradients(
            [(tf.gradients(vectors, table)[0], table)])
        stats, manager = sok.table_stats(table), sok.CheckpointManager(str(tmp_path))
        session.run(tf.global_variables_initializer())
        session.run(step)
        manager.save(session, 1)
        taken = session.run(stats.device_bytes)
    assert run("show", tmp_path) == 0
    memory, = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  memory")]
    shown, remembered = int(memory.split()[1].replace(",", "")), options.get("remember_evicted", 0)
    assert ("; besides 16 for each of remember_evicted" in memory) == bool(remembered)
    assert abs(shown + 16 * remembered - taken) <= 128, (shown, remembered, taken)  # clocks and counters


def test_verify(made, capsys):
    directory, _, _ = made
    assert run("verify", directory) == 0
    assert "model.ckpt-12: 27 files, " in capsys.readouterr().out
    for file, offset in (("user%2Fid.1-of-3.rows", 9000), ("item.2-of-3.keys", 4100), ("model.ckpt-12.index", 7)):
        with open(os.path.join(directory, "model.ckpt-12", file), "r+b") as damaged:
            damaged.seek(offset)
            byte = damaged.read(1)
            damaged.seek(offset)
            damaged.write(bytes([byte[0] ^ 1]))
    os.unlink(os.path.join(directory, "model.ckpt-12", "user%2Fid.0-of-3.slot-1"))
    assert run("verify", directory) == 1
    faults = capsys.readouterr().out.splitlines()
    assert len(faults) == 4 and all(fault.startswith("fault: ") for fault in faults)
    for file, table in (("user%2Fid.1-of-3.rows", "user/id"), ("item.2-of-3.keys", "item"),
                        ("model.ckpt-12.index", ""), ("user%2Fid.0-of-3.slot-1", "user/id")):
        assert [fault for fault in faults if file in fault and table in fault]
    assert run("verify", directory, "--step", 5) == 0


def test_what_is_not_there(made, tmp_path, capsys):
    directory, _, _ = made
    for arguments, words in ((["show", tmp_path / "none"], "There is no folder"), (["verify", tmp_path], "it has none"),
                             (["show", directory, "--step", 6], "it has those of steps 5, 12"),
                             (["export", directory, "--table", "x", "--format", "npz", "--output", tmp_path / "o"],
                              "There is no table 'x' in")):
        assert run(*arguments) == 1
        told = capsys.readouterr()
        assert told.out == "" and told.err.startswith("error: ") and words in told.err
    assert not (tmp_path / "o").exists()


def test_file_urls_are_paths(made, tmp_path, capsys):
    directory, _, _ = made
    output = tmp_path / "tables"
    assert run("show", "file://" + directory) == 0 and "step          12," in capsys.readouterr().out
    assert run("verify", "file://" + os.path.join(directory, "model.ckpt-5")) == 0
    assert run("export", "file://" + directory, "--format", "npz", "--output", "file://{}".format(output)) == 0
    assert sorted(os.listdir(str(output))) and not os.path.exists("file:")


@pytest.mark.parametrize("arguments, words", [
    (["--format", "pickle", "--output", "o"], "invalid choice"), (["--format", "npz"], "required: --output"),
    (["--format", "npz", "--output", "o", "--compact"], "are for --format tensorflow"),
    (["--format", "tensorflow", "--output", "o", "--rows", "-5"], "--rows: got -5, expected 0 or more"),
    (["--format", "npz", "--output", "hdfs://host/o"], "--output: got 'hdfs://host/o', expected a folder's path"),
    (["--format", "tensorflow", "--output", "folder/"], "--output: got 'folder/', expected a checkpoint's prefix"),
    (["--format", "tensorflow", "--output", ".."], "--output: got '..', expected a checkpoint's prefix")])
def test_wrong_arguments_end_with_2(capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        run("export", "nowhere", *arguments)
    assert stop.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize("form", ["npz", "files", "tensorflow"])
def test_a_checkpoint_without_tables(tmp_path, capsys, form):
    folder = publishing.make_temporary(folders.step_folder(str(tmp_path / "saved"), 3), folders.new_token())
    manifest.write(folder, manifest.Manifest(folders.new_token(), 3, 1, 0, {}, {}))
    publishing.publish(folder, str(tmp_path / "saved"), 3)
    assert run("export", tmp_path / "saved", "--format", form, "--output", tmp_path / "out" / "name") == 1
    assert "error: There is no table in {}".format(tmp_path / "saved" / "model.ckpt-3") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def assert_rows(table, keys, values):
    """The keys of all ranks with their rows, rank after rank; without a hash table in the order of keys."""
    if table.use_hashtable:
        assert np.array_equal(keys, np.concatenate(table.keys))
        assert np.array_equal(values, np.concatenate(table.parts["rows"]))
    else:
        expected = table.by_key("rows")
        assert np.array_equal(keys, np.arange(len(expected)))
        assert np.array_equal(values, [expected[key] for key in range(len(expected))])


def test_npz(made, tmp_path, capsys):
    directory, user, item = made
    assert run("export", directory, "--format", "npz", "--output", tmp_path / "all") == 0
    paths = [str(tmp_path / "all" / name) for name in ("item.npz", "user%2Fid.npz")]
    assert capsys.readouterr().out.split() == paths
    assert run("export", directory, "--table", "user/id", "--format", "npz", "--output", tmp_path / "one.npz") == 0
    for table, path in ((item, paths[0]), (user, paths[1]), (user, str(tmp_path / "one.npz"))):
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
        with np.load(path, allow_pickle=False) as arrays:
            assert sorted(arrays) == ["keys", "values"]
            assert (arrays["keys"].dtype, arrays["values"].dtype) == (np.int64, np.float32)
            assert_rows(table, arrays["keys"], arrays["values"])
    assert run("export", directory, "--format", "npz", "--output", tmp_path / "two.npz") == 1
    assert "one file, and 2 tables" in capsys.readouterr().err
    assert sorted(os.listdir(str(tmp_path))) == ["all", "one.npz", "saved"]


def test_files(made, tmp_path):
    directory, user, item = made
    assert run("export", directory, "--table", "item", "--table", "user/id", "--format", "files", "--output",
               tmp_path / "out") == 0
    for table, name in ((item, "item"), (user, "user%2Fid")):
        keys = np.fromfile(str(tmp_path / "out" / (name + "_keys.file")), "<i8")
        values = np.fromfile(str(tmp_path / "out" / (name + "_values.file")), "<f4").reshape(-1, table.dim)
        assert_rows(table, keys, values)
    assert len(os.listdir(str(tmp_path / "out"))) == 4


@pytest.mark.parametrize("form", ["npz", "files"])
def test_nothing_half_written_is_left_and_what_was_there_stays(made, tmp_path, capsys, form):
    directory, _, _ = made
    out = tmp_path / "out"
    assert run("export", directory, "--format", form, "--output", out) == 0
    before = {name: (out / name).read_bytes() for name in os.listdir(str(out))}
    path = os.path.join(directory, "model.ckpt-12", "user%2Fid.2-of-3.rows")
    os.truncate(path, os.path.getsize(path) - 1)
    assert run("export", directory, "--format", form, "--output", out) == 1
    assert "user%2Fid.2-of-3.rows (table 'user/id') is cut short" in capsys.readouterr().err
    assert {name: (out / name).read_bytes() for name in os.listdir(str(out))} == before


def test_an_output_that_cannot_be_written(made, tmp_path, capsys):
    directory, _, _ = made
    (tmp_path / "file").write_text("")
    assert run("export", directory, "--format", "files", "--output", tmp_path / "file" / "out") == 1
    assert "error: Cannot write" in capsys.readouterr().err
    with pytest.raises(WriteError):
        with outputs.beside(str(tmp_path / "none" / "file")):
            pass


@pytest.mark.parametrize("form", ["npz", "files"])
def test_memory_is_a_buffer_whatever_the_table(tmp_path, random, form):
    tables = [made_checkpoints.hash_table(random, rows=300000, used=300000, dim=64, slots=(), low=-10 ** 8),
              made_checkpoints.direct_table(random, rows=150000, dim=64)]
    directory = str(tmp_path / "saved")
    made_checkpoints.save(directory, tables, block_bytes=4 << 20)
    tracemalloc.start()
    try:
        assert run("export", directory, "--format", form, "--output", tmp_path / "out") == 0
        assert 1 << 20 < tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


def test_tensorflow_is_not_loaded_where_it_is_not_needed(made, tmp_path):
    program = """
        import sys
        from sok1x.checkpoint.__main__ import main
        directory, out = sys.argv[1:]
        codes = [main(["show", directory]), main(["verify", directory]),
                 main(["export", directory, "--format", "npz", "--output", out])]
        loaded = [name for name in ("tensorflow", "mpi4py", "pickle5") if name in sys.modules]
        print("codes", codes, "loaded", loaded)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), made[0], str(tmp_path / "out")],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("codes [0, 0, 0] loaded []\n")


def test_long_work_says_how_far_it_is(capsys, monkeypatch):
    clock = iter([100.0, 102.5, 103.0, 108.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    count = progress.Progress("verified", 10 << 20)
    for _ in range(4):
        count(1 << 20)
    told = capsys.readouterr()
    assert told.out == "" and told.err == "verified 2.0 MB of 10.0 MB\nverified 4.0 MB of 10.0 MB\n"


def test_it_runs_as_a_module_and_ends_quietly_where_nobody_reads(made):
    done = subprocess.run("{} -m sok1x.checkpoint show {} | true; exit ${{PIPESTATUS[0]}}".format(
        sys.executable, made[0]), shell=True, executable="/bin/bash", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=60)
    assert done.returncode in (0, 1) and done.stderr == b""
    done = subprocess.run([sys.executable, "-m", "sok1x.checkpoint", "verify", made[0]], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"") and b"no fault" in done.stdout
