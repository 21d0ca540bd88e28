"""A stand-in for nvcc that notes its calls and can be slow, fail, or wait for its like; and processes that use it."""
import json
import os
import subprocess
import sys

from sok1x.cuda_kernels import gpu_compiler, kernel_cache, nvcc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

NVCC = """#!{python} -SE
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "behaviour")) as file:
    behaviour = json.load(file)
def note(what):
    with open(os.path.join(here, "calls"), "a") as file:
        file.write(json.dumps([what, os.path.basename(sys.argv[-1]), sys.argv[1:], os.getpid()]) + "\\n")
def started():
    with open(os.path.join(here, "calls")) as file:
        return sum(json.loads(line)[0] == "start" for line in file)
if "--version" in sys.argv or "--help" in sys.argv or "--list-gpu-code" in sys.argv:
    note(sys.argv[1])
    print(behaviour[sys.argv[1]])
    sys.exit(not behaviour[sys.argv[1]])
note("start")
open(os.path.join(os.environ["TMPDIR"], "tmpxft_of_nvcc"), "w").close()
with open(sys.argv[-1], "rb") as file:
    binary = b"ELF of " + file.read() + " ".join(sys.argv[1:-3]).encode()
with open(sys.argv[sys.argv.index("-o") + 1], "wb") as file:
    file.write(binary[:len(binary) // 2])
    file.flush()
    late = time.time() + 60
    while started() < behaviour["together"] or not os.path.exists(os.path.join(here, behaviour["until"])):
        assert time.time() < late, "alone"
        time.sleep(0.01)
    time.sleep(behaviour["seconds"])
    if sys.argv[-1].endswith(behaviour["fails"]):
        print("line 7: error: no such thing")
        sys.exit(2)
    file.write(binary[len(binary) // 2:])
note("end")
"""

CHILD = """
import os, signal, sys
from sok1x.cuda_kernels import gpu_compiler, kernel_cache
gpu_compiler.FOLDER = {folder!r}
{before}
for binary in gpu_compiler.cubins({families!r}, "sm_90").values():
    sys.stdout.buffer.write(binary)
"""


class StandIn(object):
    """The stand-in `path`, the sources of the families a, b, c and d in `sources`, a cache in `cache`."""

    def __init__(self, folder):
        self.folder, self.sources, self.cache = folder / "bin", folder / "sources", folder / "cache"
        self.path = self.folder / "nvcc"
        self.folder.mkdir()
        self.sources.mkdir()
        self.path.write_text(NVCC.format(python=sys.executable))
        self.path.chmod(0o755)
        self.behave()
        (self.folder / "calls").write_text("")
        for name in "abcd":
            (self.sources / (name + ".cu")).write_text("// family {}\n".format(name))
        (self.sources / "a.cu").write_text('// a\n  #  include "outer.cuh"\n#include <vector>\n#include "toolkit.h"\n')
        (self.sources / "outer.cuh").write_text('#include "inner.cuh"\n')
        (self.sources / "inner.cuh").write_text('#include "outer.cuh"\n')
        (self.sources / "other.cuh").write_text("// nobody's\n")
        (self.sources / "host_threads.cu").write_text("// the host's alone\n")

    def behave(self, fails="never", seconds=0.0, together=1, until="", version="tools, release 12.9, V12.9.86",
               codes="sm_80\nsm_90\nsm_100\nsm_90a", help_text="no help"):
        """Says how the next calls go: which source fails, how long one takes, how many wait for one another.

        until: a file beside the stand-in that a call waits for.
        """
        (self.folder / "behaviour").write_text(json.dumps({
            "fails": fails + ".cu", "seconds": seconds, "together": together, "until": until,
            "--version": version, "--list-gpu-code": codes, "--help": help_text}))

    def calls(self, what="start"):
        """[(source, arguments, process id)] of all calls of a kind."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [tuple(call[1:]) for call in map(json.loads, lines) if call[0] == what]

    def compiled(self):
        """The sources that were compiled so far, in order of their start."""
        return [source for source, _, _ in self.calls()]

    def most_at_once(self):
        """How many compiled at the same time."""
        running = most = 0
        for line in (self.folder / "calls").read_text().splitlines():
            running += {"start": 1, "end": -1}.get(json.loads(line)[0], 0)
            most = max(most, running)
        return most

    def child(self, families, before=""):
        """Starts a process that compiles families and prints them; `before` is run first in it."""
        program = CHILD.format(folder=str(self.sources), families=families, before=before)
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=dict(os.environ, PYTHONPATH=ROOT))

    def files(self, suffix=""):
        """The cache's files, as paths."""
        return sorted(path for path in self.cache.glob("*" + suffix)) if self.cache.exists() else []


def install(folder, monkeypatch):
    """A `StandIn` that gpu_compiler finds, with sources, cache and temporary files in a folder of the test."""
    stand_in = StandIn(folder)
    for name in ("CUDA_HOME", "CUDA_PATH", "XDG_CACHE_HOME") + gpu_compiler.NVCC_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SOK1X_NVCC", str(stand_in.path))
    monkeypatch.setenv("SOK1X_CACHE_DIR", str(stand_in.cache))
    (folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    monkeypatch.setattr(gpu_compiler, "FOLDER", str(stand_in.sources))
    monkeypatch.setattr(nvcc, "_versions", {})
    monkeypatch.setattr(kernel_cache, "_said", set())
    return stand_in
