// Loops over the D floats of a row: copy, clear, add, prefetch. Common widths are compile-time constants, so that
// they become straight vector code. On CUDA a team of threads serves a row, 16 bytes a thread at a time.
#ifndef SOK1X_ROWS_CUH
#define SOK1X_ROWS_CUH
#include "common.cuh"

#ifdef __CUDACC__

// The threads that serve one row together: as many as it has groups of four floats, rounded up to a power of two, a
// warp at most; as in backend.py. Rows go round: first, first + stride, ...
struct Team {
  i32 lanes, lane;
  i64 first, stride;
};

SOK_DEVICE Team make_team(i64 dim) {
  i32 lanes = 1;
  while (lanes < 32 && lanes * 4 < dim) lanes *= 2;
  const i64 thread = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  Team team = {lanes, (i32)(threadIdx.x & (lanes - 1)), thread / lanes, (i64)gridDim.x * blockDim.x / lanes};
  return team;
}

// W floats that travel as one access. A row of dim floats is aligned to W of them if W divides dim.
template <int W>
struct __align__(4 * W) Vec {
  float lane[W];
};

template <int W>
SOK_DEVICE Vec<W> load_vec(const float* p) {
  return *(const Vec<W>*)p;
}
template <int W>
SOK_DEVICE void store_vec(float* p, const Vec<W>& v) {
  *(Vec<W>*)p = v;
}
template <int W>
SOK_DEVICE Vec<W> zero_vec() {
  Vec<W> v;
  for (int w = 0; w < W; ++w) v.lane[w] = 0.0f;
  return v;
}

// Every column c of a row that this thread serves, W floats from c on.
#define SOK_TEAM_COLUMNS(W, team, dim, c) for (i64 c = (team).lane * W; c < (dim); c += (team).lanes * W)

// Calls a function template with the widest access that rows of dim floats allow.
#define SOK_BY_ALIGNMENT(dim, function, ...) \
  if ((dim) % 4 == 0) {                      \
    function<4>(__VA_ARGS__);                \
  } else if ((dim) % 2 == 0) {               \
    function<2>(__VA_ARGS__);                \
  } else {                                   \
    function<1>(__VA_ARGS__);                \
  }

#endif  // __CUDACC__

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

#ifndef __CUDACC__
namespace sok1x {

// Rows that follow one another.
template <class T>
struct RowsOf {
  T* base;
  i64 dim;
  T* operator()(i64 row) const { return base + row * dim; }
};

}  // namespace sok1x
#endif  // __CUDACC__

#endif  // SOK1X_ROWS_CUH
