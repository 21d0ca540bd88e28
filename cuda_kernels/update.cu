// Rows of a table moved against their gradients.
#include "descend_rows.cuh"

// table[rows[i]] -= *rate_at * values[i]; rows are distinct, so any thread may take any of them. Those outside the
// table are left out: who hands them over has to have said so.
SOK_KERNEL sok1x_descend(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows, i64 n,
                         const float* rate_at, i64 table_rows, float* SOK_RESTRICT table) {
  const float rate = *rate_at;
#ifdef __CUDACC__
  SOK_BY_ALIGNMENT(dim, descend_rows, make_team(dim), values, dim, rows, n, rate, table_rows, table);
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, dim * 12) {
    descend_chunk(values, dim, rows, begin, end, rate, table_rows, table);
  };
#endif
}
