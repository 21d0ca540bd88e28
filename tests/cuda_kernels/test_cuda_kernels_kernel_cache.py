"""The cache of compiled kernels: what is damaged, left behind, locked or unwritable."""
import errno
import os
import random
import shutil
import signal
import tempfile
import time

import nvcc_stand_in
import pytest

from sok1x.cuda_kernels import gpu_compiler, kernel_cache

ENTRY = "a-sm_90-" + 64 * "0"
DAY = 24 * 3600


@pytest.fixture
def nvcc(tmp_path, monkeypatch):
    return nvcc_stand_in.install(tmp_path, monkeypatch)


def cubin(name="a"):
    return gpu_compiler.cubin(name, "sm_90")


def wait_for(condition):
    late = time.time() + 120
    while not condition():
        assert time.time() < late
        time.sleep(0.01)


def make_older(path, days):
    os.utime(str(path), times=2 * (time.time() - days * DAY,))


def test_any_damaged_byte_is_seen(nvcc, seed):
    payload = bytes(bytearray(random.Random(seed).randrange(256) for _ in range(300)))
    kernel_cache.KernelCache().store(ENTRY, payload)
    path = nvcc.files(".cubin")[0]
    whole = path.read_bytes()
    assert len(whole) == kernel_cache.HEADER.size + 300 and kernel_cache.KernelCache().load(ENTRY) == payload
    cache = kernel_cache.KernelCache()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << random.Random(seed + position).randrange(8)
        path.write_bytes(damaged)
        assert cache.load(ENTRY) is None, position
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.load(ENTRY) is None, length
    path.write_bytes(whole + b"\0")
    assert cache.load(ENTRY) is None


@pytest.mark.parametrize("damage", [
    lambda whole: b"", lambda whole: b"\x7fELF" + whole, lambda whole: whole[:-1], lambda whole: bytes(len(whole)),
    lambda whole: whole[:-1] + bytes([whole[-1] ^ 1])])
def test_a_damaged_entry_is_silently_replaced(nvcc, damage, capfd):
    first = cubin()
    path = nvcc.files(".cubin")[0]
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert cubin() == first and nvcc.compiled() == ["a.cu", "a.cu"]
    assert path.read_bytes() == whole and nvcc.files() == [path]
    assert cubin() == first and len(nvcc.compiled()) == 2
    assert capfd.readouterr() == ("", "")


def test_an_entry_under_another_name_is_not_taken(nvcc):
    cubin("b")
    other = nvcc.files(".cubin")[0]
    cubin("c")
    mine = [path for path in nvcc.files(".cubin") if path != other][0]
    shutil.copy(str(other), str(mine))
    assert b"family c" in cubin("c") and nvcc.compiled() == ["b.cu", "c.cu", "c.cu"]


