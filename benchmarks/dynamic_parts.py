"""Where the time of a growth, or of steps in which rows leave, goes: for dynamic.py."""
import collections
import contextlib

import gpu_report
from profiling import Clock

from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.stores import eviction, growth, repair
from sok1x.graph_ops.stores.forgetful_store import ForgetfulStore
from sok1x.graph_ops.stores.hashed_store import HashedStore

# What is timed: (where it is, its name there). Times contain those of what they call; on a GPU a function that reads
# nothing back returns before its kernels have run.
_PARTS = [
    (HashedStore, "insert"), (HashedStore, "find"), (HashedStore, "_enter"), (growth, "grow"), (growth, "_grow_index"),
    (HashedStore, "_find_and_count"),
    (growth, "_resize"), (growing.Reached, "__init__"), (growing.Reached, "larger"), (growing.Reached, "take"),
    (growing.Reached, "end"), (ForgetfulStore, "insert"), (ForgetfulStore, "touched"), (ForgetfulStore, "_find_room"),
    (ForgetfulStore, "_reach_slots"), (ForgetfulStore, "_give"), (ForgetfulStore, "_evict"), (eviction, "choose"),
    (eviction, "take_out"), (repair, "raise_noted")]


class Parts:
    """Times parts of the library while its block runs.

    Args:
        device: of gpu_device.py.
    """

    def __init__(self, device):
        self._device, self._clock = device, Clock()
        self._kernels, self._launches = collections.Counter(), collections.Counter()

    @contextlib.contextmanager
    def timed(self):
        """The block."""
        gpu = self._device.gpu
        with contextlib.ExitStack() as stack:
            for owner, name in _PARTS:
                real = owner.__dict__[name]
                label = "{}.{}".format(getattr(owner, "__name__", "").rsplit(".", 1)[-1], name)
                setattr(owner, name, self._clock.timed(label, real))
                stack.callback(setattr, owner, name, real)
            if gpu is None:
                yield
                return
            gpu.profile = profile = []
            try:
                yield
                self._device.synchronize()
            finally:
                gpu.profile = None
            with gpu.active():
                for kernel, start, end in profile:
                    self._kernels[kernel] += start.time_till(end)
                    self._launches[kernel] += 1
                profile.clear()  # events are freed where the context is current

    def report(self, runs):
        """Of each of so many runs: milliseconds of the host's functions and of a GPU's kernels, with launches."""
        return {"host ms": {name: gpu_report.figure(ms / runs)
                            for name, ms in self._clock.milliseconds.most_common()},
                "gpu ms": {name: [gpu_report.figure(ms / runs), self._launches[name] / runs]
                           for name, ms in self._kernels.most_common()}}
