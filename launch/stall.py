"""Ops that wait too long for other ranks: who is missing, what each rank is at, and when to give up."""
from .errors import DEADLINE_EXCEEDED, LaunchError, is_eager
from .hosts import rank_list, starting
from .launcher import cluster_words

_SHOWN_OPS = 5


class StallInspector:
    """Looks over the leader's undecided ops now and then.

    Args:
        stall: Seconds after which (and after each further time) a waiting op is warned about, or None.
        abort: Seconds after which a waiting op fails the job, or None.
        describe: Function (rank, op, now) -> str: what that rank is at, other than waiting for `op`.
    """

    def __init__(self, stall, abort, describe):
        self._stall, self._abort, self._describe = stall, abort, describe

    def inspect(self, pending, now):
        """Looks for ops that wait too long.

        Args:
            pending: The undecided ops, each with since, warned (int, kept here), name, key, waiting() and missing().
            now: The clock, seconds.

        Returns:
            (texts, error): a warning for each rank that waits, as a dict; and a LaunchError DEADLINE_EXCEEDED
            where an op has waited `abort` seconds, or None.
        """
        late = []
        for op in pending:
            waited = now - op.since
            if self._abort is not None and waited >= self._abort:
                return {}, LaunchError(DEADLINE_EXCEEDED, "{} The limit is SOK1X_ABORT_SECONDS={:g}.".format(
                    self._report(op, now), self._abort), rank=op.missing()[0])
            if self._stall is not None and waited >= self._stall * (op.warned + 1):
                op.warned = int(waited / self._stall)
                late.append(op)
        return self._texts(late, now), None

    def _texts(self, late, now):
        by_rank = {}
        for op in sorted(late, key=lambda op: op.since):
            for rank in op.waiting():
                by_rank.setdefault(rank, []).append(op)
        reports = {}
        texts = {}
        for rank, ops in by_rank.items():
            lines = []
            for op in ops[:_SHOWN_OPS]:
                if op.key not in reports:
                    reports[op.key] = self._report(op, now)
                lines.append(reports[op.key])
            if len(ops) > _SHOWN_OPS:
                lines.append("{} more ops wait as well.".format(len(ops) - _SHOWN_OPS))
            lines.append("Every rank must run the same ops equally often: see whether those ranks are slow, stuck, "
                         "or ran out of data" + (
                             ", or call other layers, or in another order." if is_eager(ops[0].key) else
                             " (sok1x.EvenSteps), and whether every rank is chief in its MonitoredTrainingSession "
                             "(is_chief=True).")
                         + cluster_words()
                         + ("" if self._abort else " SOK1X_ABORT_SECONDS makes such a job fail instead."))
            texts[rank] = " ".join(lines)
        return texts

    def _report(self, op, now):
        missing = op.missing()
        return "op '{}' has waited {:.0f} s for {}. {}".format(
            op.name, now - op.since, rank_list(missing),
            " ".join("{} {}.".format(starting(rank), self._describe(rank, op, now)) for rank in missing))
