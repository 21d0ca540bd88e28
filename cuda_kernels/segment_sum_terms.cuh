// What the sums of rows by segment number share on a GPU, those of one table and those of a group.
#ifndef SOK1X_SEGMENT_SUM_TERMS_CUH
#define SOK1X_SEGMENT_SUM_TERMS_CUH
#include "half.cuh"
#include "rows.cuh"

#define SEGMENT_CHUNK 32  // as in segment_sum.py

// W numbers that travel as one access, or as two of doubles. What half precision is summed in: see `summand`.
template <class T, int W>
struct __align__(sizeof(T) * W) Pack {
  T lane[W];
};

SOK_DEVICE float summand(float value) { return value; }
SOK_DEVICE double summand(double value) { return value; }
SOK_DEVICE float summand(unsigned short value) { return half_to_float(value); }

// Stores a sum, or adds it to one that others add to as well.
template <class Sum, int W>
SOK_DEVICE void put_sum(Sum* out, const Pack<Sum, W>& sum, bool shared) {
  if (shared) {
    for (int w = 0; w < W; ++w) atomicAdd(out + w, sum.lane[w]);
  } else {
    *(Pack<Sum, W>*)out = sum;
  }
}

#endif  // SOK1X_SEGMENT_SUM_TERMS_CUH
