// Bags of rows: where each bag begins, and the sum or mean of its rows, which may be of 16-bit floats, as may what
// comes out; sums are of 32-bit ones.
#include "bags.cuh"
#include "combine_host.h"

SOK_KERNEL sok1x_bag_offsets(const i64* SOK_RESTRICT bags, i64 stride, i64 n, i64 n_bags,
                             i64* SOK_RESTRICT offsets, i64* outside, i64* unsorted) {
  SOK_PARALLEL_FOR(i, n + 1, stride * 8 + 16) { start_bags(bags, stride, n, n_bags, i, offsets, outside, unsorted); };
}

#ifdef __CUDACC__

// A team sums a bag, each lane its columns, in key order; the rows of AHEAD keys are asked for at a time. Offsets are
// kept within [0, n_keys], so that offsets which prove faulty later do no harm.
template <int W, class In, class Out>
SOK_DEVICE void combine_bags(const In* SOK_RESTRICT source, i64 dim, const i32* SOK_RESTRICT rows,
                             const i32* SOK_RESTRICT inverse, const i64* SOK_RESTRICT offsets, i64 n_bags, i64 n_keys,
                             i32 mean, Out* SOK_RESTRICT out) {
  const int AHEAD = 4;
  const Team team = make_team(dim);
  for (i64 b = team.first; b < n_bags; b += team.stride) {
    const i64 first = max(0ll, min(n_keys, offsets[b])), last = max(first, min(n_keys, offsets[b + 1]));
    SOK_TEAM_COLUMNS(W, team, dim, c) {
      Vec<W> sum = zero_vec<W>();
      for (i64 k = first; k < last; k += AHEAD) {
        i64 row[AHEAD];
        Vec<W> value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) row[a] = k + a < last ? row_of_key(rows, inverse, k + a) : -1;
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (row[a] >= 0) value[a] = load_vec<W>(source + row[a] * dim + c);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (row[a] < 0) continue;
          for (int w = 0; w < W; ++w) sum.lane[w] = sum.lane[w] + value[a].lane[w];
        }
      }
      if (mean && last > first) {
        const float count = (float)(last - first);
        for (int w = 0; w < W; ++w) sum.lane[w] = sum.lane[w] / count;
      }
      store_vec<W>(out + b * dim + c, sum);
    }
  }
}

#define SOK_COMBINE(source, dim, rows, inverse, offsets, n_bags, n_keys, mean, out) \
  SOK_BY_ALIGNMENT(dim, combine_bags, source, dim, rows, inverse, offsets, n_bags, n_keys, mean, out)

#else

template <class In, class Out>
SOK_DEVICE void combine_bags(const In* SOK_RESTRICT source, i64 dim, const i32* SOK_RESTRICT rows,
                             const i32* SOK_RESTRICT inverse, const i64* SOK_RESTRICT offsets, i64 n_bags, i32 mean,
                             Out* SOK_RESTRICT out) {
  if (n_bags <= 0) return;
  SOK_OUTPUT(out, n_bags * dim * (i64)sizeof *out);
  SOK_PARALLEL_CHUNKS(begin, end, n_bags, (offsets[n_bags] / n_bags + 1) * dim * 4) {
    const sok1x::RowsOf<const In> row_at = {source, dim};
    combine_run(row_at, dim, rows, inverse, offsets, begin, end, mean, out + begin * dim, offsets[end]);
  };
}

#define SOK_COMBINE(source, dim, rows, inverse, offsets, n_bags, n_keys, mean, out) \
  combine_bags(source, dim, rows, inverse, offsets, n_bags, mean, out)

#endif  // __CUDACC__

SOK_KERNEL sok1x_combine(const float* SOK_RESTRICT source, i64 dim, const i32* SOK_RESTRICT rows,
                         const i32* SOK_RESTRICT inverse, const i64* SOK_RESTRICT offsets, i64 n_bags, i64 n_keys,
                         i32 mean, float* SOK_RESTRICT out) {
  SOK_COMBINE(source, dim, rows, inverse, offsets, n_bags, n_keys, mean, out);
}

