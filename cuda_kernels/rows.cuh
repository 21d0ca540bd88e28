// Loops over the D floats of a row: copy, clear, add, prefetch. Common widths are compile-time constants, so that
// they become straight vector code.
#ifndef SOK1X_ROWS_CUH
#define SOK1X_ROWS_CUH
#include "common.cuh"

// Calls `action(width)` with a constant where the width is a common one.
#define SOK_FOR_WIDTH(width, action) \
  switch (width) {                   \
    case 4: action(4); break;        \
    case 8: action(8); break;        \
    case 16: action(16); break;      \
    case 32: action(32); break;      \
    case 64: action(64); break;      \
    case 128: action(128); break;    \
    default: action(width);          \
  }

SOK_DEVICE void copy_row(float* SOK_RESTRICT out, const float* SOK_RESTRICT in, i64 width) {
#define SOK_COPY(w) for (i64 c = 0; c < (w); ++c) out[c] = in[c]
  SOK_FOR_WIDTH(width, SOK_COPY)
#undef SOK_COPY
}

SOK_DEVICE void zero_row(float* SOK_RESTRICT out, i64 width) {
  for (i64 c = 0; c < width; ++c) out[c] = 0.0f;
}

// The first term of a sum: 0 + x, which differs from x for x = -0. With it a sum has the same bits whether its
// row was cleared before or not.
SOK_DEVICE void start_row(float* SOK_RESTRICT out, const float* SOK_RESTRICT in, float scale, i64 width) {
#define SOK_START(w) for (i64 c = 0; c < (w); ++c) out[c] = 0.0f + scale * in[c]
  SOK_FOR_WIDTH(width, SOK_START)
#undef SOK_START
}

SOK_DEVICE void add_row(float* SOK_RESTRICT out, const float* SOK_RESTRICT in, float scale, i64 width) {
#define SOK_ADD(w) for (i64 c = 0; c < (w); ++c) out[c] += scale * in[c]
  SOK_FOR_WIDTH(width, SOK_ADD)
#undef SOK_ADD
}

// Asks for the first cache lines of a row; the hardware follows a longer one by itself.
SOK_DEVICE void prefetch_row(const float* row, i64 width) {
  for (i64 c = 0; c < width && c < 128; c += 16) SOK_PREFETCH(row + c);
}

#endif  // SOK1X_ROWS_CUH
