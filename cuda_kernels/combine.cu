// Bags of rows: where each bag begins, and the sum or mean of its rows, which may be of 16-bit floats, as may what
// comes out; sums are of 32-bit ones.
#include "half_rows.cuh"

// Offsets of sorted bags. Item i starts every bag after item i-1's up to its own; item n ends all the rest.
// *outside, 0 before, becomes n minus the first item out of [0, n_bags); *unsorted likewise for the first that is
// below its predecessor. Where one of them is not 0, offsets are not to be used.
SOK_KERNEL sok1x_bag_offsets(const i64* SOK_RESTRICT bags, i64 stride, i64 n, i64 n_bags,
                             i64* SOK_RESTRICT offsets, i64* outside, i64* unsorted) {
  SOK_PARALLEL_FOR(i, n + 1, stride * 8 + 16) {
    const i64 bag = i < n ? bags[i * stride] : n_bags;
    const i64 previous = i > 0 ? bags[(i - 1) * stride] : -1;
    if (i < n && (bag < 0 || bag >= n_bags)) {
      atomic_max(outside, n - i);
    } else if (previous > bag) {
      atomic_max(unsorted, n - i);
    } else if (previous >= -1) {
      for (i64 b = previous + 1; b <= bag; ++b) offsets[b] = i;
    }
  };
}

// The row of key k: rows[inverse[k]], or inverse[k] where there are no rows; negative where it has none.
SOK_DEVICE i32 row_of_key(const i32* rows, const i32* inverse, i64 k) {
  const i32 unique = inverse[k];
  return rows && unique >= 0 ? rows[unique] : unique;
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

// Floats of a row that are summed in registers at a time.
typedef float Tile __attribute__((vector_size(16)));
template <int TILES>
SOK_DEVICE void add_tiles(Tile* sums, const float* values) {
  for (int t = 0; t < TILES; ++t) {
    Tile tile;
    memcpy(&tile, values + 4 * t, sizeof tile);
    sums[t] = sums[t] + tile;
  }
}
template <int TILES>
SOK_DEVICE void add_tiles(Tile* sums, const u16* values) {
  float wide[4 * TILES];
  widen(values, 4 * TILES, wide);
  add_tiles<TILES>(sums, wide);
}
template <int TILES>
SOK_DEVICE void store_tiles(float* out, const Tile* sums) {
  for (int t = 0; t < TILES; ++t) memcpy(out + 4 * t, sums + t, sizeof(Tile));
}
template <int TILES>
SOK_DEVICE void store_tiles(u16* out, const Tile* sums) {
  float wide[4 * TILES];
  memcpy(wide, sums, sizeof wide);
  narrow(wide, 4 * TILES, out);
}

// How many keys ahead a row is asked for.
static const i64 COMBINE_AHEAD = 16;

// A bag's keys, first to last - 1, and where their rows are. Rows of keys before asked_end are asked for ahead of
// their use, those of the next bags too, for a bag is shorter than the memory's answer takes.
template <class In>
struct Bag {
  const In* source;
  i64 dim;
  const i32* rows;
  const i32* inverse;
  i64 first, last, asked_end;
  i32 mean;
};

// TILES * 4 columns of one bag from `column` on, summed in key order.
template <int TILES, class In, class Out>
SOK_DEVICE void combine_tiles(const Bag<In>& bag, i64 column, Out* out) {
  Tile sums[TILES] = {};
  for (i64 k = bag.first; k < bag.last; ++k) {
    if (column == 0 && k + COMBINE_AHEAD < bag.asked_end) {
      prefetch_row(bag.source + row_of_key(bag.rows, bag.inverse, k + COMBINE_AHEAD) * bag.dim, bag.dim);
    }
    const i32 row = row_of_key(bag.rows, bag.inverse, k);
    if (row < 0) continue;
    add_tiles<TILES>(sums, bag.source + row * bag.dim + column);
  }
  if (bag.mean && bag.last > bag.first) {
    const float count = (float)(bag.last - bag.first);
    for (int t = 0; t < TILES; ++t) sums[t] = sums[t] / count;
  }
  store_tiles<TILES>(out + column, sums);
}

template <class In, class Out>
SOK_DEVICE void combine_column(const Bag<In>& bag, i64 column, Out* out) {
  float sum = 0.0f;
  for (i64 k = bag.first; k < bag.last; ++k) {
    const i32 row = row_of_key(bag.rows, bag.inverse, k);
    if (row >= 0) sum = sum + load(bag.source + row * bag.dim + column);
  }
  store(out + column, bag.mean && bag.last > bag.first ? sum / (float)(bag.last - bag.first) : sum);
}

template <class In, class Out>
SOK_DEVICE void combine_bags(const In* SOK_RESTRICT source, i64 dim, const i32* SOK_RESTRICT rows,
                             const i32* SOK_RESTRICT inverse, const i64* SOK_RESTRICT offsets, i64 n_bags, i32 mean,
                             Out* SOK_RESTRICT out) {
  if (n_bags <= 0) return;
  SOK_OUTPUT(out, n_bags * dim * (i64)sizeof *out);
  SOK_PARALLEL_CHUNKS(begin, end, n_bags, (offsets[n_bags] / n_bags + 1) * dim * 4) {
    for (i64 b = begin; b < end; ++b) {
      const Bag<In> bag = {source, dim, rows, inverse, offsets[b], offsets[b + 1], offsets[end], mean};
      Out* values = out + b * dim;
      i64 c = 0;
      for (; c + 32 <= dim; c += 32) combine_tiles<8>(bag, c, values);
      if (c + 16 <= dim) {
        combine_tiles<4>(bag, c, values);
        c += 16;
      }
      if (c + 8 <= dim) {
        combine_tiles<2>(bag, c, values);
        c += 8;
      }
      if (c + 4 <= dim) {
        combine_tiles<1>(bag, c, values);
        c += 4;
      }
      for (; c < dim; ++c) combine_column(bag, c, values);
    }
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
