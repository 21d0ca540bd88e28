"""A job that has been started, whose output is read as it comes."""
import subprocess
import threading

from ranks import Finished


class Running:
    """A started job, whose output is read as it comes. Attributes: out, err (text so far)."""

    def __init__(self, child, network):
        self.child, self._network = child, network
        self._parts = {"out": [], "err": []}
        self._came = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=(getattr(child, "std" + name), name), daemon=True)
                         for name in self._parts]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, name):
        for line in stream:
            with self._came:
                self._parts[name].append(line)
                self._came.notify_all()

    @property
    def out(self):
        with self._came:
            return "".join(self._parts["out"])

    @property
    def err(self):
        with self._came:
            return "".join(self._parts["err"])

    def expect(self, text, times=1, timeout=120):
        """Waits until the job's output has a text so many times."""
        with self._came:
            came = self._came.wait_for(lambda: sum("".join(part).count(text) for part in self._parts.values()) >= times
                                       or self.child.poll() is not None, timeout)
            enough = sum("".join(part).count(text) for part in self._parts.values()) >= times
        assert came and enough, "no {!r}: {}".format(text, self._so_far())

    def finish(self, timeout=120):
        """Waits for the end; kills what is left of the job's processes. Returns a ranks.Finished."""
        try:
            self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            so_far = self._so_far()
            self.kill()
            raise AssertionError("no end after {} s: {}".format(timeout, so_far))
        for reader in self._readers:
            reader.join(5)
        return self._so_far()

    def kill(self):
        """Ends mpiexec and what it has started on its host; the other hosts' follow when their hosts go."""
        self.child.terminate()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def _so_far(self):
        return Finished(self.child.poll(), self.out, self.err)
