"""Runs each kernel of the sparse workload once more, without TensorFlow, for a profiler that replays kernels.

    ncu --clock-control none --profile-from-start off --set full \\
        python benchmarks/gpu_probe.py

The first round warms up; CUDA's profiler is started before the second.
Shapes are those of gpu_embedding.py's sparse layout.
"""
import argparse
import functools

import gpu_device
import numpy as np

from sok1x.cuda_kernels import adam, bags, combine, hash_index, lookup, row_numbers, segment_sum, unique
from sok1x.cuda_kernels.arrays import allocated


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
    new, uploaded = functools.partial(gpu_device.array, device), functools.partial(gpu_device.uploaded, device)
    index, all_rows = new("int64", capacity, 2), new("int32", rows_of_table)
    table, m, v = (new("float32", rows_of_table, dim) for _ in range(3))
    all_keys = uploaded(np.arange(rows_of_table, dtype=np.int64))
    batch, pairs = uploaded(keys), uploaded(np.stack([indices, indices], axis=1).astype(np.int64))
    offsets, at, out = new("int64", n_bags + 1), new("int32", n), new("float32", n_bags, dim)
    values, inverse, rows = new("int64", n), new("int32", n), new("int32", n)
    sums = new("float32", n, dim)
    scalars = [uploaded(np.array([value], np.float32)) for value in (1e-6, 0.9, 0.999, 1e-8)]
    with gpu.active():
        for array in (table, m, v):
            gpu.clear(array.pointer, array.nbytes)
    with device.use():
        hash_index.clear(index)
        for first in range(0, rows_of_table, 1 << 20):
            count = min(1 << 20, rows_of_table - first)
            place, given = all_keys.some(first, count), all_rows.some(first, count)
            hash_index.find(index, place, given)
            with device.use():
                hash_index.insert(index, place, given, first)
    driver = gpu._driver
    for number in range(2):
        with device.use():
            if number:
                driver.start_profiler()
            combine.bag_offsets(pairs, offsets)
            bags.longest(offsets)
            lookup.look_up(batch, index, table, at, None)
            combine.combine(table, None, at, offsets, False, out)
            distinct = unique.unique(at, values, inverse, allocated(gpu, "uint8", unique.scratch_bytes(n)))
            row_numbers.narrow(values.front(distinct), rows.front(distinct))
            segment_sum.bag_segment_sum(out, offsets, inverse, False, sums.front(distinct))
            adam.lazy_adam(sums.front(distinct), rows.front(distinct), scalars, table, m, v)
            gpu.synchronize()
    with gpu.active():
        driver.stop_profiler()
    print("{} keys in {} bags, {} distinct".format(n, n_bags, distinct))


if __name__ == "__main__":
    main()
