// Sums of rows by segment number, in index order on the host; the GPU's form is segment_sum_gpu.cuh.
#ifdef __CUDACC__
#include "segment_sum_gpu.cuh"
#else
// A thread walks all sources in order and sums those of its own destinations (destinations.h).
#include "destinations.h"
#include "segment_sum_host.h"

namespace {

using sok1x::OfferBags;
using sok1x::OfferRows;
using sok1x::One;
using sok1x::OneOverKeys;
using sok1x::RowsOf;

// Sums over threads; offer_all(terms) offers all sources, whose ids are ids [n].
template <class T, class Sum, class ScaleOf, class OfferAll>
void sum_segments(const T* values, i64 dim, const i32* ids, i64 n, i64 num_segments, Sum* out,
                  const ScaleOf& scale_of, const OfferAll& offer_all) {
  const i64 bytes = (n * sizeof(T) + num_segments * sizeof(Sum)) * dim;
  SOK_OUTPUT(out, num_segments * dim * sizeof(Sum));
  sok1x::for_destinations(ids, n, num_segments, num_segments, bytes, [=](i64 begin, i64 end) {
    typedef sok1x::Sums<RowsOf<Sum>> Sums;
    Sums sums({out, dim}, dim, begin, end);
    sok1x::Terms<Sums, RowsOf<const T>, ScaleOf> terms(&sums, {values, dim}, dim, begin, end, scale_of);
    offer_all(terms);
    terms.finish();
  });
}

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
