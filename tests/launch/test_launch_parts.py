"""The small parts of launch/: messages as bytes, launcher detection, settings, comparison of arguments."""
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from sok1x.launch import agreement, bundles, environment, launcher, messages, world
from sok1x.launch.errors import DEADLINE_EXCEEDED, FAILED_PRECONDITION, INTERNAL, INVALID_ARGUMENT, LaunchError
from sok1x.launch.mpi_transport import MpiTransport
from sok1x.launch.pool import apart


def same(a, b):
    if isinstance(a, LaunchError):
        return isinstance(b, LaunchError) and (a.code, a.rank, a.message) == (b.code, b.rank, b.message)
    if isinstance(a, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return type(a) is type(b) and a == b


def test_messages_come_back_as_they_were(seed):
    chance = random.Random(seed)
    big = 2 ** 63 - 1

    def text():
        return "".join(chance.choice("aé漢\n'😀") for _ in range(chance.choice((0, 1, 50))))

    def number():
        return chance.choice((0, -1, 1, big, -big - 1, chance.randrange(-big, big)))

    def error():
        return LaunchError(chance.randrange(1, 17), text(), chance.randrange(-1, 100))

    for _ in range(200):
        op = messages.Op(number(), number(), chance.randrange(2 ** 64))
        instance = messages.Instance(number(), chance.randrange(2 ** 64), number(), chance.randrange(2 ** 64))
        header = np.array([number() for _ in range(chance.choice((0, 1, 7)))], np.int64).tobytes()
        tickets = (number(), number(), number())
        introduction = {"first": number(), "entries": [text(), text()], "graphs": 1, "rivals": [number()],
                        "alike": [number(), number()]}
        for message in (
                messages.Announce(number(), number(), op, instance, text(), chance.choice((None, introduction)), header,
                                  chance.choice((None, error()))),
                messages.Withdraw(number()), messages.Failed(error()), messages.JobFailed(error()),
                messages.Refuse(tickets, error()), messages.Cancel(tickets[:2], error()),
                messages.Undone(number()), messages.Gone(number()),
                messages.Ask(number()), messages.Answer(number(), chance.random() < 0.5),
                messages.Warn(text()), messages.Leave(), messages.Ended(chance.random() < 0.5),
                messages.Left(), messages.LeaderLeft(), messages.AllLeft(), messages.AllEnded(chance.random() < 0.5)):
            data = messages.encode(message)
            assert isinstance(data, bytes)
            assert same(tuple(messages.decode(data)), (message,))
            several = [message, messages.Leave(), message]
            assert same(tuple(messages.decode(messages.encode(*several))), tuple(several))


def test_bundles_and_runs_come_back_as_they_were(seed):
    chance = random.Random(seed)
    for count in (1, 2, 30):
        for _ in range(20):
            widths = [chance.choice((0, 1, 5)) for _ in range(count)]
            if chance.random() < 0.5:
                widths = [3] * count
            headers = [[np.array([chance.randrange(-2 ** 63, 2 ** 63) for _ in range(width)], np.int64)
                        for width in widths] for _ in range(3)]
            pieces = [[bundles.header_bytes(header) for header in of_rank] for of_rank in headers]
            places = [(chance.randrange(1000), chance.randrange(2 ** 64)) for _ in range(count)]
            runs = [(chance.randrange(-5, 2 ** 63), chance.randrange(2 ** 64), i) for i in range(count)]
            names = ["é{}".format(i) * chance.randrange(2) for i in range(count)]
            bundle = bundles.bundle(7, 3, -1, 2 ** 64 - 1, names, sum(places, ()), sum(runs, ()), pieces[0])
            (back,) = messages.decode(messages.encode(bundle))
            assert same(back, bundle) and list(back.tickets) == list(range(7, 7 + count))
            assert back.pieces_of_headers() == pieces[0] and list(back.numbers_in_headers()) == widths
            assert len(set(back.keys())) == count
            for message, place, run, name in zip(apart(back), places, runs, names):
                assert message.op == (3,) + place and message.instance == run + (2 ** 64 - 1,)
                assert (message.name, message.step, message.error) == (name, -1, None)
            tickets = [range(rank, rank + count) for rank in range(3)]
            word = bundles.run(5, bundle.widths, tickets, map(b"".join, pieces))
            (back,) = messages.decode(messages.encode(word))
            assert same(back, word)
            for rank in range(3):
                assert back.tickets_of(rank) == tuple(tickets[rank])
            for i, table in enumerate(back.headers_of_ops()):
                assert table.shape == (3, widths[i]) and table.dtype == np.int64
                np.testing.assert_array_equal(table, [of_rank[i] for of_rank in headers])


def test_headers_of_any_kind_are_numbers():
    table = np.arange(12).reshape(3, 4)
    assert bundles.header_bytes(None) == b""
    assert bundles.header_bytes(table.T) == np.ascontiguousarray(table.T).tobytes()
    assert bundles.header_bytes(np.array([1, 2], np.int32)) == np.array([1, 2], np.int64).tobytes()
    assert bundles.header_bytes([1, 2]) == np.array([1, 2], np.int64).tobytes()


def test_damaged_messages_are_launch_errors(seed):
    chance = random.Random(seed)
    whole = messages.encode(messages.Refuse((1, 2), LaunchError(3, "text", 1)))
    bundle = messages.encode(bundles.bundle(1, 2, 3, 4, ["a", "b"], [0, 1, 2, 3], [0] * 6, [b"x" * 8, b""]))
    word = messages.encode(bundles.run(1, bundles.pack_widths([1, 0]), [[1, 2], [3, 4]], [b"x" * 8] * 2))
    several = messages.encode(messages.Leave(), messages.Warn("abc"))
    nobody = messages.encode(bundles.run(1, bundles.pack_widths([1, 0]), [], []))
    nothing = messages.encode(bundles.bundle(1, 2, 3, 4, [], [], [], []))
    for data in (b"", b"\xff", whole[:5], whole[:20], bytes([whole[0]]) + b"\x80" * 30, bundle[:-1], bundle + b"x",
                 bundle[:30], word[:-1], word + b"x" * 8, word[:20], several[:10], nobody, nothing,
                 word[:17] + b"\xff" * (len(word) - 17)):
        with pytest.raises(LaunchError, match="damaged") as caught:
            messages.decode(data)
        assert caught.value.code == INTERNAL
    for _ in range(2000):
        data = bytes(chance.randrange(256) for _ in range(chance.randrange(80)))
        try:
            messages.decode(data)
        except LaunchError:
            pass


def test_words_of_names_that_are_no_utf8():
    """As Python holds them: a failure that names such a file is heard of all the same."""
    error = LaunchError(INTERNAL, "cannot read " + os.fsdecode(b"caf\xe9 \xc3\xa9"), 1)
    assert error.message == str(error) == "cannot read caf\\udce9 \u00e9"
    announced = messages.Announce(1, 2, messages.Op(0, 1, 2), messages.Instance(), "a", None, b"", error)
    for message in (messages.Failed(error), messages.Refuse((1,), error), announced):
        said, = messages.decode(messages.encode(message))
        assert repr(said) == repr(message)


@pytest.mark.parametrize("environ, name, rank, size", [
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "1", "SLURM_PROCID": "0",
      "SLURM_STEP_NUM_TASKS": "2"}, "Open MPI", 1, 4),
    ({"PMI_RANK": "3", "PMI_SIZE": "8"}, "Hydra", 3, 8),
    ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "1", "PMI_RANK": "0", "PMI_SIZE": "1"}, "MVAPICH", 0, 1),
    ({"PMIX_RANK": "2", "PMIX_NAMESPACE": "x"}, "PMIx", 2, 0),
    ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "6"}, "SLURM", 5, 6),
])
def test_launchers(environ, name, rank, size):
    found = launcher.detect(environ)
    assert name in found.name and (found.rank, found.size) == (rank, size)


