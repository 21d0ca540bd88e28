// Splits the rows that a sum (or scatter) writes over threads, in ranges of equal work.
//
// Every thread walks all sources in order and serves the rows of its range, so each row is written by one thread
// in index order: the same bits for any number of threads. (Splitting columns instead balances by itself, but
// touches each row once a thread, and these loops wait for memory: it was half as fast.)
#ifndef SOK1X_DESTINATIONS_H
#define SOK1X_DESTINATIONS_H
#include <vector>

#include "common.cuh"

namespace sok1x {

// Bounds of `parts` ranges of equal work that together are [0, num_rows). ids [n] name the rows of the sources; a
// source is taken to be twice the work of clearing a row, of which there are `cleared`, spread evenly.
inline std::vector<i64> split_destinations(const i32* ids, i64 n, i64 num_rows, i64 cleared, i64 parts) {
  std::vector<i64> bounds(parts + 1, 0);
  bounds[parts] = num_rows;
  if (parts > 1) {
    // Quantiles of a sample: ids at even distances, and rows at even distances.
    const i64 samples = 256 * parts;
    const i64 from_ids = std::min(n, samples * 2 * n / (2 * n + cleared) + 1);
    const i64 from_rows = cleared ? std::max<i64>(0, samples - from_ids) : 0;
    std::vector<i64> sample;
    for (i64 s = 0; s < from_ids; ++s) {
      const i64 id = ids[n * s / from_ids];
      if (id >= 0) sample.push_back(id);
    }
    for (i64 s = 0; s < from_rows; ++s) sample.push_back(num_rows * s / from_rows);
    std::sort(sample.begin(), sample.end());
    for (i64 p = 1; p < parts; ++p) bounds[p] = sample.empty() ? 0 : sample[sample.size() * p / parts];
  }
  return bounds;
}

// How many threads a sum (or scatter) that touches so many bytes is worth.
inline i64 parts_worth(i64 bytes) {
  return std::max<i64>(1, std::min<i64>(ThreadPool::get().threads(), bytes / (4 * kLeastBytes)));
}

// Calls body(begin, end) for the ranges of `split_destinations`.
template <class F>
void for_destinations(const i32* ids, i64 n, i64 num_rows, i64 cleared, i64 bytes, const F& body) {
  const i64 parts = parts_worth(bytes);
  const std::vector<i64> bounds = split_destinations(ids, n, num_rows, cleared, parts);
  const i64* bound = bounds.data();
  parallel_chunks(parts, 1, [=](i64 first, i64 last) {
    for (i64 part = first; part < last; ++part) body(bound[part], bound[part + 1]);
  });
}

}  // namespace sok1x

#endif  // SOK1X_DESTINATIONS_H
