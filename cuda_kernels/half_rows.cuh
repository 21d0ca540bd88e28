// Rows of 16-bit floats beside those of rows.cuh: read into 32-bit floats, in which all arithmetic is done, and rounded
// once when they are written.
#ifndef SOK1X_HALF_ROWS_CUH
#define SOK1X_HALF_ROWS_CUH
#include "half.cuh"
#include "rows.cuh"

typedef unsigned short u16;

#ifdef __CUDACC__

// W halves that travel as one access. A row of dim halves is aligned to W of them if W divides dim.
template <int W>
struct __align__(2 * W) HalfVec {
  u16 lane[W];
};

template <int W>
SOK_DEVICE Vec<W> load_vec(const u16* p) {
  const HalfVec<W> halves = *(const HalfVec<W>*)p;
  Vec<W> v;
  for (int w = 0; w < W; ++w) v.lane[w] = half_to_float(halves.lane[w]);
  return v;
}
template <int W>
SOK_DEVICE void store_vec(u16* p, const Vec<W>& v) {
  HalfVec<W> halves;
  for (int w = 0; w < W; ++w) halves.lane[w] = float_to_half(v.lane[w]);
  *(HalfVec<W>*)p = halves;
}

#else

SOK_DEVICE void copy_row(u16* SOK_RESTRICT out, const float* SOK_RESTRICT in, i64 width) {
  narrow(in, width, out);
}

SOK_DEVICE void copy_row(float* SOK_RESTRICT out, const u16* SOK_RESTRICT in, i64 width) {
  widen(in, width, out);
}

SOK_DEVICE void copy_row(u16* SOK_RESTRICT out, const u16* SOK_RESTRICT in, i64 width) {
  memcpy(out, in, width * sizeof *in);
}

SOK_DEVICE void zero_row(u16* SOK_RESTRICT out, i64 width) { memset(out, 0, width * sizeof *out); }

SOK_DEVICE void prefetch_row(const u16* row, i64 width) {
  for (i64 c = 0; c < width && c < 256; c += 32) SOK_PREFETCH(row + c);
}

#endif  // __CUDACC__

SOK_DEVICE void store(float* p, float value) { *p = value; }
SOK_DEVICE void store(u16* p, float value) { *p = float_to_half(value); }
SOK_DEVICE float load(const float* p) { return *p; }
SOK_DEVICE float load(const u16* p) { return half_to_float(*p); }

#endif  // SOK1X_HALF_ROWS_CUH
