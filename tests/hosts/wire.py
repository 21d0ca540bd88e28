"""A cable between two network namespaces that loses, delays and holds up packets: wire.cc, compiled when needed."""
import functools
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


@functools.lru_cache(maxsize=None)
def _program():
    """The compiled program's path; it stays open, and goes with this process."""
    folder = tempfile.TemporaryDirectory(prefix="sok1x_wire_")
    path = os.path.join(folder.name, "wire")
    subprocess.run([os.environ.get("CXX") or "g++", "-std=c++11", "-O2", "-Wall", "-Werror", "-o", path,
                    os.path.join(HERE, "wire.cc")], check=True)
    return folder, path


class Wire:
    """A cable between an interface of one namespace and one of another. It is perfect until it is told otherwise.

    Args:
        namespace, name: Of one end.
        other, other_name: Of the other.
        seed: Of the choice of what is lost.
    """

    def __init__(self, namespace, name, other, other_name, seed=1):
        self._child = subprocess.Popen([_program()[1], namespace, name, other, other_name, str(seed)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._expect_ok()

    def become(self, loss=0.0, delay=0.0, bits_per_second=0.0, cut=False):
        """From now on a share `loss` of packets is lost each way, and each takes `delay` s; or none passes."""
        self._child.stdin.write("{} {} {} {}\n".format(loss, delay, bits_per_second, int(cut)).encode())
        self._child.stdin.flush()
        self._expect_ok()

    def close(self):
        """Takes the cable away, with both interfaces."""
        self._child.stdin.close()
        self._child.wait(10)

    def _expect_ok(self):
        line = self._child.stdout.readline()
        assert line == b"ok\n", line
