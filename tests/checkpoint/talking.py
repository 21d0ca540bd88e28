"""A program that tests talk with while it runs."""
import concurrent.futures
import os
import signal
import subprocess

from ranks import environment

SECONDS = 120  # that it may be silent, or take to end


class Talking:
    """Starts a command. A context, which at its end leaves nothing running.

    Attributes:
        pid: its process.
        err: what it wrote to stderr, once it has ended.
    """

    def __init__(self, *command):
        self._child = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(), universal_newlines=True, start_new_session=True)
        self.pid = self._child.pid
        self._readers = concurrent.futures.ThreadPoolExecutor(2)
        self._stderr = self._readers.submit(self._child.stderr.read)
        self.err = ""

    def say(self, *words):
        """Writes a line."""
        print(*words, file=self._child.stdin, flush=True)

    def hear(self):
        """The words of the next line; [] at the end."""
        return self._readers.submit(self._child.stdout.readline).result(SECONDS).split()

    def end(self):
        """Waits until it ends, and returns its exit code."""
        code = self._child.wait(SECONDS)
        self.err = self._stderr.result(SECONDS)
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._child.stdin.close()
        try:
            # An mpiexec that is asked to end ends its ranks.
            self._child.wait(0 if kind else 10)
        except subprocess.TimeoutExpired:
            os.killpg(self._child.pid, signal.SIGTERM)
            try:
                self._child.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._child.pid, signal.SIGKILL)
        self.end()
        self._readers.shutdown()
        self._child.stdout.close()
        self._child.stderr.close()
        if kind:
            print(self.err)