@pytest.mark.parametrize("environ", [
    {}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "1"}, {"PMI_RANK": "0"}])
def test_no_launcher(environ):
    assert launcher.detect(environ) is None


# As `srun --mpi=pmix` leaves it, from Slurm's plugin and from srun itself.
STEP = {"PMIX_RANK": "1", "PMIX_NAMESPACE": "slurm.pmix.7.0", "SLURM_PROCID": "1"}


@pytest.mark.parametrize("environ, ranks", [
    ({}, 1), ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "SLURM_STEP_NUM_TASKS": "2"}, 4),
    ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, 1),
    (dict(STEP, SLURM_STEP_NUM_TASKS="3"), 3), (dict(STEP, PMIX_RANK="0", SLURM_STEP_NUM_TASKS="1"), 1), (STEP, 2),
    # A launcher inside a step, of which it has one daemon here.
    ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-a-1@1", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, 2),
    ({"PMIX_RANK": "0"}, 2)])
def test_ranks_that_a_launcher_has_started(environ, ranks, monkeypatch):
    """Also one that says only that it has started this process."""
    assert launcher.started_ranks(environ) == ranks
    monkeypatch.setattr(os, "environ", environ)
    assert launcher.is_one_of_several() == (ranks > 1)


@pytest.mark.parametrize("environ, rank", [
    ({}, 0), ({"OMPI_COMM_WORLD_LOCAL_RANK": "3", "SLURM_LOCALID": "0"}, 3), (dict(STEP, SLURM_LOCALID="2"), 2),
    ({"MV2_COMM_WORLD_LOCAL_RANK": "1"}, 1), ({"PMI_RANK": "9", "PMI_SIZE": "16", "MPI_LOCALRANKID": "1"}, 1)])
