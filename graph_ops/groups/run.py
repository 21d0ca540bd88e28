"""What a group's run in C++ and its members have in common, whatever they do."""
import abc
from typing import Any, List, Sequence


class Run(abc.ABC):
    """The requests of members (list of `together.Taken`) that run at once.

    Attributes:
      left: the members that have to be run by themselves.
    """

    def __init__(self, members: List[Any]) -> None:
        self.members = members
        self.left: List[Any] = []

    def leave(self, mask: Sequence[int]) -> Any:
        """Leaves the members of the mask, [T]. Returns itself."""
        if any(mask):
            self.left = [taken for taken, one in zip(self.members, mask) if one]
        return self

    def finish(self) -> None:
        """Answers all members that are not left."""
        if not self.left:
            self._finish_all()
            return
        for taken in self.members:
            if taken not in self.left:
                taken.request.finish()

    @abc.abstractmethod
    def _finish_all(self) -> None:
        """Answers all members."""
