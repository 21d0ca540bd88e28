"""What the communicators on device memory have in common: a communicator on host memory beside them."""
from .communicator import Communicator


class GpuCommunicator(Communicator):
    """A communicator on device pointers. What lies in host memory anyway goes over the host's.

    Args:
        host: The MpiCommunicator of the same ranks, for counts and agreements.
        gpu: The GPU, see connect_gpu.

    Attributes:
        direct: The same as C++ has it (direct.py), None where it has not.
        gpu: The GPU.
    """

    direct = None

    def __init__(self, host, gpu):
        self._host, self._gpu, self.gpu = host, gpu, gpu
        self.rank, self.size = host.rank, host.size
        self.failure = None

    def ended(self):
        """C++ has made its exchanges of a group."""

    @property
    def op(self):
        """Name of the op that exchanges now; the host's communicator knows it too."""
        return self._host.op

    @op.setter
    def op(self, name):
        self._host.op = name

    def _through_host(self, method, *arguments):
        """Calls the host's communicator; what it sends is sent by this one."""
        before = self._host.bytes_sent
        try:
            return getattr(self._host, method)(*arguments)
        finally:
            self.bytes_sent += self._host.bytes_sent - before

    def exchange_counts(self, send_counts):
        """See Communicator.exchange_counts."""
        return self._through_host("exchange_counts", send_counts)

    def any_rank(self, flags):
        """See Communicator.any_rank."""
        return self._host.any_rank(flags)

    def agree(self, code, message):
        """See Communicator.agree."""
        return self._host.agree(code, message)
