// Sums of rows by segment number, in index order.
#ifndef __CUDACC__
// Host form only: a thread walks all sources in order and sums those of its own destinations (destinations.h). On a
// GPU the natural form is another: a warp for each segment over sources sorted by segment.
#include "destinations.h"
#include "rows.cuh"

namespace {

const i64 AHEAD = 8;

// The sums of rows begin to end - 1. Rows below `fresh` hold a sum; the first term of a row at or above it is stored,
// not added, so that out need not be cleared first: segment numbers from `unique` appear in order, and then
// no row is ever cleared.
struct Sums {
  float* out;
  i64 dim, begin, end, fresh;

  Sums(float* out, i64 dim, i64 begin, i64 end) : out(out), dim(dim), begin(begin), end(end), fresh(begin) {}
  bool has(i32 id) const { return id >= begin && id < end; }
  void prefetch(i32 id) const {
    if (id >= begin && id < fresh) prefetch_row(out + id * dim, dim);
  }
  void clear_to(i64 id) {
    for (; fresh < id; ++fresh) zero_row(out + fresh * dim, dim);
  }
  void add(i32 id, const float* values, float scale) {
    if (id < fresh) {
      add_row(out + id * dim, values, scale, dim);
    } else {
      clear_to(id);
      start_row(out + id * dim, values, scale, dim);
      ++fresh;
    }
  }
};

}  // namespace

SOK_EXPORT void sok1x_segment_sum(const float* values, i64 dim, const i32* segment_ids, i64 n, i64 num_segments,
                                  float* out) {
  const i64 bytes = (n + num_segments) * dim * 4;
  SOK_OUTPUT(out, num_segments * dim * 4);
  sok1x::for_destinations(segment_ids, n, num_segments, num_segments, bytes, [=](i64 begin, i64 end) {
    Sums sums(out, dim, begin, end);
    for (i64 i = 0; i < n; ++i) {
      if (i + AHEAD < n) sums.prefetch(segment_ids[i + AHEAD]);
      if (sums.has(segment_ids[i])) sums.add(segment_ids[i], values + i * dim, 1.0f);
    }
    sums.clear_to(end);
  });
}

SOK_EXPORT void sok1x_bag_segment_sum(const float* grad, i64 dim, const i64* offsets, const i32* inverse,
                                      i64 n_bags, i32 mean, i64 num_segments, float* out) {
  const i64 n = offsets[n_bags];
  const i64 bytes = (n + num_segments) * dim * 4;
  SOK_OUTPUT(out, num_segments * dim * 4);
  sok1x::for_destinations(inverse, n, num_segments, num_segments, bytes, [=](i64 begin, i64 end) {
    Sums sums(out, dim, begin, end);
    for (i64 bag = 0; bag < n_bags; ++bag) {
      const float scale = mean ? 1.0f / (offsets[bag + 1] - offsets[bag]) : 1.0f;
      for (i64 k = offsets[bag]; k < offsets[bag + 1]; ++k) {
        if (k + AHEAD < n) sums.prefetch(inverse[k + AHEAD]);
        if (sums.has(inverse[k])) sums.add(inverse[k], grad + bag * dim, scale);
      }
    }
    sums.clear_to(end);
  });
}
#endif
