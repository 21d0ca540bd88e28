"""SOK 1.x's files of a table, opened while another job dumps to the same folder."""
import errno
import os

import numpy as np
import pytest

from sok1x.graph_ops.bridge.errors import ABORTED, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.transfer import sok_files

D = 2


@pytest.fixture
def dump(tmp_path):
    """A function that gives a folder, as a dump does, files of keys k and k + 1, whose rows say which keys they are."""
    made = iter(range(1000))

    def give(key):
        keys, number = np.array([key, key + 1]), next(made)
        for values, path in list(zip((keys, keys.repeat(D).astype("<f4")), sok_files.paths(str(tmp_path), "t")))[::-1]:
            values.tofile("{}.{}.tmp".format(path, number))
            os.rename("{}.{}.tmp".format(path, number), path)

    give(0)
    give.folder = str(tmp_path)
    return give


@pytest.mark.parametrize("moment", range(5))
def test_keys_and_values_are_of_one_dump(dump, monkeypatch, moment):
    real, calls = os.open, []

    def opened(*arguments):
        calls.append(arguments)
        if len(calls) == moment:
            dump(100)
        return real(*arguments)

    monkeypatch.setattr(os, "open", opened)
    files = sok_files.TableFiles("label", dump.folder, "t", D)
    first = 100 if moment in (1, 2, 3, 4) else 0
    assert files.keys(0, 2).tolist() == [first, first + 1]
    np.testing.assert_array_equal(files.values(0, 2), files.keys(0, 2).repeat(D).reshape(2, D))


def test_files_that_are_replaced_again_and_again(dump, monkeypatch):
    real, calls = os.open, []

    def opened(*arguments):
        number = real(*arguments)
        calls.append(arguments)
        dump(len(calls))
        return number

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(sok_files, "_WAIT_SECONDS", 0)
    with pytest.raises(CallError, match="label: '.*t_keys.file' and .*replaced 5 times while they were") as caught:
        sok_files.TableFiles("label", dump.folder, "t", D)
    assert caught.value.code == ABORTED


def test_files_of_two_dumps_differ_for_the_ranks(dump):
    """Also where they have the same keys and sizes."""
    seen = []
    for first in (0, 1, 0):
        dump(first)
        seen.append(sok_files.TableFiles("label", dump.folder, "t", D).sample)
    assert seen[0] == seen[2] != seen[1]


def test_names_that_are_nobodys_for_a_moment(dump, monkeypatch):
    """Between the moves by which a dump gives its files their names."""
    real, calls = os.open, []

    def opened(path, *arguments):
        calls.append(path)
        if len(calls) < 4:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return real(path, *arguments)

    dump(100)
    monkeypatch.setattr(os, "open", opened)
    assert sok_files.TableFiles("label", dump.folder, "t", D).keys(0, 1).tolist() == [100]
    calls[:] = []
    monkeypatch.setattr(os, "open", lambda path, *arguments: opened(calls.clear() or path, *arguments))
    with pytest.raises(CallError, match="No such file"):
        sok_files.TableFiles("label", dump.folder, "t", D)


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 4097, 2000003])
def test_samples_tell_files_from_each_other(tmp_path, nbytes, seed):
    """What differs in 1 of 100 bytes; and a sample of all of a file that is no larger."""
    random, path = np.random.RandomState(seed), str(tmp_path / "file")
    content = random.randint(0, 256, nbytes).astype(np.uint8)

    def sample():
        content.tofile(path)
        return sok_files._sample(sok_files.File("label", path, os.O_RDONLY), nbytes)

    first = sample()
    assert first == sample() and len(first) <= sok_files._SAMPLES * sok_files._SAMPLE_BYTES
    if nbytes:
        content[random.randint(0, nbytes, -(-nbytes // 100))] += 1
        assert first != sample()


def test_a_full_disk_that_does_not_say_how_full(monkeypatch):
    def statvfs(path):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "statvfs", statvfs)
    with pytest.raises(CallError, match="5 bytes were to be written, an unknown number are free") as caught:
        with sok_files.errors("label", "path", 5):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.code == RESOURCE_EXHAUSTED
