// Sums of rows by segment number, in index order on the host; the GPU's form is segment_sum_gpu.cuh.
#ifdef __CUDACC__
#include "segment_sum_gpu.cuh"
#else
// A thread walks all sources in order and sums those of its own destinations (destinations.h).
#include "destinations.h"
#include "half.cuh"
#include "rows.cuh"

namespace {

// What rows.cuh has for floats, for doubles, and for 16-bit floats that are summed as 32-bit ones.
using ::add_row;
using ::start_row;

SOK_DEVICE void start_row(double* SOK_RESTRICT out, const double* SOK_RESTRICT in, float scale, i64 width) {
  for (i64 c = 0; c < width; ++c) out[c] = 0.0 + scale * in[c];
}

SOK_DEVICE void add_row(double* SOK_RESTRICT out, const double* SOK_RESTRICT in, float scale, i64 width) {
  for (i64 c = 0; c < width; ++c) out[c] += scale * in[c];
}

// Many are widened at a time.
template <class Add>
SOK_DEVICE void for_widened(const unsigned short* in, i64 width, const Add& add) {
  const i64 MOST = 64;
  float wide[MOST];
  for (i64 c = 0; c < width; c += MOST) {
    const i64 n = std::min(MOST, width - c);
    widen(in + c, n, wide);
    add(c, wide, n);
  }
}

SOK_DEVICE void start_row(float* SOK_RESTRICT out, const unsigned short* SOK_RESTRICT in, float scale, i64 width) {
  for_widened(in, width, [=](i64 c, const float* wide, i64 n) { start_row(out + c, wide, scale, n); });
}

SOK_DEVICE void add_row(float* SOK_RESTRICT out, const unsigned short* SOK_RESTRICT in, float scale, i64 width) {
  for_widened(in, width, [=](i64 c, const float* wide, i64 n) { add_row(out + c, wide, scale, n); });
}

// As for a row of floats of as many bytes.
template <class T>
SOK_DEVICE void prefetch_values(const T* row, i64 width) {
  prefetch_row((const float*)row, width * sizeof(T) / 4);
}

// The sums of rows begin to end - 1. Source s is values[s] times scale_of(s); sources are offered in order.
template <class T, class Sum, class ScaleOf>
class Sums {
 public:
  Sums(Sum* out, const T* values, i64 dim, i64 begin, i64 end, const ScaleOf& scale_of)
      : out_(out), values_(values), dim_(dim), begin_(begin), end_(end), scale_of_(scale_of), fresh_(begin) {}

  // Takes a source if its row is in range. There is no branch on that, for it would often be mispredicted.
  void offer(i32 id, i64 source) {
    ids_[count_] = id;
    sources_[count_] = source;
    count_ += id >= begin_ && id < end_;
    if (count_ == WAITING) add_waiting();
  }
  void finish() {
    add_waiting();
    clear_to(end_);
  }

 private:
  static const i64 WAITING = 256, AHEAD = 16;

  void add_waiting() {
    for (i64 w = 0; w < count_; ++w) {
      if (w + AHEAD < count_) {
        // The sources of one thread have gaps, which the hardware does not foresee.
        prefetch_values(values_ + sources_[w + AHEAD] * dim_, dim_);
        if (ids_[w + AHEAD] < fresh_) prefetch_values(out_ + ids_[w + AHEAD] * dim_, dim_);
      }
      add(ids_[w], values_ + sources_[w] * dim_, scale_of_(sources_[w]));
    }
    count_ = 0;
  }
  // Rows below fresh_ hold a sum; the first term of a row at or above it is stored, not added, so that out need
  // not be cleared first: segment numbers from `unique` appear in order, and then no row is ever cleared.
  void add(i64 id, const T* values, float scale) {
    if (id < fresh_) {
      add_row(out_ + id * dim_, values, scale, dim_);
    } else {
      clear_to(id);
      start_row(out_ + id * dim_, values, scale, dim_);
      ++fresh_;
    }
  }
  void clear_to(i64 id) {
    for (; fresh_ < id; ++fresh_) std::fill_n(out_ + fresh_ * dim_, dim_, (Sum)0);
  }

