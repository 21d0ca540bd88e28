"""What the watch over other hosts costs (launch/heartbeat.py): CPU, packets and wake-ups while nothing happens.

    python benchmarks/heartbeat.py [--ranks N] [--seconds S] [--output FILE]

All ranks are in this process, on the loopback interface, each on a host of its own but for the first's connections: so
the figures are of both ends of N - 1 connections, and what the kernel does outside of the process is not in the CPU.
"""
import argparse
import json
import os
import resource
import time

import machine

from sok1x.launch import heartbeat_sockets
from sok1x.launch.heartbeat import Heartbeat

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "heartbeat.json")
TOKEN = bytes(range(16))


def probes():
    """How many times the kernel of this machine has asked on connections (TCPKeepAlive), since it started."""
    with open("/proc/net/netstat") as file:
        names, values = [line.split() for line in file if line.startswith("TcpExt:")]
    return int(values[names.index("TCPKeepAlive")])


def used():
    """CPU seconds and voluntary switches of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_nvcsw


def measure(ranks, silence, seconds):
    """A dict of figures for so many ranks, with SOK1X_HEARTBEAT_SECONDS=silence, over `seconds`."""
    listener = heartbeat_sockets.Listener(0)
    heads = {0: {"addresses": ["127.0.0.1"], "port": listener.place["port"]}}
    beats = [Heartbeat(rank, TOKEN, None if rank else listener, heads if rank else {}, silence, print)
             for rank in range(ranks)]
    began = time.monotonic()
    for beat in beats:
        beat.begin()
    while len(beats[0].peers) < ranks - 1:
        time.sleep(0.001)
    connected = time.monotonic() - began
    time.sleep(1.0)
    (cpu, switches), asked = used(), probes()
    time.sleep(seconds)
    (cpu_after, switches_after), asked_after = used(), probes()
    for beat in beats:
        beat.leave()
    return {"ranks": ranks, "ends of connections": 2 * (ranks - 1), "heartbeat seconds": silence, "seconds": seconds,
            "seconds to connect": round(connected, 3), "CPU ms": round(1000 * (cpu_after - cpu), 3),
            "voluntary switches": switches_after - switches,
            "kernel's questions a second": round((asked_after - asked) / seconds, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--silence", type=float, default=30.0, help="SOK1X_HEARTBEAT_SECONDS")
    parser.add_argument("--output", default=OUTPUT)
    options = parser.parse_args()
    report = machine.describe()
    report["figures"] = measure(options.ranks, options.silence, options.seconds)
    print(json.dumps(report["figures"], indent=1))
    machine.write(report, options.output)


if __name__ == "__main__":
    main()
