"""Malicious files: to read, verify or export them ends, at once, in an error that names the file and the table."""
import filecmp
import os
import shutil
import time
import tracemalloc

import attack_folders
import forging
import make_attacks
import pytest

from sok1x.checkpoint import __main__ as command
from sok1x.checkpoint import manifest, verify
from sok1x.checkpoint.checkpoint_files import Checkpoint
from sok1x.checkpoint.errors import CheckpointError, FormatVersionError
from sok1x.checkpoint.reading import TableSource, Wanted

SECONDS, BYTES = 2.0, 8 << 20


@pytest.fixture(scope="module", autouse=True)
def measured():
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """What a model has that fits the base: {table: Wanted}."""
    folder = str(tmp_path_factory.mktemp("wanted") / "base")
    shutil.copytree(os.path.join(forging.HERE, "base"), folder)
    return {name: Wanted(table.dim, 2 * table.rows, table.use_hashtable, table.key_dtype, {
        part: (entry.dtype, entry.row_shape) for part, entry in table.parts.items() if part != "keys"})
            for name, table in manifest.read(folder).tables.items()}


def load(folder, wanted, ranks):
    """Everything that a job of so many ranks reads."""
    checkpoint = Checkpoint(folder)
    for name in checkpoint.manifest.other_files():
        checkpoint.check_other(name)
    for rank in range(ranks):
        for table, model in wanted.items():
            TableSource(checkpoint, table, rank, ranks, model).check()


def bounded(act, most=BYTES):
    """Runs `act`, which may take neither long nor much memory."""
    tracemalloc.clear_traces()
    begin = time.perf_counter()
    try:
        return act()
    finally:
        assert time.perf_counter() - begin < SECONDS
        assert tracemalloc.get_traced_memory()[1] < most


def names(message, file, table):
    return file in message and (table is None or "'{}'".format(table) in message)


def test_the_base_is_sound(tmp_path, wanted, capsys):
    folder = str(tmp_path / "base")
    shutil.copytree(os.path.join(forging.HERE, "base"), folder)
    load(folder, wanted, 2)
    load(folder, wanted, 3)
    assert command.main(["verify", folder]) == 0
    assert command.main(["show", folder]) == 0
    assert command.main(["export", folder, "--format", "npz", "--output", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize("name", sorted(make_attacks.ATTACKS))
def test_an_attack_is_an_error_that_names_file_and_table(tmp_path, wanted, capsys, name):
    _, file, table = make_attacks.ATTACKS[name]
    folder = str(tmp_path / "model.ckpt-5")
    attack_folders.assemble(name, folder)
    for ranks in (2, 3):
        with pytest.raises(CheckpointError) as error:
            bounded(lambda: load(folder, wanted, ranks))
        assert names(str(error.value), file, table), str(error.value)
        assert len(str(error.value)) < 2000 and str(error.value).isprintable()
    faults = bounded(lambda: list(verify.faults(folder)))
    assert any(names(fault, file, table) for fault in faults), faults
    capsys.readouterr()
    assert bounded(lambda: command.main(["verify", folder])) == 1
    told = capsys.readouterr()
    assert all(line.startswith(("fault: ", "error: ")) for line in (told.out + told.err).splitlines())
    assert any(names(line, file, table) for line in (told.out + told.err).splitlines())
    assert bounded(lambda: command.main(["show", folder])) in (0, 1)
    for form in ("npz", "files"):
        output = str(tmp_path / form)
        if bounded(lambda: command.main(["export", folder, "--format", form, "--output", output])) == 1:
            assert not [found for _, _, files in os.walk(output) for found in files], "something half-written is left"


@pytest.mark.parametrize("name", ["manifest-version-2", "header-version-2"])
def test_a_later_format_says_so(tmp_path, wanted, name):
    folder = str(tmp_path / "model.ckpt-5")
    attack_folders.assemble(name, folder)
    with pytest.raises(FormatVersionError, match="format 2, and this sok1x reads format 1"):
        load(folder, wanted, 2)


def test_the_files_are_those_that_the_script_makes(tmp_path):
    attack_folders.make_all(make_attacks.ATTACKS, str(tmp_path))
    made = {entry.name for entry in os.scandir(str(tmp_path))}
    kept = {entry.name for entry in os.scandir(forging.HERE) if entry.is_dir() and entry.name != "__pycache__"}
    assert made == kept == set(make_attacks.ATTACKS) | {"base"}
    for name in sorted(made):
        assert_equal(os.path.join(forging.HERE, name), str(tmp_path / name))


def assert_equal(kept, made):
    assert sorted(os.listdir(kept)) == sorted(os.listdir(made)), kept
    for file in os.listdir(kept):
        one, other = os.path.join(kept, file), os.path.join(made, file)
        if os.path.islink(one):
            assert os.readlink(one) == os.readlink(other), one
        elif os.path.isdir(one):
            assert_equal(one, other)
        else:
            assert filecmp.cmp(one, other, shallow=False), one


# What git does not keep.

@pytest.fixture
def base(tmp_path):
    folder = str(tmp_path / "model.ckpt-5")
    shutil.copytree(os.path.join(forging.HERE, "base"), folder)
    return folder


def test_a_pipe_is_not_waited_for(base, wanted):
    path = os.path.join(base, forging.ROWS)
    os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="not a regular file: table 'user/id'"):
        bounded(lambda: load(base, wanted, 2))


@pytest.mark.parametrize("file", [forging.ROWS, forging.DATA, manifest.NAME])
def test_a_link_to_the_very_file_is_not_followed(base, wanted, tmp_path, file):
    os.rename(os.path.join(base, file), str(tmp_path / "outside"))
    os.symlink(str(tmp_path / "outside"), os.path.join(base, file))
    with pytest.raises(CheckpointError, match="is a symbolic link") as error:
        load(base, wanted, 2)
    assert file in str(error.value)


@pytest.mark.parametrize("file, words", [(forging.ROWS, "damaged: it has 1099511627776 bytes"),
                                         (manifest.NAME, "too large: 1099511627776 bytes")])
def test_a_huge_sparse_file_is_not_read(base, wanted, file, words):
    os.truncate(os.path.join(base, file), 1 << 40)
    with pytest.raises(CheckpointError, match=words) as error:
        bounded(lambda: load(base, wanted, 2))
    assert file in str(error.value)


@pytest.mark.parametrize("rows, words", [(2 ** 28, "the checksum of its trailer"), (2 ** 32, "67108864 blocks")])
def test_a_huge_sparse_file_whose_header_claims_all_of_it_is_stopped_at_its_trailer(base, wanted, rows, words):
    forging.forge_fields(base, forging.ROWS, count=rows)
    os.truncate(os.path.join(base, forging.ROWS), 4096 + rows * 64 + 4 * (rows // 64 + 1))
    with pytest.raises(CheckpointError, match=words):
        bounded(lambda: load(base, wanted, 2), most=40 << 20)
