"""The fewest bytes that a case, and each kernel, must move; and the figures to reach.

What is read is counted once, what is written once; a visit of a random place counts as the 32 bytes in which a GPU's
memory is accessed. Time at the copy bandwidth of the same run is the floor.
"""
import collections

SECTOR = 32

# A batch on one rank: keys K, distinct U, bags of keys W (dense: K), floats of a row D, keys that are not in the index.
Facts = collections.namedtuple("Facts", "keys distinct bags dim new")

# ms that are to be reached on one H200: kernels of ours, and the whole session.run.
TARGETS = {("dense", "forward"): {"kernels": 0.20, "whole": 1.0},
           ("dense", "lazyadam"): {"kernels": 0.75, "whole": 2.0},
           ("sparse", "forward"): {"kernels": 0.35, "whole": 1.5},
           ("sparse", "lazyadam"): {"kernels": 1.4, "whole": 3.0}}
TARGETS.update({(layout, "forward training"): TARGETS[layout, "forward"] for layout in ("dense", "sparse")})

# 10^9 keys a second: what HierarchicalKV gives on an H200 where it returns addresses only.
HASH_TARGETS = {("find", 0.5): 7.2, ("find", 0.75): 6.6, ("find or insert", 0.5): 2.4, ("find or insert", 0.75): 2.2}

# Rows read and written a distinct key by an optimizer, beside the gradient: row; row, m and v.
_STATE_ROWS = {"sgd": 2, "lazyadam": 6}


def judged(recorded):
    """Of what was recorded, by the names of clocks, what is held against floors and targets; {} where nothing is.

    CUDA events lie around what Python launches: of the kernels that C++ launches they know nothing.
    """
    events = recorded.get("events", {})
    return recorded.get("trace") or ({} if events.get("clock") == "CUDA events" else events)


def case_bytes(mode, facts):
    """Bytes of a case: distinct rows, outputs, in training the gradient and the rows' state read and written."""
    row, outputs = 4 * facts.dim, 4 * facts.dim * facts.bags
    if mode == "top":
        return 3 * outputs
    forward = facts.distinct * row + outputs
    return forward if mode not in _STATE_ROWS else forward + outputs + _STATE_ROWS[mode] * facts.distinct * row


def _key(kind):
    """Bytes of a key, by the number of its type."""
    return 8 if kind == 0 else 4


# Kernel -> (number of its arguments, bytes from arguments and facts). Written for the signatures in cuda_kernels: one
# with another number of arguments has no floor here until this table is brought up to date.
_BYTES = {
    "clear": (None, lambda a, f: a[1]),
    "copy": (3, lambda a, f: 2 * a[2]),
    "publish_counts": (1, lambda a, f: 256),
    "fill_int64": (3, lambda a, f: 8 * a[1]),
    "clear_index": (2, lambda a, f: 16 * a[1]),
    "find_kernel": (6, lambda a, f: 12 * a[3] + SECTOR * min(a[3], f.distinct)),
    "find_keys": (7, lambda a, f: (_key(a[1]) + 4) * a[2] + SECTOR * min(a[2], f.distinct)),
    "number_new": (8, lambda a, f: 12 * a[1] + 16 * f.new),
    "claim_slots": (6, lambda a, f: 8 * f.new + 2 * SECTOR * f.new),
    "write_keys": (6, lambda a, f: 8 * f.new + 2 * SECTOR * f.new),
    "count_missing": (3, lambda a, f: 4 * a[1]),
    "look_up_int32": (4, lambda a, f: 12 * a[2]),
    "look_up_int64": (4, lambda a, f: 20 * a[2]),
    "narrow_rows": (3, lambda a, f: 12 * a[1]),
    "direct_rows": (4, lambda a, f: 12 * a[1]),
    "collect_new": (5, lambda a, f: 4 * a[2]),
    "widen": (4, lambda a, f: (_key(a[1]) + 8) * a[2]),
    "gather": (5, lambda a, f: 4 * a[3] + 4 * a[1] * (a[3] + min(a[3], f.distinct))),
    "gather_through": (6, lambda a, f: 4 * a[4] + 4 * f.distinct + 4 * a[1] * (a[4] + min(a[4], f.distinct))),
    "initial_rows": (10, lambda a, f: 4 * a[3] if a[8] else (8 + 4 * a[4]) * a[3]),
    "bag_offsets": (7, lambda a, f: 8 * a[1] * a[2] + 8 * (a[3] + 1)),
    "longest_bag": (3, lambda a, f: 8 * (a[1] + 1)),
    "bags_of_keys": (4, lambda a, f: 8 * a[1] + 8 * f.keys),
    "combine": (9, lambda a, f: 4 * a[6] + 8 * (a[5] + 1) + 4 * a[1] * (a[5] + f.distinct)),
    "divide": (5, lambda a, f: 8 * (a[3] + 1) + 8 * a[1] * a[3]),
    "unique_claim": (6, lambda a, f: (_key(a[1]) + 4) * a[2] + 4 * f.distinct),
    "unique_number": (9, lambda a, f: 4 * a[2] + (_key(a[1]) + 16) * f.distinct),
    "unique_inverse": (4, lambda a, f: 8 * a[1] + 8 * f.distinct),
    "running_sum": (4, lambda a, f: 8 * a[1]),
    "segment_count": (4, lambda a, f: 8 * a[1] + 4 * f.distinct),
    "segment_place": (7, lambda a, f: 16 * a[1] + 4 * f.distinct + 8 * a[5]),
    "segment_clear": (4, lambda a, f: 4 * a[1]),
    "segment_chunks": (9, lambda a, f: 8 * a[7] + 4 * a[1] * ((a[3] if a[2] else a[7]) + f.distinct)),
    "segment_keys": (4, lambda a, f: 8 * a[1]),
    "segment_in_order": (9, lambda a, f: 4 * f.keys + 4 * a[7] + 4 * a[1] * ((a[3] if a[2] else f.keys) + a[7])),
    "sort_count": (4, lambda a, f: 4 * a[1]),
    "sort_place": (7, lambda a, f: 16 * a[2]),
    "segment_bags": (4, lambda a, f: 8 * a[1]),
    "owners": (4, lambda a, f: 12 * a[1]),
    "group": (7, lambda a, f: 28 * a[3]),
    "remap": (3, lambda a, f: 12 * a[2]),
    "descend": (7, lambda a, f: 4 * a[3] + 12 * a[1] * a[3]),
    "lazy_adam": (14, lambda a, f: 4 * a[3] + 28 * a[1] * a[3]),
    "adam": (13, lambda a, f: 4 * a[9] + 4 * a[1] * (6 * a[9] + f.distinct)),
    "adam_no_positions": (2, lambda a, f: 4 * a[0]),
    "adam_positions": (4, lambda a, f: 8 * a[1]),
    "stamp_rows": (6, lambda a, f: (4 + SECTOR) * a[1]),
}


def kernel_bytes(launch, facts):
    """Bytes that a launch must move, or None where that is not known."""
    count, formula = _BYTES.get(launch.name, (0, None))
    if formula is None or launch.arguments is None or count not in (None, len(launch.arguments)):
        return None
    return int(formula(launch.arguments, facts))
