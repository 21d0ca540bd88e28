"""How much memory a container has left, of files as Linux has them."""
import builtins
import io

import pytest

from sok1x.graph_ops.stores import host_left

MEMORY = {"/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 4000 kB\n"}
FILES = {
    2: {"memory.max": "{limit}", "memory.current": "900000", "memory.stat":
        "anon 100000\nfile 700000\ninactive_file 300000\nactive_file 400000\nslab_reclaimable 50000\n"},
    1: {"memory/memory.limit_in_bytes": "{limit}", "memory/memory.usage_in_bytes": "900000", "memory/memory.stat":
        "inactive_file 1\nactive_file 2\ntotal_inactive_file 300000\ntotal_active_file 450000\n"}}


@pytest.mark.parametrize("version, limit, left", [
    (2, 1000000, 850000), (1, 1000000, 850000), (2, "max", 4096000), (1, 2 ** 63 - 4096, 4096000), (2, 100000, 0),
    (None, None, 4096000)])
def test_files_that_have_been_read_are_given_back(monkeypatch, version, limit, left):
    files = dict(MEMORY)
    files.update({"/sys/fs/cgroup/" + name: text.replace("{limit}", str(limit))
                  for name, text in FILES.get(version, {}).items()})

    def opened(path, **how):
        if path in files:
            return io.StringIO(files[path])
        if path.startswith("/sys/fs/cgroup/"):
            raise FileNotFoundError(path)
        return builtins.open(path, **how)

    monkeypatch.setattr(host_left, "open", opened, raising=False)
    assert host_left.available() == left