def test_killed_while_compiling(nvcc):
    nvcc.behave(seconds=60)
    child = nvcc.child(["a"])
    wait_for(nvcc.compiled)
    child.kill()
    child.communicate()
    os.kill(nvcc.calls()[0][2], signal.SIGKILL)
    assert [path.suffix for path in nvcc.files()] == [".lock"]
    nvcc.behave()
    assert b"outer.cuh" in cubin() and nvcc.compiled() == ["a.cu", "a.cu"]
    assert [path.suffix for path in nvcc.files()] == [".cubin"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_killed_while_writing(nvcc, moment):
    child = nvcc.child(["a"], "os.{} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)".format(moment))
    assert child.communicate()[0] == b"" and child.returncode == -signal.SIGKILL
    assert sorted(path.suffix for path in nvcc.files()) == [".lock", ".tmp"]
    assert b"outer.cuh" in cubin() and nvcc.compiled() == ["a.cu", "a.cu"]
    assert sorted(path.suffix for path in nvcc.files()) == [".cubin", ".tmp"]
    for path in nvcc.files(".tmp"):
        make_older(path, 1.1)
    cubin("b")
    assert [path.suffix for path in nvcc.files()] == [".cubin", ".cubin"]


def test_a_sweep_takes_what_is_old_and_nothing_of_others(nvcc):
    nvcc.cache.mkdir()
    ages = {ENTRY + ".cubin": 91, ENTRY[:-1] + "1.cubin": 89, ENTRY[:-1] + "2.lock": 2, ENTRY[:-1] + "3.lock": 0.9,
            ENTRY[:-1] + "4." + 32 * "f" + ".tmp": 2, ENTRY[:-1] + "5.cubin": -400, "notes.tmp": 900, "a.lock": 900,
            ENTRY[1:] + ".cubin.old": 900}
    for name, age in ages.items():
        (nvcc.cache / name).write_text("")
        make_older(nvcc.cache / name, age)
    cubin("b")
    left = set(path.name for path in nvcc.files())
    assert set(ages) - left == {ENTRY + ".cubin", ENTRY[:-1] + "2.lock", ENTRY[:-1] + "4." + 32 * "f" + ".tmp",
                                ENTRY[:-1] + "5.cubin"}


def test_use_is_noted_once_a_day(nvcc):
    cubin()
    path = nvcc.files()[0]
    make_older(path, 0.9)
    before = path.stat().st_mtime
    cubin()
    assert path.stat().st_mtime == before
    make_older(path, 1.1)
    cubin()
    assert path.stat().st_mtime > before


def test_two_locks_on_one_entry(nvcc):
    cache = kernel_cache.KernelCache()
    lock = cache.try_lock(ENTRY)
    assert lock and cache.try_lock(ENTRY) is None and kernel_cache.KernelCache().try_lock(ENTRY) is None
    lock.release()
    lock.release()
    assert nvcc.files() == []
    again = cache.try_lock(ENTRY)
    assert again and cache.try_lock(ENTRY) is None
    again.release()


def test_a_lock_on_a_removed_file_is_none(nvcc, monkeypatch):
    """The holder releases between the waiter's open and its flock."""
    cache, flock = kernel_cache.KernelCache(), kernel_cache.fcntl.flock
    holder = cache.try_lock(ENTRY)

    def flock_late(descriptor, how):
        monkeypatch.setattr(kernel_cache.fcntl, "flock", flock)
        holder.release()
        flock(descriptor, how)

    monkeypatch.setattr(kernel_cache.fcntl, "flock", flock_late)
    assert cache.try_lock(ENTRY) is None
    lock = cache.try_lock(ENTRY)
    assert lock and cache.try_lock(ENTRY) is None
    lock.release()


def test_a_file_system_without_locks(nvcc, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(kernel_cache.fcntl, "flock", refuse)
    assert cubin() == cubin() and nvcc.compiled() == ["a.cu"]


def test_a_full_disk(nvcc, monkeypatch, capfd):
    def refuse(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    assert cubin() == cubin() and nvcc.compiled() == ["a.cu", "a.cu"] and nvcc.files() == []
    assert capfd.readouterr().err.count("No space left") == 1


def test_a_folder_that_cannot_be_written(nvcc, monkeypatch, capfd, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SOK1X_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert cubin() == cubin() and cubin("b") and nvcc.compiled() == ["a.cu", "b.cu"]
    private = tmp_path / "tmp" / "sok1x-{}".format(os.geteuid())
    assert private.stat().st_mode & 0o777 == 0o700 and len(list(private.iterdir())) == 2
    said = capfd.readouterr().err
    assert said.count("sok1x:") == 1 and str(private) in said and str(tmp_path / "file" / "cache") in said
    # The default is nobody's wish: another folder is as good.
    monkeypatch.delenv("SOK1X_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(kernel_cache, "_said", set())
    cubin("c")
    assert len(list(private.iterdir())) == 3 and capfd.readouterr().err == ""


@pytest.mark.parametrize("wrong", ["open to all", "a link", "another's"])
def test_a_private_folder_that_is_not(nvcc, monkeypatch, capfd, tmp_path, wrong):
    (tmp_path / "file").write_text("")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    monkeypatch.setenv("SOK1X_CACHE_DIR", str(tmp_path / "file" / "cache"))
    private = tmp_path / "tmp" / "sok1x-{}".format(os.geteuid())
    if wrong == "a link":
        private.symlink_to(tmp_path / "elsewhere")
    else:
        private.mkdir()
        private.chmod(0o777 if wrong == "open to all" else 0o700)
    if wrong == "another's":
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        private.rename(tmp_path / "tmp" / "sok1x-{}".format(mine + 1))
    assert cubin() == cubin() and nvcc.compiled() == ["a.cu", "a.cu"]
    said = capfd.readouterr().err
    assert said.count("sok1x:") == 1 and "of this user alone" in said and "SOK1X_CACHE_DIR" in said


def test_a_machine_on_which_nothing_can_be_written(nvcc, monkeypatch, capfd):
    def none():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    first = cubin()
    monkeypatch.setattr(kernel_cache, "_trouble_with", lambda folder: folder + " is read-only")
    with monkeypatch.context() as patch:  # pytest has temporary files too
        patch.setattr(tempfile, "gettempdir", none)
        cache, again = kernel_cache.KernelCache(), cubin()
    assert again == first and nvcc.compiled() == ["a.cu"] and capfd.readouterr().err == ""
    cache.store("b", b"payload")
    assert cache.try_lock("b") and cache.load("b") is None
    said = capfd.readouterr().err
    assert said.count("sok1x:") == 1 and "not kept" in said and "No usable temporary directory" in said, said


def test_a_folder_that_can_only_be_read_is_read(nvcc, monkeypatch, capfd):
    first = cubin()
    trouble_with = kernel_cache._trouble_with
    monkeypatch.setattr(kernel_cache, "_trouble_with", lambda folder: "read-only" if folder == str(nvcc.cache)
                        else trouble_with(folder))
    assert cubin() == first and nvcc.compiled() == ["a.cu"] and capfd.readouterr().err == ""
    cubin("b")
    assert cubin("b") and nvcc.compiled() == ["a.cu", "b.cu"] and "read-only" in capfd.readouterr().err
    assert len(nvcc.files()) == 1


def test_the_default_folder(nvcc, monkeypatch, tmp_path):
    monkeypatch.delenv("SOK1X_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for base, folder in (("", "home/.cache"), ("relative", "home/.cache"), (str(tmp_path / "xdg"), "xdg")):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert kernel_cache.KernelCache().folder == str(tmp_path / folder / "sok1x")
        assert (tmp_path / folder / "sok1x").stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("SOK1X_CACHE_DIR", "~/own")
    assert kernel_cache.KernelCache().folder == str(tmp_path / "home" / "own")
    monkeypatch.delenv("SOK1X_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user number without a home
    assert kernel_cache.KernelCache().folder == str(tmp_path / "tmp" / "sok1x-{}".format(os.geteuid()))
