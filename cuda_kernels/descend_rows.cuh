// Rows moved against their gradients: row -= rate * gradient, the product rounded before the difference. Rows outside
// the table are left out.
#ifndef SOK1X_DESCEND_ROWS_CUH
#define SOK1X_DESCEND_ROWS_CUH
#include "rows.cuh"

#ifdef __CUDACC__

// Of n rows those that a team serves.
template <int W>
SOK_DEVICE void descend_rows(const Team& team, const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows,
                             i64 n, float rate, i64 table_rows, float* SOK_RESTRICT table) {
  for (i64 i = team.first; i < n; i += team.stride) {
    if (rows[i] < 0 || rows[i] >= table_rows) continue;
    float* row = table + rows[i] * dim;
    SOK_TEAM_COLUMNS(W, team, dim, c) {
      const Vec<W> value = load_vec<W>(values + i * dim + c);
      Vec<W> moved = load_vec<W>(row + c);
      for (int w = 0; w < W; ++w) moved.lane[w] -= rate * value.lane[w];
      store_vec<W>(row + c, moved);
    }
  }
}

#else

SOK_DEVICE void descend_row(const float* SOK_RESTRICT value, i64 dim, float rate, float* SOK_RESTRICT row) {
#define SOK_DESCEND(w) for (i64 c = 0; c < (w); ++c) row[c] -= rate * value[c]
  SOK_FOR_WIDTH(dim, SOK_DESCEND)
#undef SOK_DESCEND
}

static inline void descend_chunk(const float* values, i64 dim, const i32* rows, i64 begin, i64 end, float rate,
                                 i64 table_rows, float* table) {
  const i64 ahead = 16;
  for (i64 i = begin; i < end; ++i) {
    if (rows[i] < 0 || rows[i] >= table_rows) continue;
    if (i + ahead < end) prefetch_row(table + rows[i + ahead] * dim, dim);
    descend_row(values + i * dim, dim, rate, table + rows[i] * dim);
  }
}

#endif  // __CUDACC__

#endif  // SOK1X_DESCEND_ROWS_CUH
