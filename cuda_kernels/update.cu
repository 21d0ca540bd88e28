// Rows of a table moved against their gradients.
#include "rows.cuh"

#ifdef __CUDACC__
template <int W>
SOK_DEVICE void descend_rows(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows, i64 n,
                             float rate, i64 table_rows, float* SOK_RESTRICT table) {
  const Team team = make_team(dim);
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
#endif

// table[rows[i]] -= *rate_at * values[i]; rows are distinct, so any thread may take any of them. Those outside the table
// are left out: who hands them over has to have said so.
SOK_KERNEL sok1x_descend(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows, i64 n,
                         const float* rate_at, i64 table_rows, float* SOK_RESTRICT table) {
  const float rate = *rate_at;
#ifdef __CUDACC__
  SOK_BY_ALIGNMENT(dim, descend_rows, values, dim, rows, n, rate, table_rows, table);
#else
  const i64 ahead = 16;
  SOK_PARALLEL_CHUNKS(begin, end, n, dim * 12) {
    for (i64 i = begin; i < end; ++i) {
      if (rows[i] < 0 || rows[i] >= table_rows) continue;
      if (i + ahead < end) prefetch_row(table + rows[i + ahead] * dim, dim);
      float* SOK_RESTRICT row = table + rows[i] * dim;
      const float* SOK_RESTRICT value = values + i * dim;
#define SOK_DESCEND(w) for (i64 c = 0; c < (w); ++c) row[c] -= rate * value[c]
      SOK_FOR_WIDTH(dim, SOK_DESCEND)
#undef SOK_DESCEND
    }
  };
#endif
}
