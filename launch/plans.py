"""What each rank built: the plans of its graphs, so that ranks with different layers fail with both shown.

A plan is the list of a graph's ops that communicate, one text an op. A rank sends it with what it announces
(`Announce.introduction`), each text once for a session:

    first, entries   texts of the plan from number `first` on that rank 0 has not got yet
    graphs           how many graphs with such ops the rank's process has built by now; 0 of a graph that does not count
    rivals           other sessions of the rank on the op's graph that were begun earlier (pairing.py)
    alike            how many other graphs of the rank's process had this very op before; and how many that are there
                     have it, too, and have not met other ranks yet (pairing.py)
"""
from .errors import INVALID_ARGUMENT, LaunchError
from .hosts import rank_list

_SHOWN_OPS = 40


class PlanBook:
    """The plans that ranks have sent, for each of their sessions (contexts)."""

    def __init__(self):
        self._entries = {}
        self._graphs = {}

    def record(self, rank, context, introduction):
        """Keeps what came with an announcement of `rank` in its session `context`."""
        entries = self._entries.setdefault((rank, context), [])
        entries[introduction["first"]:] = introduction["entries"] or entries[introduction["first"]:]
        self._graphs[rank, context] = introduction["graphs"]

    def forget(self, rank, context):
        """Drops what is known of a session that is gone."""
        self._entries.pop((rank, context), None)
        self._graphs.pop((rank, context), None)

    def length(self, rank, context):
        """Number of ops in the plan that `rank` has sent for its session, or None."""
        entries = self._entries.get((rank, context))
        return None if entries is None else len(entries)

    def surely_differ(self, one, other):
        """Whether two ranks can never meet: each has built one graph, and these differ. Both are (rank, context)."""
        if self._graphs.get(one) != 1 or self._graphs.get(other) != 1:
            return False
        return any(a != b for a, b in zip(self._entries.get(one, ()), self._entries.get(other, ())))

    def mismatch(self, name, places):
        """The error for an op whose plan differs between ranks.

        Args:
            name: The op's name.
            places: List of (rank, context), of at least two ranks.

        Returns:
            LaunchError INVALID_ARGUMENT showing the first op that differs, and the plans.
        """
        holders = {}
        for rank, context in places:
            holders.setdefault(tuple(self._entries.get((rank, context), ())), []).append(rank)
        groups = sorted(holders.items(), key=lambda item: item[1])
        plans = [(rank_list(ranks), entries) for entries, ranks in groups]
        text = ["the ranks built different graphs, so their exchanges cannot be paired (seen at op '{}'). Every rank "
                "must build the same layers, with the same arguments, in the same order.".format(name)]
        if len(plans) > 1:
            (_, ours), (_, theirs) = plans[0], plans[1]
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            text.append("First difference, op number {}:".format(at))
            text += ["  {}: {}".format(ranks, lines[at] if at < len(lines) else "(no such op)")
                     for ranks, lines in plans]
        else:
            at = 0
        for ranks, lines in plans:
            begin = max(0, at - _SHOWN_OPS // 2)
            shown = lines[begin:begin + _SHOWN_OPS]
            text.append("Plan of {}, {} ops{}:".format(
                ranks, len(lines), "" if len(shown) == len(lines) else ", from number {}".format(begin)))
            text += ["  {}: {}".format(begin + i, line) for i, line in enumerate(shown)]
        return LaunchError(INVALID_ARGUMENT, "\n".join(text), rank=groups[-1][1][0] if len(groups) > 1 else -1)
