"""What each rank built: the plans of its graphs, compared so that ranks with different layers fail with both shown."""
from .agreement import rank_list
from .errors import INVALID_ARGUMENT, LaunchError

_SHOWN_OPS = 40


class PlanBook:
    """The plan texts that ranks have sent, by (rank, graph, length, digest)."""

    def __init__(self):
        self._texts = {}
        self._holders = {}
        self._lengths = {}

    def record(self, rank, announce):
        """Keeps the plan that came with `announce`.

        Returns:
            None, or the LaunchError INVALID_ARGUMENT of a plan of the same graph and length that differs.
        """
        graph, length, digest = announce.op[0], announce.plan_length, announce.plan_digest
        self._texts[rank, graph, length, digest] = announce.plan_text
        self._lengths[rank, graph] = max(length, self._lengths.get((rank, graph), 0))
        holders = self._holders.setdefault((graph, length), {})
        holders.setdefault((length, digest), []).append(rank)
        return self.mismatch(announce.op, announce.name, holders) if len(holders) > 1 else None

    def known_length(self, rank, graph):
        """Number of ops in the longest plan of `graph` that `rank` has sent, or None."""
        return self._lengths.get((rank, graph))

    def mismatch(self, op, name, holders):
        """The error for an op whose plan differs between ranks.

        Args:
            op: The op's key.
            name: The op's name.
            holders: Dict from (length, digest) to the list of ranks that have this plan.

        Returns:
            LaunchError INVALID_ARGUMENT showing the first op that differs, and the plans.
        """
        groups = sorted(holders.items(), key=lambda item: item[1])
        plans = [(rank_list(ranks), (self._texts.get((ranks[0], op[0]) + plan) or "").splitlines())
                 for plan, ranks in groups]
        text = ["the ranks built different graphs, so their exchanges cannot be paired (seen at op '{}'). Every rank "
                "must build the same layers, with the same arguments, in the same order.".format(name)]
        (_, ours), (_, theirs) = plans[0], plans[1]
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        text.append("First difference, op number {}:".format(at))
        text += ["  {}: {}".format(ranks, lines[at] if at < len(lines) else "(no such op)") for ranks, lines in plans]
        for ranks, lines in plans:
            begin = max(0, at - _SHOWN_OPS // 2)
            shown = lines[begin:begin + _SHOWN_OPS]
            text.append("Plan of {}, {} ops{}:".format(
                ranks, len(lines), "" if len(shown) == len(lines) else ", from number {}".format(begin)))
            text += ["  " + line for line in shown]
        return LaunchError(INVALID_ARGUMENT, "\n".join(text), rank=groups[1][1][0])
