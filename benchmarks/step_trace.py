"""Where one step's time goes, by TensorFlow's own trace (RunMetadata): nodes and copies by device, what takes longest.

TensorFlow notes when each node's kernel began and ended on a CPU's thread; an op on a GPU is over there when it is
enqueued. Ops of ours are over when their requests have finished. Where CUPTI is found, the GPU's streams are there too.
"""
import collections

import tensorflow.compat.v1 as tf

# device: 'CPU:0', 'GPU:0' or a stream's name; start, end: microseconds since the step's first node.
Ran = collections.namedtuple("Ran", "name op device start end")


def traced(session, fetch):
    """Runs `fetch` once, with a trace.

    Returns:
        A dict, for JSON and `lines`: "us" from the first node's start to the last one's end; "idle us" in which no node
        ran on any device; "nodes" and "busy us" by device; "copies" between devices; "ops", the types that took
        longest; "longest", single nodes; "gaps", the longest times in which none ran.
    """
    metadata = tf.RunMetadata()
    session.run(fetch, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True),
                run_metadata=metadata)
    types = {node.name: node.op for graph in metadata.partition_graphs for node in graph.node}
    ran = _ran(metadata.step_stats, types)
    nodes = [each for each in ran if not _is_stream(each.device)]
    gaps = _gaps(nodes)
    last = max(each.end for each in nodes)
    return {
        "us": last, "idle us": sum(end - start for start, end, _, _ in gaps),
        "nodes": _count(each.device for each in nodes),
        "busy us": {device: _covered([each for each in ran if each.device == device])
                    for device in sorted({each.device for each in ran})},
        "in graphs": _count(node.op for graph in metadata.partition_graphs for node in graph.node),
        "copies": _count(_way(node) for graph in metadata.partition_graphs for node in graph.node
                         if node.op in ("_Recv", "_HostRecv")),
        "ops": _by_type(nodes, 14),
        "streams": _by_type([each for each in ran if _is_stream(each.device)], 8),
        "longest": [[each.name, each.op, each.device, each.start, each.end - each.start] for each in sorted(
            nodes, key=lambda each: each.start - each.end)[:8]],
        "gaps": [[start, end - start, before, after] for start, end, before, after in sorted(
            gaps, key=lambda gap: gap[0] - gap[1])[:6]]}


def lines(found):
    """What `traced` found, as at most some 40 lines."""
    made = ["{us} us from first node to last, none running in {idle us}".format(**found)]
    for device, count in found["nodes"].items():
        made.append("  {:10}{:>6} nodes, running for {} us".format(device, count, found["busy us"][device]))
    made += ["  copies {}: {}".format(*item) for item in found["copies"].items()]
    made += ["  {:>6} us {:>5}x {} on {}".format(us, count, op, device)
             for op, device, count, us in found["ops"] + found["streams"]]
    made += ["  {:>6} us at {:>6}: {} ({}) on {}".format(us, start, name[-70:], op, device)
             for name, op, device, start, us in found["longest"]]
    made += ["  {:>6} us at {:>6}: nothing, between {} and {}".format(us, start, before[-50:], after[-50:])
             for start, us, before, after in found["gaps"]]
    return made


def _ran(stats, types):
    """All that the trace has, times from the first node's start."""
    found = []
    for device in stats.dev_stats:
        name = device.device.split("device:")[-1].lstrip("/")
        for node in device.node_stats:
            start = node.all_start_micros
            label = node.timeline_label
            op = types.get(node.node_name) or (label.split(" = ")[1].split("(")[0] if " = " in label else
                                               node.node_name.split(":")[-1])
            found.append(Ran(node.node_name, op, name, start, start + max(node.op_end_rel_micros, 0)))
    first = min(each.start for each in found if not _is_stream(each.device))
    return [each._replace(start=each.start - first, end=each.end - first) for each in found]


def _is_stream(device):
    return "stream" in device or "memcpy" in device


def _way(node):
    ends = [node.attr[name].s.decode().split("device:")[-1] for name in ("send_device", "recv_device")]
    return "{} to {}".format(*ends)


def _count(items):
    return dict(collections.Counter(items).most_common())


def _by_type(ran, most):
    spent = collections.defaultdict(lambda: [0, 0])
    for each in ran:
        entry = spent[each.op, each.device]
        entry[0] += 1
        entry[1] += each.end - each.start
    return [[op, device, count, us] for (op, device), (count, us) in sorted(
        spent.items(), key=lambda item: -item[1][1])[:most]]


def _covered(ran):
    """Microseconds in which any of them ran."""
    total, until = 0, None
    for each in sorted(ran, key=lambda each: each.start):
        begin = each.start if until is None else max(each.start, until)
        total += max(0, each.end - begin)
        until = each.end if until is None else max(until, each.end)
    return total


def _gaps(ran):
    """Times in which no node ran: start, end, the node that ended before and the one that began after."""
    found, last = [], None
    for each in sorted(ran, key=lambda each: each.start):
        if last is not None and each.start > last.end:
            found.append((last.end, each.start, last.name, each.name))
        if last is None or each.end > last.end:
            last = each
    return found
