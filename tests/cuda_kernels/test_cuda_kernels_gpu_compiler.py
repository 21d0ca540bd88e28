"""The kernels' compiler for GPUs: what makes it compile again, who compiles, its messages."""
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import nvcc_stand_in
import pytest

from sok1x.cuda_kernels import gpu_compiler, kernel_cache

KERNELS = os.path.join(nvcc_stand_in.ROOT, "cuda_kernels")


@pytest.fixture
def nvcc(tmp_path, monkeypatch):
    return nvcc_stand_in.install(tmp_path, monkeypatch)


def cubin(name="a", architecture="sm_90"):
    return gpu_compiler.cubin(name, architecture)


def test_the_second_call_compiles_nothing(nvcc):
    first = cubin()
    arguments = nvcc.calls()[0][1]
    assert first.startswith(b"ELF of // a\n")
    assert {"-cubin", "-arch=sm_90", "--fmad=false", "-lineinfo"} <= set(arguments)
    assert cubin() == first
    child = nvcc.child(["a"])
    assert child.communicate() == (first, b"") and child.returncode == 0
    assert nvcc.compiled() == ["a.cu"]
    assert len(nvcc.calls("--version")) == 2  # one for each process


def edit(nvcc, monkeypatch, what):
    if what.endswith((".cu", ".cuh", ".h")):
        with open(str(nvcc.sources / what), "a") as file:
            file.write("// more\n")
    elif what == "version":
        nvcc.behave(version="tools, release 12.9, V12.9.87")
        os.utime(str(nvcc.path), (1, 1))
    elif what == "flags":
        monkeypatch.setattr(gpu_compiler, "FLAGS", gpu_compiler.FLAGS + ["-G"])
    elif what == "variable":
        monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    elif what == "touch":
        os.utime(str(nvcc.sources / "a.cu"), (1, 1))


@pytest.mark.parametrize("what, compiled", [
    ("a.cu", 2), ("outer.cuh", 2), ("inner.cuh", 2), ("toolkit.h", 2), ("version", 2), ("flags", 2), ("variable", 2),
    ("architecture", 2), ("other.cuh", 1), ("b.cu", 1), ("touch", 1)])
def test_what_compiles_again(nvcc, monkeypatch, what, compiled):
    cubin()
    edit(nvcc, monkeypatch, what)
    for _ in range(2):
        cubin("a", "sm_100" if what == "architecture" else "sm_90")
        assert nvcc.compiled() == ["a.cu"] * compiled
    assert len(nvcc.files(".cubin")) == compiled == len(nvcc.files())


def test_the_place_of_the_package_does_not_count(nvcc, monkeypatch, tmp_path):
    cubin()
    shutil.copytree(str(nvcc.sources), str(tmp_path / "elsewhere"))
    monkeypatch.setattr(gpu_compiler, "FOLDER", str(tmp_path / "elsewhere"))
    cubin()
    assert nvcc.compiled() == ["a.cu"]


def test_contents_are_not_confused_at_their_ends(nvcc):
    (nvcc.sources / "a.cu").write_text('#include "x"\n')
    (nvcc.sources / "x").write_text("y")
    first = gpu_compiler._entry("a", "sm_90", str(nvcc.path))
    (nvcc.sources / "x").unlink()
    (nvcc.sources / "a.cu").write_text('#include "x"\nxy')
    assert gpu_compiler._entry("a", "sm_90", str(nvcc.path)) != first


def test_several_are_compiled_at_once(nvcc, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(3))
    nvcc.behave(seconds=0.2, together=3)
    binaries = gpu_compiler.cubins(gpu_compiler.names(), "sm_90")
    assert list(binaries) == ["a", "b", "c", "d"] and b"family d" in binaries["d"]
    assert sorted(nvcc.compiled()) == ["a.cu", "b.cu", "c.cu", "d.cu"] and nvcc.most_at_once() == 3
    assert gpu_compiler.cubins(["c", "c", "a"], "sm_90") == {name: binaries[name] for name in "ac"}
    assert gpu_compiler.cubins([], "sm_90") == {} and len(nvcc.compiled()) == 4


def test_eight_processes_compile_once(nvcc):
    nvcc.behave(seconds=0.3)
    children = [nvcc.child(["a"]) for _ in range(8)]
    outputs = [child.communicate() for child in children]
    assert outputs == [(outputs[0][0], b"")] * 8 and outputs[0][0].startswith(b"ELF of // a")
    assert nvcc.compiled() == ["a.cu"] and [path.suffix for path in nvcc.files()] == [".cubin"]


def test_processes_share_the_work(nvcc):
    """Each may use one core; they finish only if all four compile at the same time."""
    nvcc.behave(together=4)
    children = [nvcc.child(list("abcd"), "os.sched_getaffinity = lambda process: {0}") for _ in range(4)]
    outputs = [child.communicate() for child in children]
    assert outputs == [(outputs[0][0], b"")] * 4 and len(outputs[0][0]) > 100
    assert sorted(nvcc.compiled()) == ["a.cu", "b.cu", "c.cu", "d.cu"]


