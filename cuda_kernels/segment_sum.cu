// Sums of rows by segment number, in index order.
#ifndef __CUDACC__
// Host form only: a thread walks all sources in order and sums those of its own destinations (destinations.h). On a
// GPU the natural form is another: a warp for each segment over sources sorted by segment.
#include "destinations.h"
#include "rows.cuh"

namespace {

// The sums of rows begin to end - 1, from sources offered in order.
class Sums {
 public:
  Sums(float* out, i64 dim, i64 begin, i64 end) : out_(out), dim_(dim), begin_(begin), end_(end), fresh_(begin) {}

  // Takes a source if its row is in range. There is no branch on that, for it would often be mispredicted.
  void offer(i32 id, const float* values, float scale) {
    waiting_[count_].id = id;
    waiting_[count_].values = values;
    waiting_[count_].scale = scale;
    count_ += id >= begin_ && id < end_;
    if (count_ == BUFFER) add_waiting();
  }
  void finish() {
    add_waiting();
    clear_to(end_);
  }

 private:
  static const i64 BUFFER = 256, AHEAD = 16;
  struct Source {
    const float* values;
    i32 id;
    float scale;
  };

  void add_waiting() {
    for (i64 s = 0; s < count_; ++s) {
      if (s + AHEAD < count_) {
        const Source& ahead = waiting_[s + AHEAD];
        prefetch_row(ahead.values, dim_);  // one thread's sources have gaps, which the hardware cannot foresee
        if (ahead.id < fresh_) prefetch_row(out_ + ahead.id * dim_, dim_);
      }
      add(waiting_[s].id, waiting_[s].values, waiting_[s].scale);
    }
    count_ = 0;
  }
  // Rows below fresh_ hold a sum; the first term of a row at or above it is stored, not added, so that out need
  // not be cleared first: segment numbers from `unique` appear in order, and then no row is ever cleared.
  void add(i64 id, const float* values, float scale) {
    if (id < fresh_) {
      add_row(out_ + id * dim_, values, scale, dim_);
    } else {
      clear_to(id);
      start_row(out_ + id * dim_, values, scale, dim_);
      ++fresh_;
    }
  }
  void clear_to(i64 id) {
    for (; fresh_ < id; ++fresh_) zero_row(out_ + fresh_ * dim_, dim_);
  }

  float* const out_;
  const i64 dim_, begin_, end_;
  i64 fresh_, count_ = 0;
  Source waiting_[BUFFER];
};

}  // namespace

SOK_EXPORT void sok1x_segment_sum(const float* values, i64 dim, const i32* segment_ids, i64 n, i64 num_segments,
                                  float* out) {
  const i64 bytes = (n + num_segments) * dim * 4;
  SOK_OUTPUT(out, num_segments * dim * 4);
  sok1x::for_destinations(segment_ids, n, num_segments, num_segments, bytes, [=](i64 begin, i64 end) {
    Sums sums(out, dim, begin, end);
    for (i64 i = 0; i < n; ++i) sums.offer(segment_ids[i], values + i * dim, 1.0f);
    sums.finish();
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
      const float scale = mean ? 1.0f / (float)(offsets[bag + 1] - offsets[bag]) : 1.0f;
      for (i64 k = offsets[bag]; k < offsets[bag + 1]; ++k) sums.offer(inverse[k], grad + bag * dim, scale);
    }
    sums.finish();
  });
}
#endif
