// Rows of a table, by row number.
#include "rows.cuh"

#ifdef __CUDACC__

// out[i] = table[row_of(i)], zeros where that is negative. A team copies ROWS rows at a time: all are asked for before
// the first is written, for memory answers late.
template <int W, class RowOf>
SOK_DEVICE void gather_rows(const float* SOK_RESTRICT table, i64 dim, const RowOf& row_of, i64 n,
                            float* SOK_RESTRICT out) {
  const int ROWS = 4;
  const Team team = make_team(dim);
  for (i64 first = team.first; first < n; first += ROWS * team.stride) {
    i64 row[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const i64 i = first + r * team.stride;
      row[r] = i < n ? row_of(i) : -1;
    }
    SOK_TEAM_COLUMNS(W, team, dim, c) {
      Vec<W> value[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        value[r] = row[r] >= 0 ? load_vec<W>(table + row[r] * dim + c) : zero_vec<W>();
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const i64 i = first + r * team.stride;
        if (i < n) store_vec<W>(out + i * dim + c, value[r]);
      }
    }
  }
}

SOK_KERNEL sok1x_gather(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT index, i64 n,
                        float* SOK_RESTRICT out) {
  auto row_of = [=](i64 i) { return (i64)index[i]; };
  SOK_BY_ALIGNMENT(dim, gather_rows, table, dim, row_of, n, out);
}

SOK_KERNEL sok1x_gather_through(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT rows,
                                const i32* SOK_RESTRICT inverse, i64 n, float* SOK_RESTRICT out) {
  auto row_of = [=](i64 i) { return (i64)rows[inverse[i]]; };
  SOK_BY_ALIGNMENT(dim, gather_rows, table, dim, row_of, n, out);
}

#else

// How many items ahead a row is asked for: memory answers in about 100 ns, and a copy takes 5.
static const i64 GATHER_AHEAD = 32;

SOK_DEVICE void gather_row(const float* table, i64 dim, i32 row, float* out) {
  if (row < 0) {
    zero_row(out, dim);
  } else {
    copy_row(out, table + row * dim, dim);
  }
}

SOK_KERNEL sok1x_gather(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT index, i64 n,
                        float* SOK_RESTRICT out) {
  SOK_OUTPUT(out, n * dim * 4);
  SOK_PARALLEL_CHUNKS(begin, end, n, dim * 8) {
    for (i64 i = begin; i < end; ++i) {
      if (i + GATHER_AHEAD < end) prefetch_row(table + index[i + GATHER_AHEAD] * dim, dim);
      gather_row(table, dim, index[i], out + i * dim);
    }
  };
}

SOK_KERNEL sok1x_gather_through(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT rows,
                                const i32* SOK_RESTRICT inverse, i64 n, float* SOK_RESTRICT out) {
  SOK_OUTPUT(out, n * dim * 4);
  SOK_PARALLEL_CHUNKS(begin, end, n, dim * 8) {
    for (i64 i = begin; i < end; ++i) {
      if (i + GATHER_AHEAD < end) prefetch_row(table + rows[inverse[i + GATHER_AHEAD]] * dim, dim);
      gather_row(table, dim, rows[inverse[i]], out + i * dim);
    }
  };
}
#endif
