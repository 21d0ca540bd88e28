"""Which ranks are a host's, for exchanges that go by hosts; and what is said where they cannot."""
import pytest

from sok1x.launch import by_hosts, environment
from sok1x.launch.errors import INVALID_ARGUMENT, LaunchError


def firsts(*counts):
    """Of each rank the first rank of its host, of hosts that have so many ranks."""
    starts = [sum(counts[:number]) for number in range(len(counts))]
    return [start for start, count in zip(starts, counts) for _ in range(count)]


def test_hosts_as_they_are_or_as_they_are_said_to_be():
    found, reason = by_hosts.find(1, firsts(3, 3), 4)
    assert found == (4, 3, 2) and reason == "" and found.first == 3
    assert list(found.ranks(by_hosts.INSIDE)) == [3, 4, 5] and list(found.ranks(by_hosts.ACROSS)) == [1, 4]
    assert found.described() == "by hosts: 2 of 3 ranks"
    for local, count in ((2, 4), (4, 2)):
        assert by_hosts.find(local, firsts(8), 5) == ((5, local, count), "")
    assert by_hosts.find(2, firsts(3, 3), 0)[0] == (0, 2, 3)
    assert by_hosts.find(0, firsts(2, 2), 0) == (None, "")


@pytest.mark.parametrize("wanted, of_ranks, reason", [
    (1, firsts(4), "all ranks are on one host"), (1, firsts(1, 1), "each host has one rank"),
    (1, firsts(2, 3), "the hosts have 2 and 3 ranks, not equally many"),
    (1, [0, 1, 0, 1], "the ranks of a host do not follow each other (mpiexec --map-by slot has them do so)"),
    (4, firsts(4), "4 ranks are not two or more hosts of 4"), (3, firsts(4), "4 ranks are not two or more hosts of 3"),
    (8, firsts(4), "4 ranks are not two or more hosts of 8")])
def test_where_they_cannot(wanted, of_ranks, reason):
    assert by_hosts.find(wanted, of_ranks, 1) == (None, reason)


def test_every_key_meets_its_owner_on_the_way():
    """The rank of this host that is asked for a key has the local number of the key's owner, whatever the key."""
    for local, count in ((2, 2), (3, 2), (2, 3)):
        for rank in range(local * count):
            found = by_hosts.ByHosts(rank, local, count)
            for key in (-2 ** 63, -7, -1, 0, 1, 2, 3, 5, 2 ** 63 - 1):
                asked, owner = found.first + key % local, key % (local * count)
                assert asked in found.ranks(by_hosts.INSIDE)
                assert owner in by_hosts.ByHosts(asked, local, count).ranks(by_hosts.ACROSS)


def test_the_setting(monkeypatch):
    monkeypatch.delenv("SOK1X_EXCHANGE_BY_HOSTS", raising=False)
    assert environment.exchange_by_hosts() == 0
    monkeypatch.setenv("SOK1X_EXCHANGE_BY_HOSTS", " 4 ")
    assert environment.exchange_by_hosts() == 4
    for value in ("yes", "-1", "1.5", "\u00b2"):
        monkeypatch.setenv("SOK1X_EXCHANGE_BY_HOSTS", value)
        with pytest.raises(LaunchError, match="SOK1X_EXCHANGE_BY_HOSTS must be 0, 1, or") as caught:
            environment.exchange_by_hosts()
        assert caught.value.code == INVALID_ARGUMENT and repr(value) in caught.value.message
    environment.one_value("SOK1X_EXCHANGE_BY_HOSTS", [2, 2, 2])
    with pytest.raises(LaunchError, match="one value on all ranks .* got 0, 2, 2 on the ranks in turn"):
        environment.one_value("SOK1X_EXCHANGE_BY_HOSTS", [0, 2, 2])
