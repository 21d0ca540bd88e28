// Sums of rows by segment number, in index order.
#ifndef __CUDACC__
// Host form only: a thread walks all sources in order and sums those of its own destinations (destinations.h). On a
// GPU the natural form is another: a warp for each segment over sources sorted by segment.
#include "destinations.h"
#include "rows.cuh"

namespace {

const i64 AHEAD = 8;

// The destinations of one thread. Rows below `fresh` hold a sum; the first term of a row at or above it is
// stored, not added, so that out need not be cleared first: segment numbers from `unique` appear in order, and
// then no row is ever cleared.
struct Sums {
  float* out;
  i64 dim, column, width, begin, end, fresh;

  Sums(float* out, i64 dim, i64 num_segments, const sok1x::Destinations& mine)
      : out(out), dim(dim), column(mine.column), width(mine.width) {
    begin = fresh = num_segments * mine.share / mine.shares;
    end = num_segments * (mine.share + 1) / mine.shares;
  }
  bool has(i32 id) const { return id >= begin && id < end; }
  float* row(i64 id) const { return out + id * dim + column; }
  void prefetch(i32 id) const {
    if (id < fresh) prefetch_row(row(id), width);
  }
  void clear_to(i64 id) {
    for (; fresh < id; ++fresh) zero_row(row(fresh), width);
  }
  void add(i32 id, const float* values, float scale) {
    if (id < fresh) {
      add_row(row(id), values, scale, width);
    } else {
      clear_to(id);
      start_row(row(id), values, scale, width);
      ++fresh;
    }
  }
};

}  // namespace

SOK_EXPORT void sok1x_segment_sum(const float* values, i64 dim, const i32* segment_ids, i64 n, i64 num_segments,
                                  float* out) {
  sok1x::for_destinations(dim, (n + num_segments) * dim * 4, [=](const sok1x::Destinations& mine) {
    Sums sums(out, dim, num_segments, mine);
    for (i64 i = 0; i < n; ++i) {
      if (i + AHEAD < n) sums.prefetch(segment_ids[i + AHEAD]);
      if (sums.has(segment_ids[i])) sums.add(segment_ids[i], values + i * dim + mine.column, 1.0f);
    }
    sums.clear_to(sums.end);
  });
}

SOK_EXPORT void sok1x_bag_segment_sum(const float* grad, i64 dim, const i64* offsets, const i32* inverse,
                                      i64 n_bags, i32 mean, i64 num_segments, float* out) {
  const i64 n = offsets[n_bags];
  sok1x::for_destinations(dim, (n + num_segments) * dim * 4, [=](const sok1x::Destinations& mine) {
    Sums sums(out, dim, num_segments, mine);
    for (i64 bag = 0; bag < n_bags; ++bag) {
      const float scale = mean ? 1.0f / (offsets[bag + 1] - offsets[bag]) : 1.0f;
      const float* values = grad + bag * dim + mine.column;
      for (i64 k = offsets[bag]; k < offsets[bag + 1]; ++k) {
        if (k + AHEAD < n) sums.prefetch(inverse[k + AHEAD]);
        if (sums.has(inverse[k])) sums.add(inverse[k], values, scale);
      }
    }
    sums.clear_to(sums.end);
  });
}
#endif
