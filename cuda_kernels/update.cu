// Rows of a table moved against their gradients.
#include "rows.cuh"

// table[rows[i]] -= rate * values[i]; rows are distinct, so any thread may take any of them.
SOK_KERNEL sok1x_descend(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows, i64 n, float rate,
                         float* SOK_RESTRICT table) {
  const i64 ahead = 16;
  SOK_PARALLEL_CHUNKS(begin, end, n, dim * 12) {
    for (i64 i = begin; i < end; ++i) {
      if (i + ahead < end) prefetch_row(table + rows[i + ahead] * dim, dim);
      float* SOK_RESTRICT row = table + rows[i] * dim;
      const float* SOK_RESTRICT value = values + i * dim;
#define SOK_DESCEND(w) for (i64 c = 0; c < (w); ++c) row[c] -= rate * value[c]
      SOK_FOR_WIDTH(dim, SOK_DESCEND)
#undef SOK_DESCEND
    }
  };
}
