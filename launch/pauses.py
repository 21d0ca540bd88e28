"""How long the executor may sleep between two looks at the messages of other ranks, in microseconds."""


def waiting_pause(quiet, spin_seconds):
    """Where an announcement waits for its answer and nothing has come for `quiet` seconds.

    An answer mostly comes within some 10 us of the last rank's announcement: look again at once for `spin_seconds`,
    then leave the CPU to the ranks that are still computing.
    """
    return 0 if quiet < spin_seconds else 1 if quiet < 1e-3 else 50 if quiet < 20e-3 else 200


def idle_pause(quiet):
    """Where nothing waits, and nothing has come or gone for `quiet` seconds."""
    return 1000 if quiet < 0.1 else 2000 if quiet < 10 else 5000
