"""Malicious files: to read, verify or export them ends, at once, in an error that names the file and the table."""
import filecmp
import os
import shutil
import time
import tracemalloc

import forging
import make_attacks
import numpy as np
import pytest

from sok1x.checkpoint import __main__ as command
from sok1x.checkpoint.commands import verify
from sok1x.checkpoint.errors import CheckpointError, FormatVersionError
from sok1x.checkpoint.files import manifest
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted

SECONDS, BYTES = 2.0, 8 << 20
# A checkpoint of format version 1 as the first sok1x that had this format wrote it.
FORMAT_1 = os.path.join(os.path.dirname(os.path.abspath(__file__)), "format_1")


@pytest.fixture(scope="module", autouse=True)
def measured():
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The folder of the sound checkpoint that the attacks change copies of."""
    return forging.make_base(str(tmp_path_factory.mktemp("sound")))


@pytest.fixture(scope="module")
def wanted(sound):
    """What a model has that fits the base: {table: Wanted}."""
    return {name: Wanted(table.dim, 2 * table.rows, table.use_hashtable, table.key_dtype, {
        part: (entry.dtype, entry.row_shape) for part, entry in table.parts.items() if part != "keys"})
            for name, table in manifest.read(sound).tables.items()}


def load(folder, wanted, ranks):
    """Everything that a job of so many ranks reads."""
    checkpoint = Checkpoint(folder)
    for name in checkpoint.manifest.other_files():
        checkpoint.check_other(name)
    for rank in range(ranks):
        for table, model in wanted.items():
            TableSource(checkpoint, table, rank, ranks, model).check()


def bounded(act, most=BYTES):
    """Runs `act`, which may be run again, and may take neither long nor much memory.

    Time is the wall's, so that waiting counts; what ran beside another test's burst gets two more chances.
    """
    seconds = []
    while not seconds or (seconds[-1] >= SECONDS and len(seconds) < 3):
        tracemalloc.clear_traces()
        begin = time.perf_counter()
        try:
            result, error = act(), None
        except CheckpointError as raised:
            result, error = None, raised
        seconds.append(time.perf_counter() - begin)
        assert tracemalloc.get_traced_memory()[1] < most
    assert seconds[-1] < SECONDS, seconds
    if error is not None:
        raise error
    return result


def names(message, file, table):
    return file in message and (table is None or "'{}'".format(table) in message)


@pytest.fixture
def base(tmp_path, sound):
    """A copy of the sound checkpoint; nothing is left of it, for what reads files by path hangs on some attacks."""
    folder = str(tmp_path / "model.ckpt-5")
    shutil.copytree(sound, folder)
    yield folder
    shutil.rmtree(folder)


def assert_readable(folder, wanted, output):
    """Every way to read a sound checkpoint gives what it was made of."""
    load(folder, wanted, 2)
    load(folder, wanted, 3)
    assert command.main(["verify", folder]) == 0
    assert command.main(["show", folder]) == 0
    assert command.main(["export", folder, "--format", "npz", "--output", output]) == 0
    for table, file in zip(forging.base_tables(), ("user%2Fid.npz", "item.npz")):
        with np.load(os.path.join(output, file)) as arrays:
            rows = table.by_key("rows")
            assert sorted(arrays["keys"]) == sorted(rows)
            for key, values in zip(arrays["keys"], arrays["values"]):
                np.testing.assert_array_equal(values, rows[key])


def test_the_base_is_sound(base, tmp_path, wanted):
    assert_readable(base, wanted, str(tmp_path / "out"))


def test_a_checkpoint_of_format_1_stays_readable(tmp_path, wanted):
    folder = str(tmp_path / "model.ckpt-5")
    shutil.copytree(FORMAT_1, folder)
    assert_readable(folder, wanted, str(tmp_path / "out"))


def test_what_is_written_is_still_format_1_to_the_byte(sound):
    files = sorted(os.listdir(FORMAT_1))
    assert len(files) == 13 and files == sorted(os.listdir(sound))
    assert filecmp.cmpfiles(FORMAT_1, sound, files, shallow=False) == (files, [], [])


@pytest.mark.parametrize("name", sorted(make_attacks.ATTACKS))
def test_an_attack_is_an_error_that_names_file_and_table(base, tmp_path, wanted, capsys, name):
    change, file, table = make_attacks.ATTACKS[name]
    folder = base
    change(folder)
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

        def export():
            shutil.rmtree(output, ignore_errors=True)
            return command.main(["export", folder, "--format", form, "--output", output])
        if bounded(export) == 1:
            assert not [found for _, _, files in os.walk(output) for found in files], "something half-written is left"


@pytest.mark.parametrize("name, words", [
    ("manifest-version-3", "format 3, and this sok1x reads formats 1 and 2"),
    ("header-version-2", "format 2, and this sok1x reads format 1")])
def test_a_later_format_says_so(base, wanted, name, words):
    make_attacks.ATTACKS[name][0](base)
    with pytest.raises(FormatVersionError, match=words):
        load(base, wanted, 2)


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
