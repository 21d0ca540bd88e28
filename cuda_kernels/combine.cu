// Bags of rows: where each bag begins, and the sum or mean of its rows.
#include "rows.cuh"

// Offsets of sorted bags. Item i starts every bag after item i-1's up to its own; item n ends all the rest.
// faults[0] becomes the first item out of [0, n_bags), faults[1] the first that is below its predecessor; both
// must hold n before. With a fault, offsets are not to be used.
SOK_KERNEL sok1x_bag_offsets_kernel(const i64* SOK_RESTRICT bags, i64 stride, i64 n, i64 n_bags,
                                    i64* SOK_RESTRICT offsets, i64* SOK_RESTRICT faults) {
  SOK_PARALLEL_FOR(i, n + 1, stride * 8 + 16) {
    const i64 bag = i < n ? bags[i * stride] : n_bags;
    const i64 previous = i > 0 ? bags[(i - 1) * stride] : -1;
    if (i < n && (bag < 0 || bag >= n_bags)) {
      atomic_min(faults, i);
    } else if (previous > bag) {
      atomic_min(faults + 1, i);
    } else if (previous >= -1) {
      for (i64 b = previous + 1; b <= bag; ++b) offsets[b] = i;
    }
  };
}

// Floats of a row that are summed in registers at a time.
#ifdef __CUDACC__
struct Tile {
  float lanes[4];
};
SOK_DEVICE Tile load_tile(const float* p) {
  Tile t;
  for (int c = 0; c < 4; ++c) t.lanes[c] = p[c];
  return t;
}
SOK_DEVICE void store_tile(float* p, const Tile& t) {
  for (int c = 0; c < 4; ++c) p[c] = t.lanes[c];
}
SOK_DEVICE Tile operator+(const Tile& a, const Tile& b) {
  Tile t;
  for (int c = 0; c < 4; ++c) t.lanes[c] = a.lanes[c] + b.lanes[c];
  return t;
}
SOK_DEVICE Tile operator/(const Tile& a, float b) {
  Tile t;
  for (int c = 0; c < 4; ++c) t.lanes[c] = a.lanes[c] / b;
  return t;
}
#else
typedef float Tile __attribute__((vector_size(16)));
SOK_DEVICE Tile load_tile(const float* p) {
  Tile t;
  memcpy(&t, p, sizeof t);
  return t;
}
SOK_DEVICE void store_tile(float* p, const Tile& t) { memcpy(p, &t, sizeof t); }
#endif

// The row of key k: rows[inverse[k]], or inverse[k] where there are no rows; negative where it has none.
SOK_DEVICE i32 row_of_key(const i32* rows, const i32* inverse, i64 k) {
  const i32 unique = inverse[k];
  return rows && unique >= 0 ? rows[unique] : unique;
}

// How many keys ahead a row is asked for.
static const i64 COMBINE_AHEAD = 16;

// A bag's keys, first to last - 1, and where their rows are. Rows of keys before asked_end are asked for ahead of
// their use, those of the next bags too, for a bag is shorter than the memory's answer takes.
struct Bag {
  const float* source;
  i64 dim;
  const i32* rows;
  const i32* inverse;
  i64 first, last, asked_end;
  i32 mean;
};

// TILES * 4 columns of one bag from `column` on, summed in key order.
template <int TILES>
SOK_DEVICE void combine_tiles(const Bag& bag, i64 column, float* out) {
  Tile sums[TILES] = {};
  for (i64 k = bag.first; k < bag.last; ++k) {
    if (column == 0 && k + COMBINE_AHEAD < bag.asked_end) {
      prefetch_row(bag.source + row_of_key(bag.rows, bag.inverse, k + COMBINE_AHEAD) * bag.dim, bag.dim);
    }
    const i32 row = row_of_key(bag.rows, bag.inverse, k);
    if (row < 0) continue;
    const float* values = bag.source + row * bag.dim + column;
    for (int t = 0; t < TILES; ++t) sums[t] = sums[t] + load_tile(values + 4 * t);
  }
  if (bag.mean && bag.last > bag.first) {
    const float count = (float)(bag.last - bag.first);
    for (int t = 0; t < TILES; ++t) sums[t] = sums[t] / count;
  }
  for (int t = 0; t < TILES; ++t) store_tile(out + column + 4 * t, sums[t]);
}

SOK_DEVICE void combine_column(const Bag& bag, i64 column, float* out) {
  float sum = 0.0f;
  for (i64 k = bag.first; k < bag.last; ++k) {
    const i32 row = row_of_key(bag.rows, bag.inverse, k);
    if (row >= 0) sum = sum + bag.source[row * bag.dim + column];
  }
  out[column] = bag.mean && bag.last > bag.first ? sum / (float)(bag.last - bag.first) : sum;
}

SOK_KERNEL sok1x_combine(const float* SOK_RESTRICT source, i64 dim, const i32* SOK_RESTRICT rows,
                         const i32* SOK_RESTRICT inverse, const i64* SOK_RESTRICT offsets, i64 n_bags,
                         i32 mean, float* SOK_RESTRICT out) {
  if (n_bags <= 0) return;
  SOK_OUTPUT(out, n_bags * dim * 4);
  SOK_PARALLEL_CHUNKS(begin, end, n_bags, (offsets[n_bags] / n_bags + 1) * dim * 4) {
    for (i64 b = begin; b < end; ++b) {
      const Bag bag = {source, dim, rows, inverse, offsets[b], offsets[b + 1], offsets[end], mean};
      float* values = out + b * dim;
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

SOK_KERNEL sok1x_divide(const float* values, i64 dim, const i64* SOK_RESTRICT offsets, i64 n_bags, float* out) {
  SOK_OUTPUT(out, n_bags * dim * 4);
  SOK_PARALLEL_FOR(b, n_bags, dim * 8) {
    const i64 keys = offsets[b + 1] - offsets[b];
    const float count = (float)keys;
    for (i64 c = b * dim; c < (b + 1) * dim; ++c) out[c] = keys > 0 ? values[c] / count : 0.0f;
  };
}

#ifndef __CUDACC__
SOK_EXPORT i64 sok1x_bag_offsets(const i64* bags, i64 stride, i64 n, i64 n_bags, i64* offsets) {
  i64 faults[2] = {n, n};
  sok1x_bag_offsets_kernel(bags, stride, n, n_bags, offsets, faults);
  if (faults[0] < n) return 2 + faults[0];
  return faults[1] < n ? 1 : 0;
}

// A stable counting sort, on one thread: unsorted bags are rare. Host form only.
SOK_EXPORT void sok1x_sort_order(const i64* bags, i64 stride, i64 n, i64 n_bags, i64* offsets, i32* order) {
  for (i64 b = 0; b <= n_bags; ++b) offsets[b] = 0;
  for (i64 i = 0; i < n; ++i) ++offsets[bags[i * stride] + 1];
  for (i64 b = 0; b < n_bags; ++b) offsets[b + 1] += offsets[b];
  // Placing a bag's items moves its offset to the next bag's; afterwards all are moved back by one place.
  for (i64 i = 0; i < n; ++i) order[offsets[bags[i * stride]]++] = (i32)i;
  for (i64 b = n_bags; b > 0; --b) offsets[b] = offsets[b - 1];
  offsets[0] = 0;
}
#endif
