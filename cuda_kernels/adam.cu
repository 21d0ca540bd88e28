// Adam's step for rows of a table, those that have a gradient or all: adam_rows.cuh.
#include "adam_rows.cuh"

#ifdef __CUDACC__

template <int W>
SOK_DEVICE void whole_adam(const AdamStep& step, const float* values, i64 dim, const i32* position, i64 table_rows,
                           float* table, float* m, float* v) {
  const Team team = make_team(dim);
  for (i64 row = team.first; row < table_rows; row += kAdamRows * team.stride) {
    i64 from[kAdamRows], at[kAdamRows];
#pragma unroll
    for (int k = 0; k < kAdamRows; ++k) {
      const i64 item = row + k * team.stride;
      const i32 place = item < table_rows ? position[item] : -1;
      from[k] = place < 0 ? -1 : place * dim;
      at[k] = item < table_rows ? item * dim : -1;
    }
    adam_rows<W>(step, team, dim, values, from, at, table, m, v);
  }
}

#else

SOK_VECTORS static void adam_chunk(const AdamStep& step, const float* values, i64 dim, const i32* position, i64 begin,
                                   i64 end, float* table, float* m, float* v) {
  for (i64 row = begin; row < end; ++row) {
    const i64 at = row * dim;
    if (position[row] < 0) {
      adam_row_without_gradient(step, dim, table + at, m + at, v + at);
    } else {
      adam_row(step, dim, values + position[row] * dim, table + at, m + at, v + at);
    }
  }
}

#endif  // __CUDACC__

// One step of the rows rows[i], with gradients values[i]. The rows are distinct; those that the table does not have
// are left out.
SOK_KERNEL sok1x_lazy_adam(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows, i64 n,
                           const float* learning_rate, const float* beta1, const float* beta2, const float* epsilon,
                           const float* beta1_power, const float* beta2_power, i64 table_rows, float* table, float* m,
                           float* v) {
  const AdamStep step = adam_step(learning_rate, beta1, beta2, epsilon, beta1_power, beta2_power);
#ifdef __CUDACC__
  SOK_BY_ALIGNMENT(dim, lazy_adam, make_team(dim), step, values, dim, rows, n, table_rows, table, m, v);
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, dim * 28) {
    const FlushSmallest flush;
    lazy_adam_chunk(step, values, dim, rows, begin, end, table_rows, table, m, v);
  };
#endif
}

// position[row] = -1: no row of the table has a gradient.
SOK_KERNEL sok1x_adam_no_positions(i64 table_rows, i32* position) {
  SOK_PARALLEL_FOR(row, table_rows, 4) { position[row] = -1; };
}

// position[rows[i]] = i: where each row's gradient is. The rows are distinct; those that the table does not have are
// left out.
SOK_KERNEL sok1x_adam_positions(const i32* SOK_RESTRICT rows, i64 n, i64 table_rows, i32* position) {
  SOK_PARALLEL_FOR(i, n, 68) {
    if (is_row(rows[i], table_rows)) position[rows[i]] = (i32)i;
  };
}

// One step of every row of the table: with the gradient values[position[row]], or none where that is -1.
SOK_KERNEL sok1x_adam(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT position,
                      const float* learning_rate, const float* beta1, const float* beta2, const float* epsilon,
                      const float* beta1_power, const float* beta2_power, i64 table_rows, float* table, float* m,
                      float* v) {
  const AdamStep step = adam_step(learning_rate, beta1, beta2, epsilon, beta1_power, beta2_power);
#ifdef __CUDACC__
  SOK_BY_ALIGNMENT(dim, whole_adam, step, values, dim, position, table_rows, table, m, v);
#else
  SOK_PARALLEL_CHUNKS(begin, end, table_rows, dim * 24) {
    const FlushSmallest flush;
    adam_chunk(step, values, dim, position, begin, end, table, m, v);
  };
#endif
}
