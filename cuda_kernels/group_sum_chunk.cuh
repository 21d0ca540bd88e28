// Sums by segment of terms that are in the order of their segments, SEGMENT_CHUNK places at a time: group_sum.cu.
#ifndef SOK1X_GROUP_SUM_CHUNK_CUH
#define SOK1X_GROUP_SUM_CHUNK_CUH
#include "groups.cuh"
#include "segment_sum_terms.cuh"

// A row of values, and the row of sums that it is a term of.
struct __align__(16) Term {
  const char* value;
  float* sum;
};

// Instead of scales: all terms are taken as they are.
struct NoScales {
  __device__ __forceinline__ NoScales operator+(i64) const { return *this; }
  __device__ __forceinline__ float operator[](i64) const { return 1.0f; }
};

// The chunk of places `first` to first + SEGMENT_CHUNK - 1 of a member's ordered terms, of which there are `total`,
// summed by a team of `lanes` threads; see sum_chunks.
template <int W, class T, class Scales>
SOK_DEVICE void sum_chunk(i64 dim, const Term* SOK_RESTRICT ordered, const Scales& scales, i64 first, i64 total,
                          int lanes) {
  const int AHEAD = 8;
  const i64 end = min(total, first + SEGMENT_CHUNK);
  const float* const earlier = first > 0 ? ordered[first - 1].sum : nullptr;
  const float* const later = end < total ? ordered[end].sum : nullptr;
  for (i64 c = (warp_lane() & (lanes - 1)) * W; c < dim; c += lanes * W) {
    float* to = ordered[first].sum;
    Pack<float, W> sum = {};
#pragma unroll 1
    for (i64 p = first; p < end; p += AHEAD) {
      Pack<T, W> value[AHEAD];
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        if (p + a < end) value[a] = *(const Pack<T, W>*)((const T*)ordered[p + a].value + c);
      }
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        if (p + a >= end) break;
        float* const next = ordered[p + a].sum;  // read again: to keep it would cost registers
        if (next != to) {
          put_sum(to + c, sum, to == earlier);
          to = next;
          sum = {};
        }
        const float scale = scales[p + a];
        for (int w = 0; w < W; ++w) sum.lane[w] += scale * summand(value[a].lane[w]);
      }
    }
    put_sum(to + c, sum, to == earlier || to == later);
  }
}

#endif  // SOK1X_GROUP_SUM_CHUNK_CUH
