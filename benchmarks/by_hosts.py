"""What goes from host to host, directly and by hosts, between two hosts of two ranks: docs/scaling.md's "By hosts".

    python benchmarks/by_hosts.py [--steps N] [--output FILE]

The hosts are network namespaces of this machine, as of tests/hosts (as root). Bytes are those that their interfaces
count, of the whole job, its start included. The model is tests/hosts/program_hosts.py: two tables of 2000 keys, D = 32,
512 samples of 4 slots, of 1 and 2 keys.
"""
import argparse
import json
import os
import sys

import machine

sys.path[:0] = [os.path.join(machine.ROOT, "tests"), os.path.join(machine.ROOT, "tests", "hosts")]

import network  # noqa: E402

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "by_hosts.json")
PROGRAM = os.path.join(machine.ROOT, "tests", "hosts", "program_hosts.py")
WAYS = {"directly": "0", "by hosts": "1"}


def measure(steps):
    """{way: bytes that both hosts have received}."""
    found = {}
    with network.Network(2, 2) as hosts:
        hosts.python(network.environment())
        for way, wanted in WAYS.items():
            before = [host.received() for host in hosts.hosts]
            hosts.run(4, PROGRAM, "--steps", steps, env={"SOK1X_EXCHANGE_BY_HOSTS": wanted}, timeout=600)
            found[way] = sum(host.received() - start for host, start in zip(hosts.hosts, before))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", default=OUTPUT)
    options = parser.parse_args()
    report = machine.describe()
    report.update(hosts=2, ranks=4, steps=options.steps, bytes=measure(options.steps))
    print(json.dumps(report["bytes"], indent=1))
    machine.write(report, options.output)


if __name__ == "__main__":
    main()
