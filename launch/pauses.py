"""How long the executor looks all the time, and how long it may sleep between two looks, in microseconds."""

# With so many CPUs for each rank one that only looks is in nobody's way.
_AMPLE_CPUS = 4


def spin_for_requests(cpus):
    """How long to look for the next request before sleeping, where a rank has so many CPUs.

    A step's ops follow each other closely, and waking a thread that sleeps costs about 50 us. With ample CPUs it is
    long enough for the first op of the next session.run, too, where steps follow each other.
    """
    return 30 if cpus < _AMPLE_CPUS else 500


def spin_beside_gpu(cpus):
    """As `spin_for_requests`, of a rank whose model runs on a GPU.

    Its CPUs have little to do, and its steps gaps of a millisecond or two, in which the dense part runs, or the next
    batch is made. On machines with GPUs a thread that sleeps was seen to wake after 160 to 190 us.
    """
    return spin_for_requests(cpus) if cpus < 2 * _AMPLE_CPUS else 4000


def spin_for_words(cpus):
    """As `spin_for_requests`, where an announcement waits for its answer; see `waiting_pause`."""
    return 0 if cpus < 1 else 60 if cpus < _AMPLE_CPUS else 1000


def waiting_pause(quiet, spin_seconds):
    """Where an announcement waits for its answer and nothing has come for `quiet` seconds.

    An answer mostly comes within some 10 us of the last rank's announcement: look again at once for `spin_seconds`,
    then leave the CPU to the ranks that are still computing.
    """
    return 0 if quiet < spin_seconds else 1 if quiet < 1e-3 else 50 if quiet < 20e-3 else 200


def idle_pause(quiet):
    """Where nothing waits, and nothing has come or gone for `quiet` seconds."""
    return 1000 if quiet < 0.1 else 2000 if quiet < 10 else 5000
