"""Jobs of ranks, several at a time, whose ends tests look at: a job mostly waits, for its ranks and for limits."""
import concurrent.futures
import inspect
import os
import random

# On GPUs a job is run when its test asks for it.
AT_A_TIME, AHEAD = (1, 1) if os.environ.get("SOK1X_TEST_DEVICE") == "gpu" else (4, 12)

_outcomes = {}  # a test's id -> (what its job was given, its outcome), which nobody has asked for yet


def new_seed():
    """A random one, or SOK1X_TEST_SEED."""
    return int(os.environ.get("SOK1X_TEST_SEED", random.SystemRandom().randrange(2 ** 31)))


def job(function):
    """Marks a test whose `ended()` gives what this function gives, or raises what it raises.

    It is called in a thread, with those of the test's parameters that it names, and with `folder`, an empty one, and
    `seed`, which the test prints, if it names them. When a test asks for its job, those of the tests that follow it in
    its file run as well.
    """
    def mark(test):
        test.job = function
        return test
    return mark


def _call(item, folders):
    """What calls an item's job."""
    parameters = getattr(item, "callspec", None)
    given = dict(parameters.params) if parameters else {}
    named = inspect.signature(item.function.job).parameters
    if "folder" in named:
        given["folder"] = folders.mktemp("job")
    if "seed" in named:
        given["seed"] = new_seed()
    return item.function.job, {name: given[name] for name in named}


def outcome(item, folders):
    """That of a test's job; folders: pytest's tmp_path_factory."""
    if item.nodeid not in _outcomes:
        jobs = [other for other in item.session.items if other.fspath == item.fspath and hasattr(
            getattr(other, "function", None), "job") and not other.get_closest_marker("skip")]
        first = jobs.index(item)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as threads:
            begun = {}
            for other in jobs[first:first + AHEAD]:
                call, arguments = _call(other, folders)
                begun[other.nodeid] = arguments, threads.submit(call, **arguments)
            try:
                concurrent.futures.wait([one for _, one in begun.values()])
            finally:
                for _, one in begun.values():  # after Ctrl-C, those whose turn has not come
                    one.cancel()
        _outcomes.update(begun)
    arguments, one = _outcomes.pop(item.nodeid)
    if "seed" in arguments:
        print("SOK1X_TEST_SEED={}".format(arguments["seed"]))
    return one.result()
