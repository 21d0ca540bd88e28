"""Runs each kernel of the sparse workload once more, without TensorFlow, for a profiler that replays kernels.

    ncu --clock-control none --profile-from-start off --set full \\
        python benchmarks/gpu_probe.py

The first round warms up; CUDA's profiler is started before the second.
Shapes are those of gpu_embedding.py's sparse layout.
"""
import argparse

import gpu_device
import numpy as np

from sok1x.cuda_kernels import adam, bags, combine, hash_index, lookup, row_numbers, segment_sum, unique


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=4 << 20)
    parser.add_argument("--bags", type=int, default=8192 * 26)
    parser.add_argument("--dim", type=int, default=128)
    options = parser.parse_args()
    rows_of_table, n_bags, dim = options.vocabulary, options.bags, options.dim
    random = np.random.RandomState(1)
    lengths = random.randint(1, 10, n_bags)
    n = int(lengths.sum())
    numbers = np.floor(rows_of_table * random.random_sample(n) ** 3).astype(np.int64)
    keys = (numbers * 2654435761 + 12345) % rows_of_table
    indices = np.repeat(np.arange(n_bags), lengths)
    device = gpu_device.get("gpu")
    gpu = device.gpu
    capacity = hash_index.capacity(rows_of_table)
    index, all_keys, all_rows = (device.empty(nbytes) for nbytes in (16 * capacity, 8 * rows_of_table,
                                                                     4 * rows_of_table))
    table, m, v = (device.empty(4 * rows_of_table * dim) for _ in range(3))
    device.upload(np.arange(rows_of_table, dtype=np.int64), all_keys)
    batch, pairs = device.upload(keys), device.upload(np.stack([indices, indices], axis=1).astype(np.int64))
    offsets, at, out = device.empty(8 * (n_bags + 1)), device.empty(4 * n), device.empty(4 * n_bags * dim)
    values, inverse, rows = device.empty(8 * n), device.empty(4 * n), device.empty(4 * n)
    sums = device.empty(4 * n * dim)
    scalars = [device.upload(np.array([value], np.float32)) for value in (1e-6, 0.9, 0.999, 1e-8)]
    with gpu.active():
        for pointer in (table, m, v):
            gpu.clear(pointer, 4 * rows_of_table * dim)
    with device.use():
        hash_index.clear(index, capacity)
        for first in range(0, rows_of_table, 1 << 20):
            count = min(1 << 20, rows_of_table - first)
            place, given = all_keys + 8 * first, all_rows + 4 * first
            hash_index.find(index, capacity, place, count, given)
            with device.use():
                hash_index.insert(index, capacity, place, count, given, first)
    driver = gpu._driver
    for number in range(2):
        with device.use():
            if number:
                driver.start_profiler()
            combine.bag_offsets(pairs, 2, n, n_bags, offsets)
            bags.longest(offsets, n_bags)
            lookup.look_up(batch, "int64", n, index, capacity, table, dim, at, 0)
            combine.combine(table, dim, 0, at, offsets, n_bags, n, False, out)
            distinct = unique.unique(at, "int32", n, values, inverse, gpu.allocate(unique.scratch_bytes(n)))
            row_numbers.narrow(values, distinct, rows)
            segment_sum.bag_segment_sum(out, dim, offsets, inverse, n_bags, n, False, distinct, sums)
            adam.lazy_adam(sums, dim, rows, distinct, scalars + [0, 0], rows_of_table, table, m, v)
            gpu.synchronize()
    with gpu.active():
        driver.stop_profiler()
    print("{} keys in {} bags, {} distinct".format(n, n_bags, distinct))


if __name__ == "__main__":
    main()