  Sum* const out_;
  const T* const values_;
  const i64 dim_, begin_, end_;
  const ScaleOf scale_of_;
  i64 fresh_, count_ = 0;
  i64 sources_[WAITING];
  i32 ids_[WAITING];
};

// Sums over threads; offer_all(sums) offers all sources, whose ids are ids [n].
template <class T, class Sum, class ScaleOf, class OfferAll>
void sum_segments(const T* values, i64 dim, const i32* ids, i64 n, i64 num_segments, Sum* out,
                  const ScaleOf& scale_of, const OfferAll& offer_all) {
  const i64 bytes = (n * sizeof(T) + num_segments * sizeof(Sum)) * dim;
  SOK_OUTPUT(out, num_segments * dim * sizeof(Sum));
  sok1x::for_destinations(ids, n, num_segments, num_segments, bytes, [=](i64 begin, i64 end) {
    Sums<T, Sum, ScaleOf> sums(out, values, dim, begin, end, scale_of);
    offer_all(sums);
    sums.finish();
  });
}

struct One {
  float operator()(i64) const { return 1.0f; }
};

struct OneOverKeys {
  const i64* offsets;
  float operator()(i64 bag) const { return 1.0f / (float)(offsets[bag + 1] - offsets[bag]); }
};

struct OfferBags {
  const i64* offsets;
  const i32* inverse;
  i64 n_bags;
  template <class AnySums>
  void operator()(AnySums& sums) const {
    for (i64 bag = 0; bag < n_bags; ++bag) {
      for (i64 k = offsets[bag]; k < offsets[bag + 1]; ++k) sums.offer(inverse[k], bag);
    }
  }
};

struct OfferRows {
  const i32* ids;
  i64 n;
  template <class AnySums>
  void operator()(AnySums& sums) const {
    for (i64 i = 0; i < n; ++i) sums.offer(ids[i], i);
  }
};

template <class T>
void sum_bags(const T* grad, i64 dim, const i64* offsets, const i32* inverse, i64 n_bags, i32 mean, i64 num_segments,
              float* out) {
  const i64 n = offsets[n_bags];
  const OfferBags offer_all = {offsets, inverse, n_bags};
  if (mean) {
    sum_segments(grad, dim, inverse, n, num_segments, out, OneOverKeys{offsets}, offer_all);
  } else {
    sum_segments(grad, dim, inverse, n, num_segments, out, One(), offer_all);
  }
}

}  // namespace

SOK_EXPORT void sok1x_segment_sum(const float* values, i64 dim, const i32* segment_ids, i64 n, i64 num_segments,
                                  float* out) {
  sum_segments(values, dim, segment_ids, n, num_segments, out, One(), OfferRows{segment_ids, n});
}

SOK_EXPORT void sok1x_segment_sum_double(const double* values, i64 dim, const i32* segment_ids, i64 n,
                                         i64 num_segments, double* out) {
  sum_segments(values, dim, segment_ids, n, num_segments, out, One(), OfferRows{segment_ids, n});
}

SOK_EXPORT void sok1x_segment_sum_half(const unsigned short* values, i64 dim, const i32* segment_ids, i64 n,
                                       i64 num_segments, float* out) {
  sum_segments(values, dim, segment_ids, n, num_segments, out, One(), OfferRows{segment_ids, n});
}

SOK_EXPORT void sok1x_bag_segment_sum(const float* grad, i64 dim, const i64* offsets, const i32* inverse,
                                      i64 n_bags, i32 mean, i64 num_segments, float* out) {
  sum_bags(grad, dim, offsets, inverse, n_bags, mean, num_segments, out);
}

SOK_EXPORT void sok1x_bag_segment_sum_half(const unsigned short* grad, i64 dim, const i64* offsets, const i32* inverse,
                                           i64 n_bags, i32 mean, i64 num_segments, float* out) {
  sum_bags(grad, dim, offsets, inverse, n_bags, mean, num_segments, out);
}
#endif
