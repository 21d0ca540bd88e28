"""How many requests that could run together a session.run is going to bring, judged by the one before."""
from typing import Any, Dict, List, Tuple

_MOST = 1000


class Expected:
    """Counts, for each operation that has a grouped form, the requests of each session.run."""

    def __init__(self) -> None:
        # {what they are: [number of their run, how many so far, how many in the run before]}
        self._counted: Dict[Tuple[Any, ...], List[int]] = {}

    def more(self, taken: List[Any]) -> bool:
        """Takes requests (`together.Taken`) in. Returns whether the run before this one had more of their like."""
        more = False
        for one in taken:
            key = one.call.kind
            if key is None:
                continue
            request = one.request
            if request.frame or request.iteration:
                key = key, request.frame, request.iteration
            count = self._counted.get(key)
            if count is None:
                if len(self._counted) >= _MOST:  # of sessions long closed, of loops
                    self._counted.clear()
                count = self._counted[key] = [request.step, 0, 0]
            elif count[0] != request.step:
                count[:] = [request.step, 0, count[1]]
            count[1] += 1
            more = count[1] < count[2]
        return more
