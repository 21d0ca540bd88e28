"""Timelines of ranks, and of TensorFlow, in one file.

With `SOK1X_TIMELINE=trace.json` in its environment each rank writes trace.0.json, trace.1.json, … (one rank alone
trace.json itself), which chrome://tracing and https://ui.perfetto.dev show: each run of an op of sok1x from when its
inputs were there until it was done, with what it waited for. See graph_ops/bridge/timeline.py for the format.

    python -m sok1x.timeline merge all.json trace.*.json tensorflow.json

puts several into one, in which all times are of one clock. TensorFlow's may be what
`timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()` gives, or a `tf.RunMetadata` or `tf.StepStats`
as `SerializeToString` gives it; on several hosts clocks must agree (NTP).
"""
import argparse
import json
import sys
from typing import Any, Dict, Iterable, List, Tuple, Union

__all__ = ["merge", "read"]


def read(path: str) -> List[Dict[str, Any]]:
    """The trace events of a file: a rank's timeline, also one that was never closed since its process was killed, or
    TensorFlow's.

    Args:
        path: the file.

    Returns:
        A list of dicts, in Chrome's Trace Event Format.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none of these.

    Example:
        >>> import tempfile
        >>> from sok1x import timeline
        >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        ...     _ = file.write('[\\n{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 0, "tid": 0},\\n{"ph": "X", "na')
        ...     file.flush()
        ...     [event["name"] for event in timeline.read(file.name)]
        ['a']
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        text = data.decode("utf-8")
        found = json.loads(text)
        events = found.get("traceEvents") if isinstance(found, dict) else found
        if isinstance(events, list) and all(isinstance(event, dict) for event in events):
            return events
    except UnicodeDecodeError:
        pass
    except ValueError:
        if text.startswith("[\n"):
            return list(_of_lines(text.splitlines()[1:]))
    return _of_tensorflow(path, data)


def _of_lines(lines: Iterable[str]) -> Iterable[Dict[str, Any]]:
    """A line an event; of a file that ends somewhere, the last may be a part of one."""
    for line in lines:
        try:
            event = json.loads(line.rstrip(",\n"))
        except ValueError:
            if line not in ("]", ""):
                return
            continue
        if isinstance(event, dict):
            yield event


def _of_tensorflow(path: str, data: bytes) -> List[Dict[str, Any]]:
    from tensorflow.core.framework import step_stats_pb2
    from tensorflow.core.protobuf import config_pb2
    for kind in (config_pb2.RunMetadata, step_stats_pb2.StepStats):
        try:
            made = kind.FromString(data)
        except Exception:  # another message, or none: protobuf's versions differ in what they raise
            continue
        stats = made.step_stats if kind is config_pb2.RunMetadata else made
        if stats.dev_stats:
            return _of_step_stats(stats)
    raise ValueError("{}: got neither trace events in JSON nor a tf.RunMetadata or tf.StepStats of a step, expected "
                     "one of them".format(path))


def _of_step_stats(stats: Any) -> List[Dict[str, Any]]:
    from tensorflow.python.client import timeline
    return list(json.loads(timeline.Timeline(stats).generate_chrome_trace_format())["traceEvents"])


def merge(output: str, timelines: Iterable[Union[str, Any]]) -> int:
    """Writes several timelines into one file.

    Args:
        output: the file; it is overwritten.
        timelines: paths of files as `read` takes them, and `tf.RunMetadata` or `tf.StepStats` themselves.

    Returns:
        How many events there are.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: one is no timeline.

    Example:
        >>> import json, os, tempfile
        >>> import tensorflow as tf
        >>> from sok1x import timeline
        >>> v1, folder = tf.compat.v1, tempfile.mkdtemp()
        >>> with open(os.path.join(folder, "trace.0.json"), "w") as file:
        ...     json.dump([{"ph": "X", "name": "lookup", "cat": "op", "ts": 1, "dur": 2, "pid": 0, "tid": 0}], file)
        >>> with tf.Graph().as_default(), v1.Session() as session:
        ...     metadata = v1.RunMetadata()
        ...     options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        ...     _ = session.run(tf.constant(1) + tf.constant(2), options=options, run_metadata=metadata)
        >>> path = os.path.join(folder, "all.json")
        >>> count = timeline.merge(path, [os.path.join(folder, "trace.0.json"), metadata])
        >>> with open(path) as file:
        ...     names = {event["name"] for event in json.load(file)["traceEvents"]}
        >>> "lookup" in names and count > 1
        True
    """
    events: List[Dict[str, Any]] = []
    processes: Dict[Tuple[int, Any], int] = {}
    flows: Dict[Tuple[int, Any], int] = {}
    for number, given in enumerate(timelines):
        found = read(given) if isinstance(given, str) else _of_step_stats(getattr(given, "step_stats", given))
        for event in found:
            event = dict(event)
            # Files number their processes, and arrows between events, each from 0.
            event["pid"] = processes.setdefault((number, event.get("pid")), len(processes))
            if "id" in event:
                event["id"] = flows.setdefault((number, event["id"]), len(flows))
            events.append(event)
    with open(output, "w") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)
    return len(events)


def main(arguments: List[str]) -> int:
    """What the command does: see the module's text.

    Args:
        arguments: the words behind `python -m sok1x.timeline`.

    Returns:
        The exit code.

    Example:
        >>> from sok1x import timeline
        >>> timeline.main(["merge", "/nowhere/all.json"])
        0 timelines: name those to be merged behind the output
        2
    """
    parser = argparse.ArgumentParser(prog="python -m sok1x.timeline", description="Timelines of SOK1X_TIMELINE.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("merge", help="several timelines into one")
    command.add_argument("output", help="the file to be written")
    command.add_argument("timelines", nargs="*", help="ranks' files, and TensorFlow's")
    options = parser.parse_args(arguments)
    if not options.timelines:
        print("0 timelines: name those to be merged behind the output")
        return 2
    try:
        count = merge(options.output, options.timelines)
    except (OSError, ValueError) as error:
        print("sok1x.timeline: {}".format(error), file=sys.stderr)
        return 1
    print("{} events in {}".format(count, options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