SOK_KERNEL sok1x_combine_to_half(const float* SOK_RESTRICT source, i64 dim, const i32* SOK_RESTRICT rows,
                                 const i32* SOK_RESTRICT inverse, const i64* SOK_RESTRICT offsets, i64 n_bags,
                                 i64 n_keys, i32 mean, u16* SOK_RESTRICT out) {
  SOK_COMBINE(source, dim, rows, inverse, offsets, n_bags, n_keys, mean, out);
}

SOK_KERNEL sok1x_combine_half(const u16* SOK_RESTRICT source, i64 dim, const i32* SOK_RESTRICT rows,
                              const i32* SOK_RESTRICT inverse, const i64* SOK_RESTRICT offsets, i64 n_bags,
                              i64 n_keys, i32 mean, u16* SOK_RESTRICT out) {
  SOK_COMBINE(source, dim, rows, inverse, offsets, n_bags, n_keys, mean, out);
}

// values[b] / the number of keys of bag b.
template <class T>
SOK_DEVICE void divide_bags(const T* values, i64 dim, const i64* SOK_RESTRICT offsets, i64 n_bags, T* out) {
#ifdef __CUDACC__
  const Team team = make_team(dim);
  for (i64 b = team.first; b < n_bags; b += team.stride) {
    const i64 keys = offsets[b + 1] - offsets[b];
    const float count = (float)keys;
    SOK_TEAM_COLUMNS(1, team, dim, c) {
      store(out + b * dim + c, keys > 0 ? load(values + b * dim + c) / count : 0.0f);
    }
  }
#else
  SOK_OUTPUT(out, n_bags * dim * (i64)sizeof *out);
  SOK_PARALLEL_FOR(b, n_bags, dim * (i64)(2 * sizeof *out)) {
    const i64 keys = offsets[b + 1] - offsets[b];
    const float count = (float)keys;
    for (i64 c = b * dim; c < (b + 1) * dim; ++c) store(out + c, keys > 0 ? load(values + c) / count : 0.0f);
  };
#endif
}

SOK_KERNEL sok1x_divide(const float* values, i64 dim, const i64* SOK_RESTRICT offsets, i64 n_bags, float* out) {
  divide_bags(values, dim, offsets, n_bags, out);
}

SOK_KERNEL sok1x_divide_half(const u16* values, i64 dim, const i64* SOK_RESTRICT offsets, i64 n_bags, u16* out) {
  divide_bags(values, dim, offsets, n_bags, out);
}

#ifndef __CUDACC__
// A stable counting sort, on one thread: unsorted bags are rare. On a GPU sort.cu sorts.
SOK_EXPORT void sok1x_sort_order(const i64* bags, i64 stride, i64 n, i64 n_bags, i64* offsets, i32* order) {
  for (i64 b = 0; b <= n_bags; ++b) offsets[b] = 0;
  for (i64 i = 0; i < n; ++i) ++offsets[bags[i * stride] + 1];
  for (i64 b = 0; b < n_bags; ++b) offsets[b + 1] += offsets[b];
  // Placing a bag's items moves its offset to the next bag's; afterwards all are moved back by one place.
  for (i64 i = 0; i < n; ++i) order[offsets[bags[i * stride]]++] = (i32)i;
  for (i64 b = n_bags; b > 0; --b) offsets[b] = offsets[b - 1];
  offsets[0] = 0;
}
#else
SOK_KERNEL sok1x_bag_numbers(const i64* SOK_RESTRICT bags, i64 stride, i64 n, u32* SOK_RESTRICT numbers) {
  SOK_PARALLEL_FOR(i, n, 12) { numbers[i] = (u32)bags[i * stride]; };
}

// As sok1x_bag_offsets, from numbers that are sorted.
SOK_KERNEL sok1x_offsets_of_sorted(const u32* SOK_RESTRICT numbers, i64 n, i64 n_bags, i64* SOK_RESTRICT offsets) {
  SOK_PARALLEL_FOR(i, n + 1, 16) {
    const i64 bag = i < n ? (i64)numbers[i] : n_bags;
    const i64 previous = i > 0 ? (i64)numbers[i - 1] : -1;
    for (i64 b = previous + 1; b <= bag; ++b) offsets[b] = i;
  };
}
#endif
