"""Two and three hosts with one and two ranks each: what runs on one machine runs on several, to the same bits."""
import functools
import os
import re
import subprocess
import time

import pytest
from network import HERE, Network, reports
from ranks import environment, unexpected

ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(HERE, "program_hosts.py")
DEMO = os.path.join(ROOT, "legacy_examples", "demo.py")
DATA = os.path.join(ROOT, ".data", "ml-100k")
CHECK = "-c", "import runpy; runpy.run_module('sok1x.check', run_name='__main__')"
LAYOUTS = [(2, 1), (2, 2), (3, 1), (3, 2)]
CPUS = len(os.sched_getaffinity(0))


def named(layout):
    return "{}_hosts_of_{}".format(*layout)


@pytest.fixture(scope="module", params=LAYOUTS, ids=named)
def hosts(request):
    with Network(*request.param) as made:
        yield made


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory):
    """Two hosts with two slots each, and a folder that each has for itself."""
    private = str(tmp_path_factory.mktemp("private"))
    with Network(2, 2, private=[private]) as made:
        made.private_folder = private
        yield made


@functools.lru_cache(maxsize=None)
def on_one_host(ranks):
    """What so many ranks on one host report."""
    with Network(1, ranks) as made:
        return reports(made.run(ranks, PROGRAM))


def bits(told):
    return [{name: one[name] for name in ("tables", "dense", "losses")} for one in told]


def clean(finished):
    """What no run on several hosts should write."""
    # Open MPI says so where a daemon has begun before mpiexec could set its group.
    return [line for line in unexpected(finished.err) if "setpgid" not in line]


