// Dense tensors on their way through an all-reduce: copied side by side into one buffer and back, scaled, and 16-bit
// floats widened to 32 bits, in which they are summed.
#include "half.cuh"

#ifndef __CUDACC__
// Host form only: a GPU has its copy engines.
SOK_KERNEL sok1x_copy_bytes(const char* SOK_RESTRICT from, i64 n, char* SOK_RESTRICT to) {
  SOK_PARALLEL_CHUNKS(begin, end, n, 2) { memcpy(to + begin, from + begin, end - begin); };
}
#endif

SOK_KERNEL sok1x_widen_half(const unsigned short* SOK_RESTRICT from, i64 n, float* SOK_RESTRICT to) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 6) { to[i] = half_to_float(from[i]); };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 6) { widen(from + begin, end - begin, to + begin); };
#endif
}

SOK_KERNEL sok1x_narrow_half(const float* SOK_RESTRICT from, i64 n, unsigned short* SOK_RESTRICT to) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 6) { to[i] = float_to_half(from[i]); };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 6) { narrow(from + begin, end - begin, to + begin); };
#endif
}

SOK_KERNEL sok1x_divide_float(float* values, i64 n, float by) {
  SOK_PARALLEL_FOR(i, n, 8) { values[i] /= by; };
}

SOK_KERNEL sok1x_divide_double(double* values, i64 n, double by) {
  SOK_PARALLEL_FOR(i, n, 16) { values[i] /= by; };
}
