"""Microseconds of the executor's thread that each call takes which a step makes again and again on a GPU.

    python benchmarks/gpu_launch.py

The GPU has next to nothing to do: what is measured is Python and the driver. Prints a line of JSON.
"""
import argparse
import json
import time

import gpu_device

from sok1x.cuda_kernels import arrays, backend, fill

ROUNDS, CALLS = 20, 200  # of few calls each: the driver's queue, once full, would be what is measured


def microseconds(gpu, call):
    """Median of rounds, each with the queue empty before it."""
    times = []
    for _ in range(ROUNDS):
        gpu.synchronize()
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - began) / CALLS * 1e6)
    return round(sorted(times)[ROUNDS // 2], 2)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    device = gpu_device.get("gpu")
    gpu = device.gpu
    memory = device.empty(1 << 20)
    numbers = arrays.array(memory, "int64", (1000,), gpu)

    def count():
        found = backend.counts()
        found.take()
        found.read()

    def enter():
        with gpu.active():
            pass

    with device.use():
        results = {
            "launch": microseconds(gpu, lambda: fill.fill_int64(numbers, 7)),
            "clear": microseconds(gpu, lambda: gpu.clear(memory, 8000)),
            "copy": microseconds(gpu, lambda: gpu.copy(memory, memory + 8000, 8000)),
            "count, published and waited for": microseconds(gpu, count),
            "mark of the stream": microseconds(gpu, gpu.record),
            "context": microseconds(gpu, enter)}
    device.free(memory)
    print(json.dumps({"gpu": gpu.name, "us": results}))


if __name__ == "__main__":
    main()
