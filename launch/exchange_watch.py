"""Exchanges as the monitor's thread sees them: those that do not end, and those that NCCL found broken.

An exchange of host memory holds the executor until it ends. One of GPU memory is enqueued and returns at once, and
holds whoever waits for the GPU's stream later: the executor, TensorFlow, the user's program. Such a stream never ends
by itself when a rank is missing, so when the job has failed the communicator is aborted, which lets all of them go.
"""
import time

from . import envelopes, messages
from .errors import LaunchError
from .hosts import named

# What is under way when the job fails may still end by itself, and is given that long.
_LAST_SECONDS = 0.5
# After which an executor may be waiting for the GPU and not hear the others.
_DEAF_SECONDS = 0.5


class ExchangeWatch:
    """Looks at a world's communicators. All calls come from one thread, the monitor's.

    Args:
        world: The World: its communicators, coordinator and rank.
        clock: Function giving seconds, as `Communicator.busy` counts them.
    """

    def __init__(self, world, clock=time.monotonic):
        self._world, self._clock = world, clock
        self._seen = {}             # communicator -> (busy, times warned)
        self._failed_at = None

    def look(self):
        """To be called now and then: warns about an exchange that other ranks do not join, gives it up in the end."""
        for communicator in (self._world.communicator, self._world.gpu_communicator):
            if communicator is not None:
                self._look_for_trouble(communicator)
                self._look_for_delay(communicator)

    def release(self):
        """To be called often once the job has failed: lets those go who wait for a GPU that waits for other ranks."""
        now, gpu = self._clock(), self._world.gpu_communicator
        if self._failed_at is None:
            self._failed_at = now
        busy = gpu.busy if gpu is not None else None
        if busy is not None and now >= max(self._failed_at, busy[2]) + _LAST_SECONDS:
            gpu.abort(self._world.coordinator.job_error)

    def _look_for_trouble(self, communicator):
        trouble = communicator.trouble()
        if trouble is not None:
            self._world.coordinator.fail_job("{}: {}".format(named(self._world.rank), trouble))
            communicator.abort(self._world.coordinator.job_error)

    def _look_for_delay(self, communicator):
        busy = communicator.busy
        before, warned = self._seen.get(communicator, (None, 0))
        if busy is not before:
            warned = 0
        if busy is not None:
            if self._clock() >= busy[2] + _DEAF_SECONDS:
                self._overhear()
            warned = self._judge(busy, warned)
        self._seen[communicator] = busy, warned

    def _judge(self, busy, warned):
        """Gives up, or warns about, an exchange that is late. Returns how many times it has been warned about."""
        coordinator, (what, op, since) = self._world.coordinator, busy
        waited = self._clock() - since
        text = "{} of op '{}' has waited {:.0f} s for other ranks; one of them is stuck in this op.".format(
            what, op, waited)
        if coordinator.abort_seconds is not None and waited >= coordinator.abort_seconds:
            coordinator.fail_job("{}: {} The limit is SOK1X_ABORT_SECONDS={:g}.".format(
                named(self._world.rank), text, coordinator.abort_seconds))
        elif coordinator.stall_seconds is not None and waited >= coordinator.stall_seconds * (warned + 1):
            coordinator.warn("sok1x: {}: {}".format(named(self._world.rank), text))
            return int(waited / coordinator.stall_seconds)
        return warned

    def _overhear(self):
        """Hears of a failure of the job for an executor that waits for its GPU, and so cannot hear of it itself.

        The message stays for the executor. Without this, ranks would wait here until their launcher kills them.
        """
        for _, data in self._world.coordinator.transport.peek():
            try:
                said = [message for one in envelopes.opened(data) for message in messages.decode(one)]
            except LaunchError:
                continue  # the executor will say so
            for message in said:
                if isinstance(message, (messages.Failed, messages.JobFailed)):
                    error = message.error
                    self._world.coordinator.fail_job(error.message, error.code, error.rank)