def test_training_and_a_shared_checkpoint(hosts, tmp_path):
    """To the same end as on one host, bit for bit; and what is exchanged goes over the network between the hosts."""
    count, slots = len(hosts.hosts), hosts.slots
    ranks = count * slots
    hosts.python(environment())  # what starting costs comes before what is counted
    before = [host.received() for host in hosts.hosts]
    finished = hosts.run(ranks, PROGRAM, "--save", tmp_path / "saved", timeout=300)
    came = [host.received() - start for host, start in zip(hosts.hosts, before)]
    assert not clean(finished), str(finished)
    told = reports(finished)
    assert bits(told) == bits(on_one_host(ranks))
    for rank, one in enumerate(told):
        assert one["host"] == "host" + "abc"[rank // slots]
        assert (one["local_rank"], one["local_size"]) == (rank % slots, slots)
        # A host's CPUs are shared by its own ranks alone.
        assert (one["cpus"], one["threads"]) == (CPUS, max(1, CPUS // slots))
    # The first rank of each host hears of all on hosts behind it, and each rank knows the first ones before it.
    firsts = range(0, ranks, slots)
    assert [one["peers"] for one in told] == [
        sorted(other for other in range(ranks) if other != rank and (
            (other in firsts and other < rank) or (rank in firsts and other > rank))) for rank in range(ranks)]
    # A rank has as much for each other rank, but for what chance does.
    for number in range(count):
        of_others = sum(one["sent"] for one in told if one["host"] != hosts.hosts[number].name)
        assert came[number] > 0.7 * of_others * slots / (ranks - 1), (came, [one["sent"] for one in told])


@pytest.mark.parametrize("hosts", [layout if layout in ((2, 1), (3, 2)) else pytest.param(
    layout, marks=pytest.mark.slow) for layout in LAYOUTS], indirect=True, ids=named)
def test_check(hosts):
    """Fewest and most; what the other layouts are told is the same."""
    ranks = len(hosts.hosts) * hosts.slots
    finished = hosts.run(ranks, *CHECK)
    assert "all is well" in finished.out and "{} ranks".format(ranks) in finished.out, str(finished)
    assert re.search("hosts: hosta .*, hostb ", finished.out), str(finished)
    assert "(rank 0 of {} on this host)".format(hosts.slots) in finished.out
    assert not clean(finished), str(finished)


def test_exchanges_by_hosts(two_hosts):
    """To the same bits as ranks of one host that are taken for hosts; and less comes from the other host."""
    told, came = {}, {}
    two_hosts.python(environment())
    for wanted in ("0", "1"):
        before = [host.received() for host in two_hosts.hosts]
        finished = two_hosts.run(4, PROGRAM, "--steps", 20, env={"SOK1X_EXCHANGE_BY_HOSTS": wanted}, timeout=300)
        assert not clean(finished), str(finished)
        came[wanted] = sum(host.received() - start for host, start in zip(two_hosts.hosts, before))
        told[wanted] = reports(finished)
    with Network(1, 4) as one:
        taken_for_hosts = reports(one.run(4, PROGRAM, "--steps", 20, env={"SOK1X_EXCHANGE_BY_HOSTS": "2"}, timeout=300))
    assert bits(told["1"]) == bits(taken_for_hosts)
    # Of a host's keys 17 % are asked for by both ranks.
    print("bytes from host to host:", came)
    assert came["1"] < 0.95 * came["0"], came
    # Sums are made in another order, and so no more than that differs.
    losses = [sum(one["last"] for one in told[wanted]) for wanted in ("0", "1")]
    assert abs(losses[0] - losses[1]) < 1e-3 * losses[0], losses


def test_a_job_that_is_killed_goes_on_on_fewer_hosts(tmp_path):
    """SIGKILL for all of it on both hosts; then from its checkpoint on one host with half of the ranks."""
    with Network(2, 2) as hosts:
        job = hosts.start(4, PROGRAM, "--save", tmp_path / "killed", "--steps", 12, "--slow", 1000)
        job.expect("saved", 4, timeout=300)
        for host in hosts.hosts:
            host.vanish()
        assert job.finish(60).code != 0
    with Network(1, 4) as host:
        through = reports(host.run(4, PROGRAM, "--save", tmp_path / "ended", "--steps", 12, timeout=300))
        went_on = [reports(host.run(2, PROGRAM, "--save", tmp_path / folder, "--resume", "--steps", 12, timeout=300))
                   for folder in ("killed", "ended")]
    assert bits(went_on[0]) == bits(went_on[1])
    # Two ranks have the same samples as four, and add their gradients up in another order.
    losses = [sum(one["last"] for one in told) for told in (through, went_on[0])]
    assert abs(losses[0] - losses[1]) < 1e-3 * losses[0], losses


def test_horovod_averages_the_dense_part(two_hosts):
    told = reports(two_hosts.run(4, PROGRAM, "--horovod"))
    assert [one["horovod"] for one in told] == [[rank, rank % 2, 2] for rank in range(4)]
    assert len({one["dense"] for one in told}) == 1
    # The order of MPI_Allreduce's sums is MPI's business where there are more than two.
    ours = reports(two_hosts.run(2, PROGRAM, mpiexec=["--map-by", "node"]))
    theirs = reports(two_hosts.run(2, PROGRAM, "--horovod", mpiexec=["--map-by", "node"]))
    assert [one["host"] for one in ours] == ["hosta", "hostb"]
    assert bits(ours) == bits(theirs)


def test_horovodrun(two_hosts):
    """It looks for the hosts' common interfaces by ssh, and then has mpirun start the ranks."""
    values = dict(environment(), OMPI_MCA_hwloc_base_binding_policy="none")
    command = two_hosts.hosts[0].entering() + [
        os.path.join(ROOT, ".venv", "bin", "horovodrun"), "--mpi", "--disable-cache", "-np", "4", "-H",
        "hosta:2,hostb:2"]
    finished = two_hosts.start_command(command + two_hosts.python(values) + [PROGRAM, "--horovod"], values).finish(120)
    assert finished.code == 0, str(finished)
    told = [re.search(r'"rank": (\d), "ranks": 4, .*"host": "(\w+)"', line) for line in finished.out.splitlines()]
    assert sorted(one.groups() for one in told if one) == [
        ("0", "hosta"), ("1", "hosta"), ("2", "hostb"), ("3", "hostb")], str(finished)


def test_ranks_are_bound_to_cores_of_their_own_host(two_hosts):
    """mpiexec gives the only rank of each host the same core number, and that is one core for each of them."""
    told = reports(two_hosts.run(2, PROGRAM, mpiexec=["--map-by", "node", "--bind-to", "core"]))
    assert [(one["cpus"], one["threads"], one["local_rank"], one["local_size"]) for one in told] == [(1, 1, 0, 1)] * 2


def test_a_folder_that_hosts_do_not_share(two_hosts):
    """Each rank is told, and both hosts are named."""
    folder = two_hosts.private_folder
    for arguments, does in (((), "has just made"), (("restore",), "has found")):
        if arguments:  # on the first host alone there is something to restore
            two_hosts.run(1, os.path.join(HERE, "program_unshared.py"), folder)
        told = reports(two_hosts.run(2, os.path.join(HERE, "program_unshared.py"), folder, *arguments,
                                     mpiexec=["--map-by", "node"]))
        for rank, one in enumerate(told):
            assert "CheckpointError" in one["message"] and ("Rank 1 (host hostb)" in one["message"]) == (rank == 0)
            assert "hostb does not see the folder" in one["message"], one
            assert "that rank 0 (host hosta) {}: it must be on".format(does) in one["message"], one


def test_the_demo(two_hosts):
    if not os.path.isdir(DATA):
        pytest.skip("MovieLens-100k has not been fetched (make data)")
    epoch = [re.search(r"^epoch 1: loss .*$", two_hosts.run(
        2, DEMO, "--epochs", 1, mpiexec=["--map-by", by], timeout=300).out, re.MULTILINE) for by in ("node", "slot")]
    assert epoch[0].group() == epoch[1].group(), "one host, or two"


def test_hosts_are_gone_when_the_test_is_killed():
    """Also where nobody could clean up: SIGKILL, in the middle of a job."""
    text = ("import sys; sys.path[:0] = {!r}; import network, time; hosts = network.Network(2); "
            "job = hosts.start(2, ['sleep', '1000']); print(hosts.prefix, hosts.folder, flush=True); "
            "time.sleep(1000)").format([os.path.dirname(HERE), HERE])
    child = subprocess.Popen(["python3" if not os.path.exists(os.path.join(ROOT, ".venv")) else
                              os.path.join(ROOT, ".venv", "bin", "python"), "-c", text],
                             stdout=subprocess.PIPE, universal_newlines=True)
    prefix, folder = child.stdout.readline().split()
    namespaces = [name for name in os.listdir("/run/netns") if name.startswith(prefix)]
    assert len(namespaces) == 3
    pids, end = [], time.monotonic() + 60
    while len(pids) < 6 and time.monotonic() < end:  # of each host what keeps it, mpiexec or its daemon, and a rank
        pids = [int(pid) for name in namespaces for pid in subprocess.check_output(
            ["ip", "netns", "pids", name]).split()]
    assert len(pids) >= 6
    child.kill()
    child.wait()
    subprocess.run(["timeout", "60", "sh", "-c", "while [ -e {} ]; do sleep 0.1; done".format(folder)], check=True)
    assert not [name for name in os.listdir("/run/netns") if name.startswith(prefix)]
    while any(map(runs, pids)):  # a process that has been killed takes a moment to end
        assert time.monotonic() < end + 60, [pid for pid in pids if runs(pid)]
        time.sleep(0.1)


def runs(pid):
    """Whether there is such a process that has not ended."""
    try:
        with open("/proc/{}/stat".format(pid)) as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
