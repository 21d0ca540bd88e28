"""Where the time of a step goes: the library's calls by wall clock, TensorFlow's ops by its own trace."""
import collections
import contextlib
import importlib
import inspect
import pkgutil
import time

import tensorflow.compat.v1 as tf

from sok1x import cuda_kernels, launch
from sok1x.graph_ops.bridge import bridge

_STEPS = 40


class Clock:
    """Milliseconds by name."""

    def __init__(self):
        self.milliseconds = collections.Counter()

    def timed(self, name, function):
        """`function`, with its wall clock time added to `name`."""
        def run(*arguments, **keywords):
            began = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                self.milliseconds[name] += (time.perf_counter() - began) * 1e3
        return run


@contextlib.contextmanager
def timed_library(clock):
    """Times every kernel, exchange and allocation that the executor calls while the block runs."""
    replaced = []

    def replace(owner, attribute, name):
        function = getattr(owner, attribute)
        replaced.append((owner, attribute, owner.__dict__.get(attribute)))
        setattr(owner, attribute, clock.timed(name, function))

    for info in pkgutil.iter_modules(cuda_kernels.__path__):
        if info.name.startswith("_") or info.name in ("host", "build_host"):
            continue
        module = importlib.import_module("sok1x.cuda_kernels." + info.name)
        for attribute, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not attribute.startswith("_"):
                replace(module, attribute, "kernel {}.{}".format(info.name, attribute))
    communicator = launch.current().communicator
    for attribute in ("all_to_all", "reduce_scatter", "all_gather", "all_reduce", "agree"):
        replace(communicator, attribute, "exchange " + attribute)
    for attribute in ("output", "temporary", "finish"):
        replace(bridge.Request, attribute, "bridge " + attribute)
    try:
        yield
    finally:
        for owner, attribute, previous in reversed(replaced):
            if previous is None:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, previous)


def _traced(side):
    """Milliseconds of each TensorFlow op type in one step, by TensorFlow's trace; ops may overlap."""
    target = side.step_op
    metadata = tf.RunMetadata()
    side.session.run(target, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    types = {op.name: op.type for op in side.graph.get_operations()}
    spent = collections.Counter()
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            name = node.node_name
            spent["{} ({})".format(types.get(name, "other"), name)] += (
                node.op_end_rel_micros - node.op_start_rel_micros) / 1e3
    return spent


def _most(spent, steps):
    return {name: round(value / steps, 3) for name, value in spent.most_common()}


def profile(sides, batches, ranks):
    """Milliseconds a step: 'library' (sok1x's own calls) and one dict of op types for each side."""
    found = {}
    if "sok1x" in sides:
        clock, side = Clock(), sides["sok1x"]
        with timed_library(clock):
            for number in range(_STEPS):
                side.select(batches[number % len(batches)])
                ranks.barrier()
                clock.timed("whole step", side.run)()
        found["library"] = _most(clock.milliseconds, _STEPS)
    for name in sorted(sides):
        ranks.barrier()
        found[name] = _most(_traced(sides[name]), 1)
    return found
