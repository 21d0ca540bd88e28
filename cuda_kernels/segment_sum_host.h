// Sums of the rows of one range of segments, by one thread of the host, in index order.
#ifndef SOK1X_SEGMENT_SUM_HOST_H
#define SOK1X_SEGMENT_SUM_HOST_H
#include "half.cuh"
#include "rows.cuh"

namespace sok1x {

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

// In place of a `scale_of`: each source is offered with its scale.
struct Given {};

// Offers the terms of rows begin to end - 1 to a `sink`, in order: source s is what values(s) points to times
// scale_of(s). A sink has prefetch(id), add(id, values, scale), and finish(), which comes last.
template <class Sink, class Values, class ScaleOf>
class Terms {
 public:
  Terms(Sink* sink, const Values& values, i64 dim, i64 begin, i64 end, const ScaleOf& scale_of)
      : sink_(sink), values_(values), dim_(dim), begin_(begin), end_(end), scale_of_(scale_of) {}

  // Takes a source if its row is in range. There is no branch on that, for it would often be mispredicted.
  void offer(i32 id, i64 source) {
    ids_[count_] = id;
    sources_[count_] = source;
    count_ += id >= begin_ && id < end_;
    if (count_ == WAITING) add_waiting();
  }
  void offer(i32 id, i64 source, float scale) {
    scales_[count_] = scale;
    offer(id, source);
  }
  void finish() {
    add_waiting();
    sink_->finish();
  }

 private:
  static const i64 WAITING = 256, AHEAD = 16;

  void add_waiting() {
    for (i64 w = 0; w < count_; ++w) {
      if (w + AHEAD < count_) {
        // The sources of one thread have gaps, which the hardware does not foresee.
        prefetch_values(values_(sources_[w + AHEAD]), dim_);
        sink_->prefetch(ids_[w + AHEAD]);
      }
      sink_->add(ids_[w], values_(sources_[w]), scale_at(scale_of_, w));
    }
    count_ = 0;
  }
  float scale_at(const Given&, i64 w) const { return scales_[w]; }
  template <class S>
  float scale_at(const S& scale_of, i64 w) const {
    return scale_of(sources_[w]);
  }

  Sink* const sink_;
  const Values values_;
  const i64 dim_, begin_, end_;
  const ScaleOf scale_of_;
  i64 count_ = 0;
  i64 sources_[WAITING];
  float scales_[WAITING];  // of `Given`
  i32 ids_[WAITING];
};

// Sums of rows begin to end - 1, which are where out(row) says.
template <class Out>
class Sums {
 public:
  Sums(const Out& out, i64 dim, i64 begin, i64 end) : out_(out), dim_(dim), end_(end), fresh_(begin) {}

  void prefetch(i64 id) const {
    if (id < fresh_) prefetch_values(out_(id), dim_);
  }
  // Rows below fresh_ hold a sum; the first term of a row at or above it is stored, not added, so that out need
  // not be cleared first: segment numbers from `unique` appear in order, and then no row is ever cleared.
  template <class T>
  void add(i64 id, const T* values, float scale) {
    if (id < fresh_) {
      add_row(out_(id), values, scale, dim_);
    } else {
      clear_to(id);
      start_row(out_(id), values, scale, dim_);
      ++fresh_;
    }
  }
  void finish() { clear_to(end_); }

 private:
  void clear_to(i64 id) {
    for (; fresh_ < id; ++fresh_) std::fill_n(out_(fresh_), dim_, 0.0f);
  }

  const Out out_;
  const i64 dim_, end_;
  i64 fresh_;
};

struct One {
  float operator()(i64) const { return 1.0f; }
};

// For the mean of a bag's rows.
struct OneOverKeys {
  const i64* offsets;
  float operator()(i64 bag) const { return 1.0f / (float)(offsets[bag + 1] - offsets[bag]); }
};

// Offers each bag as often as it has keys.
struct OfferBags {
  const i64* offsets;
  const i32* inverse;
  i64 n_bags;
  template <class AnyTerms>
  void operator()(AnyTerms& terms) const {
    for (i64 bag = 0; bag < n_bags; ++bag) {
      for (i64 k = offsets[bag]; k < offsets[bag + 1]; ++k) terms.offer(inverse[k], bag);
    }
  }
};

struct OfferScaledBags {
  const i64* offsets;
  const i32* inverse;
  i64 n_bags;
  const float* scales;  // of each key
  template <class AnyTerms>
  void operator()(AnyTerms& terms) const {
    for (i64 bag = 0; bag < n_bags; ++bag) {
      for (i64 k = offsets[bag]; k < offsets[bag + 1]; ++k) terms.offer(inverse[k], bag, scales[k]);
    }
  }
};

struct OfferRows {
  const i32* ids;
  i64 n;
  template <class AnyTerms>
  void operator()(AnyTerms& terms) const {
    for (i64 i = 0; i < n; ++i) terms.offer(ids[i], i);
  }
};

}  // namespace sok1x

#endif  // SOK1X_SEGMENT_SUM_HOST_H