def test_a_rank_among_those_of_its_host(environ, rank):
    assert launcher.local_rank(environ) == rank


def test_horovodrun_over_gloo_is_refused():
    with pytest.raises(LaunchError, match="horovodrun --mpi -np 4") as caught:
        launcher.detect({"HOROVOD_RANK": "2", "HOROVOD_SIZE": "4", "HOROVOD_CONTROLLER": "gloo"})
    assert caught.value.code == FAILED_PRECONDITION and caught.value.rank == 2


def test_settings(monkeypatch):
    for name in ("STALL_SECONDS", "ABORT_SECONDS", "GRACE_SECONDS", "NUM_THREADS", "COMMUNICATOR", "NCCL_LIBRARY"):
        monkeypatch.delenv("SOK1X_" + name, raising=False)
    assert environment.stall_seconds() == 60 and environment.abort_seconds() is None
    assert environment.grace_seconds() == 5 and environment.num_threads() is None
    assert environment.communicator() == "auto" and environment.nccl_library() is None
    monkeypatch.setenv("SOK1X_COMMUNICATOR", " NCCL ")
    assert environment.communicator() == "nccl"
    monkeypatch.setenv("SOK1X_COMMUNICATOR", "gloo")
    with pytest.raises(LaunchError, match="must be auto, nccl or mpi; got 'gloo'"):
        environment.communicator()
    monkeypatch.setenv("SOK1X_STALL_SECONDS", "0")
    monkeypatch.setenv("SOK1X_ABORT_SECONDS", "1.5")
    monkeypatch.setenv("SOK1X_NUM_THREADS", "3")
    assert environment.stall_seconds() is None and environment.abort_seconds() == 1.5
    assert environment.num_threads() == 3
    for value in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("SOK1X_ABORT_SECONDS", value)
        with pytest.raises(LaunchError, match="SOK1X_ABORT_SECONDS must be a number of seconds") as caught:
            environment.abort_seconds()
        assert caught.value.code == INVALID_ARGUMENT and repr(value) in caught.value.message
    for value in ("0", "-2", "many", "1.5", "\u00b2"):
        monkeypatch.setenv("SOK1X_NUM_THREADS", value)
        with pytest.raises(LaunchError, match="SOK1X_NUM_THREADS"):
            environment.num_threads()