def test_who_waits_says_so_once_and_not_for_ever(nvcc, monkeypatch, capfd):
    monkeypatch.setattr(gpu_compiler, "SAY_SECONDS", 0.1)
    monkeypatch.setattr(gpu_compiler, "WAIT_SECONDS", 0.5)
    cache = kernel_cache.KernelCache()
    locks = [cache.try_lock(gpu_compiler._entry(name, "sm_90", str(nvcc.path))) for name in "ab"]
    assert sorted(gpu_compiler.cubins("abc", "sm_90")) == ["a", "b", "c"]
    assert nvcc.compiled()[0] == "c.cu" and sorted(nvcc.compiled()) == ["a.cu", "b.cu", "c.cu"]
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "compile a.cu, b.cu for sm_90" in said and str(nvcc.cache) in said
    for lock in locks:
        lock.release()


def test_who_waits_goes_on_when_the_lock_is_free(nvcc, capfd):
    lock = kernel_cache.KernelCache().try_lock(gpu_compiler._entry("a", "sm_90", str(nvcc.path)))
    timer = threading.Timer(0.3, lock.release)
    begin = time.monotonic()
    timer.start()
    cubin()
    assert time.monotonic() - begin > 0.25 and nvcc.compiled() == ["a.cu"] and capfd.readouterr().err == ""
    timer.join()


def test_an_entry_written_just_before_the_lock_was_free(nvcc, monkeypatch):
    def try_lock(cache, entry):
        cache.store(entry, b"another's")
        return lock(cache, entry)

    lock = kernel_cache.KernelCache.try_lock
    monkeypatch.setattr(kernel_cache.KernelCache, "try_lock", try_lock)
    assert cubin() == b"another's" and nvcc.compiled() == []
    assert [path.suffix for path in nvcc.files()] == [".cubin"]


def test_a_source_edited_while_it_is_compiled(nvcc):
    nvcc.behave(until="edited")

    def edit_at_start():
        while not nvcc.compiled():
            time.sleep(0.01)
        nvcc.behave()
        (nvcc.sources / "b.cu").write_text("// edited\n")
        (nvcc.folder / "edited").write_text("")

    editor = threading.Thread(target=edit_at_start)
    editor.start()
    assert b"edited" in cubin("b")
    editor.join()
    assert nvcc.compiled() == ["b.cu", "b.cu"] and len(nvcc.files()) == 1
    assert b"edited" in cubin("b") and len(nvcc.compiled()) == 2


def test_an_interrupt_ends_nvcc(nvcc, monkeypatch, tmp_path):
    nvcc.behave(seconds=60)

    def interrupt(seconds):
        if nvcc.compiled():
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        cubin()
    assert time.monotonic() - begin < 30
    with pytest.raises(ProcessLookupError):
        os.kill(nvcc.calls()[0][2], 0)
    assert nvcc.files() == [] and list((tmp_path / "tmp").iterdir()) == []


def test_a_failing_nvcc(nvcc, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(1))
    nvcc.behave(fails="b")
    with pytest.raises(RuntimeError) as error:
        gpu_compiler.cubins("abc", "sm_90")
    assert re.search(r"b\.cu:\n{} -cubin -arch=sm_90 .*/b\.cu\nfailed with exit code 2:\nline 7: error: no such thing"
                     .format(nvcc.path), str(error.value))
    assert nvcc.compiled() == ["a.cu", "b.cu"] and list((tmp_path / "tmp").iterdir()) == []
    assert [path.suffix for path in nvcc.files()] == [".cubin"]
    nvcc.behave()
    assert gpu_compiler.cubins("abc", "sm_90") and nvcc.compiled() == ["a.cu", "b.cu", "b.cu", "c.cu"]


@pytest.mark.parametrize("codes, help_text", [
    ("sm_80\nsm_90\nsm_100", ""), ("", "'sm_100','compute_80','sm_80', sm_90")])  # the second: CUDA 10
def test_an_architecture_that_nvcc_does_not_know(nvcc, codes, help_text):
    nvcc.behave(fails="", codes=codes, help_text=help_text)
    with pytest.raises(RuntimeError, match=r"\(CUDA 12.9\) cannot .* sm_70.* sm_80, sm_90, sm_100\..*SOK1X_NVCC"):
        cubin("a", "sm_70")


def test_wrong_arguments(nvcc):
    for name in ("nothing", "host_threads", "../a", "a.cu"):
        with pytest.raises(ValueError, match="no kernel family '{}'.*a, b, c, d".format(name)):
            cubin(name)
    for architecture in ("90", "sm_", "compute_90", "sm_90; true", "sm_90\n"):
        with pytest.raises(ValueError, match="'sm_90'; got"):
            cubin("a", architecture)
    assert nvcc.compiled() == []


def test_it_imports_no_gpu_no_tensorflow_no_mpi():
    subprocess.run([sys.executable, "-c", "import sys, sok1x.cuda_kernels.gpu_compiler\n"
                    "assert not set(sys.modules) & {'pycuda', 'tensorflow', 'mpi4py', 'numpy', 'sok1x.launch'}"],
                   env=dict(os.environ, PYTHONPATH=nvcc_stand_in.ROOT), check=True)


def test_what_is_not_compiled_for_gpus_has_no_kernel():
    left_out = {file[:-3] for file in os.listdir(KERNELS) if file.endswith(".cu")} - set(gpu_compiler.names())
    assert left_out and len(gpu_compiler.names()) > 10
    for name in left_out:
        with open(os.path.join(KERNELS, name + ".cu")) as file:
            assert "SOK_KERNEL" not in file.read(), name
