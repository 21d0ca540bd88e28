"""What a message costs the rank that sends it, and the one that receives it, in CPU time. Started by coordinator.py:

    mpiexec -np 2 python benchmarks/coordinator_rank.py OPTIONS.json RESULT.json
"""
import ctypes
import json
import sys
import time

import numpy as np
from coordinator import library

from sok1x.launch import inbox, mpi_library
from sok1x.launch.mpi_transport import MpiTransport

SIZES = {"C++": (16, 128, 512, 2048, 4000), "Python": (16, 128, 512, 2048, 4000, 16384, 65536, 262144)}
# Rank 0 has no more than a few messages for one rank at a time, and others wait for them.
MESSAGES, ROUNDS = 2, 50


def main():
    from mpi4py import MPI
    loaded, comm = library(), MPI.COMM_WORLD
    loaded.sok1x_post_cost.restype = ctypes.c_double
    kind = ctypes.CFUNCTYPE(None)
    loaded.sok1x_post_cost.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int, kind]
    control, status = comm.Dup(), MPI.Status()
    box, barrier = inbox.of_mpi(MPI, control, 2, status), kind(comm.Barrier)
    transport = MpiTransport(MPI, comm.Dup(), mpi_library.Gate())
    found = {}
    for by, sizes in SIZES.items():
        found[by] = {"send": [], "receive": []}
        for size in sizes:
            took = []
            for _ in range(ROUNDS):
                comm.Barrier()
                took.append(loaded.sok1x_post_cost(ctypes.byref(box), comm.rank, 1 - comm.rank, size, MESSAGES, barrier)
                            if by == "C++" else in_python(transport, comm, size))
            assert min(took) >= 0
            both = comm.allgather(1e6 * float(np.median(took)))
            found[by]["receive"].append({"bytes": size, "us": round(both[0], 4)})
            found[by]["send"].append({"bytes": size, "us": round(both[1], 4)})
    if comm.rank == 0:
        with open(sys.argv[2], "w") as file:
            json.dump(found, file)


def in_python(transport, comm, size):
    """As sok1x_post_cost, by the transport."""
    data = bytes(size)
    if comm.rank == 1:
        began = time.thread_time()
        for _ in range(MESSAGES):
            transport.send(0, data)
        sent = time.thread_time() - began
        comm.Barrier()
        while not transport.flush(1.0):
            continue
        return sent / MESSAGES
    comm.Barrier()
    began, came = time.thread_time(), 0
    while came < MESSAGES:
        came += len(transport.receive())
    return (time.thread_time() - began) / MESSAGES


if __name__ == "__main__":
    main()
