// Sums of bags of rows in key order, by one thread of the host; for one table and for a group of them.
#ifndef SOK1X_COMBINE_HOST_H
#define SOK1X_COMBINE_HOST_H
#include "bag_divisor.cuh"
#include "bags.cuh"
#include "half_rows.cuh"

#ifndef __CUDACC__

// Floats of a row that are summed in registers at a time.
typedef float Tile __attribute__((vector_size(16)));
// What each key's row is multiplied with: nothing, or its weight.
struct NoWeights {
  template <class T>
  T operator()(i64, const T& value) const {
    return value;
  }
};
struct Weights {
  const float* weights;
  template <class T>
  T operator()(i64 k, const T& value) const {
    return weights[k] * value;
  }
};

template <int TILES, class W>
SOK_DEVICE void add_tiles(Tile* sums, const float* values, const W& times, i64 k) {
  for (int t = 0; t < TILES; ++t) {
    Tile tile;
    memcpy(&tile, values + 4 * t, sizeof tile);
    sums[t] = sums[t] + times(k, tile);
  }
}
template <int TILES, class W>
SOK_DEVICE void add_tiles(Tile* sums, const u16* values, const W& times, i64 k) {
  float wide[4 * TILES];
  widen(values, 4 * TILES, wide);
  add_tiles<TILES>(sums, wide, times, k);
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

// A bag's keys, first to last - 1, and their rows, to which row_at(row) points. Rows of keys before asked_end are asked
// for ahead of their use, those of the next bags too, for a bag is shorter than the memory's answer takes.
template <class RowAt, class W>
struct Bag {
  RowAt row_at;
  i64 dim;
  const i32* rows;
  const i32* inverse;
  i64 first, last, asked_end;
  bool divided;
  float divisor;
  W times;
};

// TILES * 4 columns of one bag from `column` on, summed in key order.
template <int TILES, class RowAt, class W, class Out>
SOK_DEVICE void combine_tiles(const Bag<RowAt, W>& bag, i64 column, Out* out) {
  Tile sums[TILES] = {};
  for (i64 k = bag.first; k < bag.last; ++k) {
    if (column == 0 && k + COMBINE_AHEAD < bag.asked_end) {
      prefetch_row(bag.row_at(row_of_key(bag.rows, bag.inverse, k + COMBINE_AHEAD)), bag.dim);
    }
    const i32 row = row_of_key(bag.rows, bag.inverse, k);
    if (row < 0) continue;
    add_tiles<TILES>(sums, bag.row_at(row) + column, bag.times, k);
  }
  if (bag.divided) {
    for (int t = 0; t < TILES; ++t) sums[t] = sums[t] / bag.divisor;
  }
  store_tiles<TILES>(out + column, sums);
}

template <class RowAt, class W, class Out>
SOK_DEVICE void combine_column(const Bag<RowAt, W>& bag, i64 column, Out* out) {
  float sum = 0.0f;
  for (i64 k = bag.first; k < bag.last; ++k) {
    const i32 row = row_of_key(bag.rows, bag.inverse, k);
    if (row >= 0) sum = sum + bag.times(k, load(bag.row_at(row) + column));
  }
  store(out + column, bag.divided ? sum / bag.divisor : sum);
}

// A bag of one key whose row is of the sums' type: most bags are, where samples have one id.
template <class RowAt>
SOK_DEVICE bool combine_one(const Bag<RowAt, NoWeights>& bag, float* out) {
  const i64 k = bag.first;
  if (k + COMBINE_AHEAD < bag.asked_end) {
    prefetch_row(bag.row_at(row_of_key(bag.rows, bag.inverse, k + COMBINE_AHEAD)), bag.dim);
  }
  const i32 row = row_of_key(bag.rows, bag.inverse, k);
  if (row < 0) return false;
  start_row(out, bag.row_at(row), 1.0f, bag.dim);
  return true;
}
template <class RowAt, class W, class Out>
SOK_DEVICE bool combine_one(const Bag<RowAt, W>&, Out*) {
  return false;
}

template <class RowAt, class W, class Out>
SOK_DEVICE void combine_bag(const Bag<RowAt, W>& bag, Out* values) {
  const i64 dim = bag.dim;
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

// The bags begin to end - 1; the first one's sum goes to `out`. Rows of keys before asked_end are known. weights,
// scales: as CombineMember has them.
template <class RowAt, class Out>
SOK_DEVICE void combine_run(const RowAt& row_at, i64 dim, const i32* rows, const i32* inverse, const i64* offsets,
                            i64 begin, i64 end, i32 mean, Out* out, i64 asked_end, const float* weights = nullptr,
                            float* scales = nullptr) {
  for (i64 b = begin; b < end; ++b) {
    const i64 first = offsets[b], last = offsets[b + 1];
    const bool divided = mean && last > first;
    Out* const values = out + (b - begin) * dim;
    if (!weights) {
      const Bag<RowAt, NoWeights> bag = {row_at, dim, rows, inverse, first, last, asked_end, divided,
                                         (float)(last - first), NoWeights()};
      if (last - first != 1 || !combine_one(bag, values)) combine_bag(bag, values);
      continue;
    }
    float parts = 0.0f;
    for (i64 k = first; k < last; ++k) parts += part_of_divisor(mean, weights[k]);
    const float divisor = divisor_of(mean, parts);
    const bool nothing = is_nothing(mean, divisor);  // as of no keys
    combine_bag(Bag<RowAt, Weights>{row_at, dim, rows, inverse, first, nothing ? first : last, asked_end,
                                    divided && !nothing, divisor, Weights{weights}}, values);
    for (i64 k = first; scales && k < last; ++k) scales[k] = nothing ? 0.0f : weights[k] / divisor;
  }
}

#endif  // __CUDACC__

#endif  // SOK1X_COMBINE_HOST_H
