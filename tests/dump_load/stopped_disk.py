"""The file system's functions, counted, and stopped at one of their calls: from then on nothing on the disk changes."""
import builtins
import os

NAMES = ("open", "write", "pwrite", "ftruncate", "fsync", "fdatasync", "mkdir", "rename", "unlink", "rmdir", "chmod")


class StoppedDisk:
    """Inside, the call number `last` (from 0) writes half of what it was to write, if it writes; and then `stop` is
    called, and that call and all later ones fail.

    So the disk is as a process leaves it that was killed there.

    Attributes:
        calls: how many calls there have been.
    """

    def __init__(self, last, stop=lambda: None):
        self._last, self._stop = last, stop
        self._kept = {}
        self.calls = 0

    def __enter__(self):
        for module, names in ((os, NAMES), (builtins, ("open",))):
            for name in names:
                self._kept[module, name] = getattr(module, name)
                setattr(module, name, self._counted(name, getattr(module, name)))
        return self

    def __exit__(self, *_):
        for (module, name), function in self._kept.items():
            setattr(module, name, function)

    def _counted(self, name, function):
        def call(*arguments, **options):
            number, self.calls = self.calls, self.calls + 1
            if number < self._last:
                return function(*arguments, **options)
            if number == self._last:
                if name in ("write", "pwrite"):
                    data = memoryview(arguments[1]).cast("B")
                    function(arguments[0], data[:len(data) // 2], *arguments[2:])
                self._stop()
            raise OSError(5, "Input/output error")
        return call
