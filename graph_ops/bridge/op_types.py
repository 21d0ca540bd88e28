"""The types of our ops, which profilers tell apart; what an op runs, its attribute `function` says.

An operation says its kind (`registry.Operation.kind`); the C++ ops are those of bridge_types.h.
"""
KINDS = ("Call", "Lookup", "Gradient", "Distinct", "Update", "Reduce", "Broadcast")
BARRIER = "_sok1x_barrier"  # the attribute of a NoOp for which lookups wait, to be made together
TYPES = frozenset("Sok1x" + kind for kind in KINDS)


def is_ours(op):
    """Whether a tf.Operation is one of ours."""
    return op.type in TYPES


def maker(kind):
    """What the function that TensorFlow makes for the op of this kind is called: 'sok1x_distinct'."""
    return "sok1x" + "".join("_" + letter.lower() if letter.isupper() else letter for letter in kind)
