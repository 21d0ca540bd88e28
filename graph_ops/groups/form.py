"""What makes an operation one that runs several requests at once."""
import abc


class GroupForm(abc.ABC):
    """The grouped form of an operation: its attribute `group`.

    It does the usual case; members that need more (rows inserted, an error raised) it leaves to the operation's own
    `run`, one by one. So nothing of a member that it leaves may have been written but the member's outputs.

    Attributes:
      several: whether there are several to be waited for, and to be made one node of; else it is for what C++ runs.
    """

    several = True

    def fixed_key(self, config):
        """`key` where it follows from the config as long as an op has not been decided; else None."""

    @abc.abstractmethod
    def key(self, taken, world):
        """Requests with equal keys may run together; None: only by itself.

        Where requests of several ranks run together, the key follows from `taken.headers` and what the plan of
        collectives makes equal on all ranks.
        """

    def serves_one(self, taken, world):
        """Whether a single request goes this way as well: as fast as the operation's own, or faster.

        taken: or a Call: it has a config. Once it has been decided, `taken.headers`, that must be alike on all ranks,
        as `key` is.
        """
        return False

    def lane(self, request, call, world):
        """The `lane.LaneOp` of a request's Call, where its requests need no Python; else None."""

    def prepare(self, members, world):
        """Sets each member's `header`, as `devices.mark` makes it, or `error`; without both it is prepared alone."""

    @abc.abstractmethod
    def run(self, members, world):
        """Runs members (list of `together.Taken`) but answers none: at least two, or one where `serves_one`.

        Returns:
          The run (run.Run), whose `left` are those to be run by themselves: the same on all ranks.
        """

    def give_room(self, taken, world):
        """Gives the table of a member, on one rank, the `Request.needs_rows` rows.

        Returns:
          Whether it has them, so that C++ may run the member after all.
        """
        return False

    def hand_over(self, taken, world):
        """Leaves a member that `prepare` has prepared as the operation's own `prepare` would, for its own `run`."""
