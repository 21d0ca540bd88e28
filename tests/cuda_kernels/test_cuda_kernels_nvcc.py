"""nvcc: where it is looked for, what is said where there is none or one that does not run, what it makes of kernels."""
import os
import re
import shutil
import stat
import subprocess

import nvcc_stand_in
import pytest

from sok1x.cuda_kernels import gpu_compiler, nvcc


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    return nvcc_stand_in.install(tmp_path, monkeypatch)


def test_where_nvcc_is_looked_for(stand_in, monkeypatch, tmp_path):
    places = {}
    for name in ("own", "home", "path", "search"):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        places[name] = shutil.copy(str(stand_in.path), str(folder))
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("SOK1X_NVCC", places["own"])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PATH", os.path.dirname(places["search"]))
    assert nvcc.find() == places["own"]
    monkeypatch.delenv("SOK1X_NVCC")
    assert nvcc.find() == places["home"]
    os.chmod(places["home"], stat.S_IRUSR)  # not a program
    assert nvcc.find() == places["path"]
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "empty"))
    assert nvcc.find() == places["search"]
    monkeypatch.setenv("SOK1X_NVCC", "nvcc")
    assert nvcc.find() == places["search"]


def test_without_nvcc_it_says_what_to_install(stand_in, monkeypatch):
    monkeypatch.setenv("SOK1X_NVCC", "/nowhere/nvcc")
    monkeypatch.setenv("CUDA_HOME", "/usr")
    with pytest.raises(nvcc.Missing, match="SOK1X_NVCC is '/nowhere/nvcc'.*CUDA toolkit, 10.0"):
        gpu_compiler.cubin("a", "sm_90")
    monkeypatch.delenv("SOK1X_NVCC")
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(nvcc.Missing, match=r"CUDA_HOME \(/usr\) or CUDA_PATH \(not set\).*PATH.*"
                                            "CUDA toolkit, 10.0 or newer.*SOK1X_NVCC"):
        gpu_compiler.cubin("a", "sm_90")


def test_an_nvcc_that_does_not_run(stand_in):
    stand_in.behave(version="")
    with pytest.raises(RuntimeError, match="--version\nfailed with exit code 1"):
        gpu_compiler.cubin("a", "sm_90")
    stand_in.path.write_text("no program")
    with pytest.raises(RuntimeError, match="Exec format error"):
        gpu_compiler.cubin("a", "sm_90")


@pytest.fixture
def real_nvcc(monkeypatch, tmp_path):
    """The path of nvcc itself, with an empty cache."""
    monkeypatch.setenv("SOK1X_CACHE_DIR", str(tmp_path))
    try:
        return nvcc.find()
    except nvcc.Missing:
        pytest.skip("there is no nvcc")


@pytest.mark.parametrize("architecture, which", [
    ("sm_70", slice(None)), ("sm_80", slice(0, None, 3)), ("sm_90", slice(None)), ("sm_100", slice(1, None, 3))] + [
        pytest.param(architecture, slice(None), marks=pytest.mark.slow) for architecture in ("sm_80", "sm_100")])
def test_every_kernel_compiles(real_nvcc, architecture, which, monkeypatch):
    """For one architecture all, for others some: nothing in the sources depends on which it is."""
    known = nvcc.architectures(real_nvcc)
    if architecture not in known:
        with pytest.raises(RuntimeError, match="cannot compile for {}".format(architecture)):
            gpu_compiler.cubin("fill", architecture)
        pytest.skip("{} compiles for {} only".format(real_nvcc, ", ".join(known)))
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Werror all-warnings")
    names = gpu_compiler.names()[which]
    binaries = gpu_compiler.cubins(names, architecture)
    assert sorted(binaries) == names
    for name, binary in binaries.items():
        assert binary[:4] == b"\x7fELF" and binary[18:20] == b"\xbe\0", name  # an ELF file for CUDA


def test_the_flags_keep_the_host_s_arithmetic(real_nvcc, tmp_path):
    """Each operation is rounded by itself, to nearest; denormals stay."""
    source = tmp_path / "arithmetic.cu"
    source.write_text('extern "C" __global__ void f(float* x) { *x = x[1] * x[2] + x[3] / x[4] - sqrtf(x[5]); }\n')
    subprocess.run([real_nvcc, "-ptx", "-o", str(tmp_path / "ptx")] + gpu_compiler.FLAGS + [str(source)], check=True)
    operations = set(re.findall(r"\b(?:fma|mad|mul|add|sub|div|sqrt)\.[\w.]*f32", (tmp_path / "ptx").read_text()))
    assert operations == {"mul.rn.f32", "div.rn.f32", "add.rn.f32", "sqrt.rn.f32", "sub.rn.f32"}
