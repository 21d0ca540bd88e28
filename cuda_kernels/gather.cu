// Rows of a table, by row number; rows of 32-bit floats also as 16-bit ones.
#include "half_rows.cuh"

#ifdef __CUDACC__

// out[i] = table[row_of(i)], zeros where that is negative. A team copies ROWS rows at a time: all are asked for before
// the first is written, for memory answers late.
template <int W, class In, class Out, class RowOf>
SOK_DEVICE void gather_rows(const In* SOK_RESTRICT table, i64 dim, const RowOf& row_of, i64 n,
                            Out* SOK_RESTRICT out) {
  const int ROWS = 4;  // as in gather.py
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

#define SOK_GATHER_ROWS(table, dim, row_of, n, out) SOK_BY_ALIGNMENT(dim, gather_rows, table, dim, row_of, n, out)

#else

// How many items ahead a row is asked for: memory answers in about 100 ns, and a copy takes 5.
static const i64 GATHER_AHEAD = 32;

template <class In, class Out, class RowOf>
SOK_DEVICE void gather_rows(const In* SOK_RESTRICT table, i64 dim, const RowOf& row_of, i64 n,
                            Out* SOK_RESTRICT out) {
  SOK_OUTPUT(out, n * dim * (i64)sizeof *out);
  SOK_PARALLEL_CHUNKS(begin, end, n, dim * (i64)(sizeof *table + sizeof *out)) {
    for (i64 i = begin; i < end; ++i) {
      if (i + GATHER_AHEAD < end) prefetch_row(table + row_of(i + GATHER_AHEAD) * dim, dim);
      const i64 row = row_of(i);
      if (row < 0) {
        zero_row(out + i * dim, dim);
      } else {
        copy_row(out + i * dim, table + row * dim, dim);
      }
    }
  };
}

#define SOK_GATHER_ROWS(table, dim, row_of, n, out) gather_rows(table, dim, row_of, n, out)

#endif  // __CUDACC__

SOK_KERNEL sok1x_gather(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT index, i64 n,
                        float* SOK_RESTRICT out) {
  auto row_of = [=](i64 i) { return (i64)index[i]; };
  SOK_GATHER_ROWS(table, dim, row_of, n, out);
}

SOK_KERNEL sok1x_gather_to_half(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT index, i64 n,
                                u16* SOK_RESTRICT out) {
  auto row_of = [=](i64 i) { return (i64)index[i]; };
  SOK_GATHER_ROWS(table, dim, row_of, n, out);
}

SOK_KERNEL sok1x_gather_half(const u16* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT index, i64 n,
                             u16* SOK_RESTRICT out) {
  auto row_of = [=](i64 i) { return (i64)index[i]; };
  SOK_GATHER_ROWS(table, dim, row_of, n, out);
}

SOK_KERNEL sok1x_gather_through(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT rows,
                                const i32* SOK_RESTRICT inverse, i64 n, float* SOK_RESTRICT out) {
  auto row_of = [=](i64 i) { return (i64)rows[inverse[i]]; };
  SOK_GATHER_ROWS(table, dim, row_of, n, out);
}

SOK_KERNEL sok1x_gather_through_to_half(const float* SOK_RESTRICT table, i64 dim, const i32* SOK_RESTRICT rows,
                                        const i32* SOK_RESTRICT inverse, i64 n, u16* SOK_RESTRICT out) {
  auto row_of = [=](i64 i) { return (i64)rows[inverse[i]]; };
  SOK_GATHER_ROWS(table, dim, row_of, n, out);
}