def test_switches(monkeypatch):
    monkeypatch.delenv("SOK1X_FUSE", raising=False)
    assert environment.switch("SOK1X_FUSE") is None
    for value, on in (("0", False), (" 1 ", True)):
        monkeypatch.setenv("SOK1X_FUSE", value)
        assert environment.switch("SOK1X_FUSE") is on
    monkeypatch.setenv("SOK1X_FUSE", "false")
    with pytest.raises(LaunchError, match="SOK1X_FUSE must be 0 or 1; got 'false'"):
        environment.switch("SOK1X_FUSE")


def test_ranks_read_well():
    assert agreement.rank_list([3]) == "rank 3"
    assert agreement.rank_list([1, 0]) == "ranks 0, 1"
    assert agreement.rank_list([0, 2, 3, 4, 6, 7]) == "ranks 0, 2-4, 6, 7"


def test_arguments_compared():
    agreement.compare([{"seed": 1}] * 3)
    with pytest.raises(LaunchError) as caught:
        agreement.compare([{"seed": 1, "b": 8}, {"seed": 1, "b": 9}, {"seed": None, "b": 9}, {"b": 9}])
    error = caught.value
    assert error.code == INVALID_ARGUMENT and error.rank == 1
    assert "b: rank 0 gave 8; ranks 1-3 gave 9" in error.message
    assert "seed: ranks 0, 1 gave 1; rank 2 gave null; rank 3 gave (not given)" in error.message


def test_patience_warns_once_a_period_and_ends(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    now, warnings = [0.0], []
    patience = agreement.Patience("sok1x: rank 2", 10.0, 35.0, warnings.append, clock=lambda: now[0])
    for second in range(35):
        now[0] = float(second)
        patience.check()
    assert len(warnings) == 3
    assert warnings[0].startswith("sok1x: rank 2: sok.Init has waited 10 s for ranks that have not run it yet")
    assert "TF_CONFIG" not in warnings[0]
    now[0] = 35.0
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(LaunchError, match="SOK1X_ABORT_SECONDS") as caught:
        patience.check()
    assert caught.value.code == DEADLINE_EXCEEDED and "TF_CONFIG is set: " in caught.value.message


def test_threads_follow_the_cpus_that_ranks_share(monkeypatch):
    monkeypatch.delenv("SOK1X_NUM_THREADS", raising=False)
    assert world._host_threads([[0, 1, 2, 3]], 0) == 4
    assert world._host_threads([[0, 1, 2, 3]] * 2, 1) == 2
    assert world._host_threads([[0, 1]] * 4, 3) == 1
    assert world._host_threads([[0], [1, 2, 3]], 1) == 3
    assert world._host_threads([[0, 1, 2], [0, 1, 2], [0, 1, 2]], 2) == 1
    monkeypatch.setenv("SOK1X_NUM_THREADS", "7")
    assert world._host_threads([[0, 1]] * 4, 3) == 7


def test_import_loads_no_mpi_no_tensorflow_and_prints_nothing():
    program = ("import sys, threading; import sok1x.launch; "
               "bad = [m for m in ('mpi4py', 'mpi4py.MPI', 'horovod') if m in sys.modules]; "
               "assert not bad and threading.active_count() == 1, bad")
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_launch_names_no_tensorflow():
    import os

    import sok1x.launch
    folder = os.path.dirname(sok1x.launch.__file__)
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(os.path.join(folder, name)) as source:
                lines = [line.strip() for line in source]
            assert not [line for line in lines if line.startswith(("import tensorflow", "from tensorflow"))], name


def test_messages_are_done_with_where_mpi_ends_while_one_waits_for_them():
    class Gate:
        open = True

        def __enter__(self):
            raise LaunchError(FAILED_PRECONDITION, "MPI was finalised")

        def __exit__(self, *_):
            raise AssertionError("never entered")

    transport = MpiTransport.__new__(MpiTransport)
    transport._gate, transport._sending = Gate(), [None]
    assert transport.flush(1.0)
