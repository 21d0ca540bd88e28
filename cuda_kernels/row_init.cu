// Initial rows of keys, and of a whole shard; row_init.cuh says what they are.
#include "row_init.cuh"

template <class Out>
SOK_DEVICE void initial_rows(const Draw& draw, const i64* SOK_RESTRICT keys, i64 n, i64 dim,
                             const i32* SOK_RESTRICT only_where_negative, Out* SOK_RESTRICT out) {
#ifdef __CUDACC__
  const Team team = make_team(dim);
  for (i64 i = team.first; i < n; i += team.stride) {
    if (!only_where_negative || only_where_negative[i] < 0) {
      initial_row_by_team(draw, (u64)keys[i], dim, team, out + i * dim);
    }
  }
#else
  if (!only_where_negative) SOK_OUTPUT(out, n * dim * (i64)sizeof *out);
  SOK_PARALLEL_FOR(i, n, only_where_negative ? 64 : dim * 16) {
    if (!only_where_negative || only_where_negative[i] < 0) initial_row(draw, (u64)keys[i], dim, out + i * dim);
  };
#endif
}

SOK_KERNEL sok1x_initial_rows(u64 seed, u64 table, const i64* SOK_RESTRICT keys, i64 n, i64 dim, i32 kind,
                              float a, float b, const i32* SOK_RESTRICT only_where_negative,
                              float* SOK_RESTRICT out) {
  initial_rows(make_draw(seed, table, kind, a, b), keys, n, dim, only_where_negative, out);
}

SOK_KERNEL sok1x_initial_rows_half(u64 seed, u64 table, const i64* SOK_RESTRICT keys, i64 n, i64 dim, i32 kind,
                                   float a, float b, const i32* SOK_RESTRICT only_where_negative,
                                   u16* SOK_RESTRICT out) {
  initial_rows(make_draw(seed, table, kind, a, b), keys, n, dim, only_where_negative, out);
}

SOK_KERNEL sok1x_initial_rows_of_shard(u64 seed, u64 table, i64 rank, i64 ranks, i64 n_rows, i64 dim, i32 kind,
                                       float a, float b, float* SOK_RESTRICT out) {
  const Draw draw = make_draw(seed, table, kind, a, b);
#ifdef __CUDACC__
  const Team team = make_team(dim);
  for (i64 i = team.first; i < n_rows; i += team.stride) {
    initial_row_by_team(draw, (u64)(i * ranks + rank), dim, team, out + i * dim);
  }
#else
  SOK_OUTPUT(out, n_rows * dim * 4);
  SOK_PARALLEL_FOR(i, n_rows, dim * 16) { initial_row(draw, (u64)(i * ranks + rank), dim, out + i * dim); };
#endif
}
