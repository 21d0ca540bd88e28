"""Each of our kernels in one run, with its arguments and its time: by CUDA events, by CUPTI, or on the host by a clock.

By CUPTI all kernels are seen; else those of lookups and gradients that C++ launches are not (CUDA events), or as
'lookup FUNCTION' (on the host). Optimizers' steps are taken one by one, by Python, in runs that are recorded.

Events lie between the launches and cost time themselves, which a kernel of some microseconds shows; CUPTI's times are
the hardware's. So runs that are recorded are not those whose wall time is taken.
"""
import collections
import contextlib
import time

import gpu_trace
import numpy as np

from sok1x.cuda_kernels import backend
from sok1x.graph_ops.bridge import bridge, op_functions
from sok1x.graph_ops.groups.lookup_run import LookupRun
from sok1x.graph_ops.groups.updates import UpdateRun

EXCHANGES = ("all_to_all", "reduce_scatter", "all_gather", "all_reduce", "broadcast")

# start, end: ms since some point, equal for all of one run. arguments: the kernel's, None where they are not known.
Launch = collections.namedtuple("Launch", "name arguments start end")


class Run:
    """One run. launches: of ours, exchanges apart. exchanges: the same of NCCL or MPI. others: TensorFlow's, where
    known (CUPTI). wall: ms from its call to its return, by the host's clock."""

    def __init__(self, launches, wall, others=()):
        self.wall = wall
        nccl = [launch for launch in launches if launch.name.lower().startswith("nccl")]
        around = [launch for launch in launches if launch.name.startswith("exchange ")]
        # The communicator may time what it does itself; what is timed around it here would count it twice.
        self.exchanges = nccl or around
        apart = set(map(id, nccl + around))
        self.launches = [launch for launch in launches if id(launch) not in apart]
        self.others = list(others)

    @property
    def kernels(self):
        """ms in our kernels."""
        return total(self.launches)

    @property
    def everything(self):
        """All that is known to have run, in the order of its start."""
        return sorted(self.launches + self.exchanges + self.others, key=lambda launch: launch.start)

    @property
    def span(self):
        """ms from the first start to the last end."""
        every = self.everything
        return max(launch.end for launch in every) - every[0].start if every else 0.0

    @property
    def busy(self):
        """ms in which at least one of them ran."""
        spent, until = 0.0, -np.inf
        for launch in self.everything:
            spent += max(0.0, launch.end - max(until, launch.start))
            until = max(until, launch.end)
        return spent


def total(launches):
    """ms of launches."""
    return float(sum(launch.end - launch.start for launch in launches))


class Recorder:
    """Records runs.

    Args:
        device: a `gpu_device` device.
        trace: a `gpu_trace.Trace`, or None for events.
        communicator: whose exchanges are to be timed too, or None.
    """

    def __init__(self, device, trace=None, communicator=None):
        self._device, self._trace, self._communicator = device, trace, communicator
        self.clock = "host clock" if device.gpu is None else "CUPTI" if trace else "CUDA events"

    def record(self, run):
        """Calls `run` and returns its `Run`."""
        if self._device.gpu is None:
            return self._on_host(run)
        return self._by_trace(run) if self._trace else self._by_events(run)

    def _on_host(self, run):
        launches = []

        def timed(name, function):
            def call(*arguments):
                began = time.perf_counter() * 1e3
                try:
                    return function(*arguments)
                finally:
                    launches.append(Launch(name, arguments, began, time.perf_counter() * 1e3))
            return call

        names = [(backend.kernels, name) for name in backend._signatures]
        if self._communicator is not None:
            names += [(self._communicator, name) for name in EXCHANGES]
        replacements = [(owner, name, timed(name if owner is backend.kernels else "exchange " + name,
                                            getattr(owner, name))) for owner, name in names]
        replacements.append((UpdateRun, "apart", True))
        # What groups of lookups do in C++ is seen as a whole.
        function = LookupRun.call
        replacements.append((LookupRun, "call", lambda run, name, *arguments: timed("lookup " + name, function)(
            run, name, *arguments)))
        with _replaced(replacements):
            wall = _timed(run)
        return Run(launches, wall)

    def _by_events(self, run):
        gpu = self._device.gpu
        gpu.profile = []
        try:
            with self._logged(apart=True) as log:
                wall = _timed(run)
            self._device.synchronize()
        finally:
            profile, gpu.profile = gpu.profile, None
        with gpu.active():
            times = [(name, profile[0][1].time_till(start), profile[0][1].time_till(end))
                     for name, start, end in profile]
            profile.clear()  # events are freed where the context is current
        return Run(_with_arguments(times, log), wall)

    def _by_trace(self, run):
        with self._trace.recorded(self._device.synchronize) as activities, self._logged(apart=False) as log:
            wall = _timed(run)
        ours = {each.stream for each in activities if each.name.startswith("sok1x_")}
        if log and not ours:
            raise gpu_trace.TraceMissing("CUPTI gave no record of our kernels")
        times, others = [], []
        for each in activities:
            name = each.name[len("sok1x_"):] if each.name.startswith("sok1x_") else each.name
            if each.stream in ours or name.startswith("nccl"):
                times.append((name, each.start, each.end))
            else:
                others.append(Launch(name, None, each.start, each.end))
        return Run(_with_arguments(times, log), wall, others)

    @contextlib.contextmanager
    def _logged(self, apart):
        """Gives a list of (name, arguments) of what is enqueued inside, in the order of `Gpu.profile`'s entries.

        apart: optimizers' steps run from Python, each by its own kernel; else as they do, with the sums of gradients.
        """
        gpu, log = self._device.gpu, []

        def launched(original, signature, arguments):
            original(signature, arguments)
            if signature.threads(arguments) > 0:
                log.append((signature.name, arguments))

        def moved(name, nbytes_at, original, *arguments):
            original(*arguments)
            if arguments[nbytes_at]:
                log.append((name, arguments))

        def exchanged(name, original, *arguments):
            with gpu.timed("exchange " + name):
                original(*arguments)

        def bound(function, *first):
            return lambda *arguments: function(*first, *arguments)

        replacements = [(UpdateRun, "apart", apart), (gpu, "launch", bound(launched, gpu.launch)),
                        (gpu, "clear", bound(moved, "clear", 1, gpu.clear)),
                        (gpu, "copy", bound(moved, "copy", 2, gpu.copy))]
        if self._communicator is not None:
            replacements += [(self._communicator, name, bound(exchanged, name, getattr(self._communicator, name)))
                             for name in EXCHANGES]
        with _replaced(replacements):
            yield log


def _timed(run):
    """Calls `run`; ms until it returns."""
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def _with_arguments(times, log):
    """Launches of (name, start, end), with the arguments that the log has for the same names in the same order."""
    waiting = collections.defaultdict(collections.deque)
    for name, arguments in log:
        waiting[name].append(arguments)
    return [Launch(name, waiting[name].popleft() if waiting[name] else None, start, end)
            for name, start, end in times]


@contextlib.contextmanager
def _replaced(replacements):
    """Sets attributes of instances while the block runs; all requests go through Python then."""
    before, library = [], op_functions.Library(bridge.PATH)
    library.lane_allow(False)
    try:
        for owner, name, value in replacements:
            before.append((owner, name, owner.__dict__.get(name)))
            setattr(owner, name, value)
        yield
    finally:
        library.lane_allow(True)
        for owner, name, value in reversed(before):
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
