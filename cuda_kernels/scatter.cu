// Rows written into a table, by row number; of equal row numbers the last one wins.
#ifndef __CUDACC__
// On the host each thread walks all items in order and writes the table rows of its own range, so that "the last wins"
// holds for any number of threads.
#include "destinations.h"
#include "rows.cuh"

SOK_EXPORT void sok1x_scatter(const float* values, i64 dim, const i32* rows, i64 n, float* table) {
  i64 num_rows = 0;
  for (i64 i = 0; i < n; ++i) num_rows = std::max<i64>(num_rows, rows[i] + INT64_C(1));
  sok1x::for_destinations(rows, n, num_rows, 0, n * dim * 8, [=](i64 begin, i64 end) {
    const i64 ahead = 16;
    for (i64 i = 0; i < n; ++i) {
      if (i + ahead < n && rows[i + ahead] >= begin && rows[i + ahead] < end) {
        prefetch_row(table + rows[i + ahead] * dim, dim);
      }
      if (rows[i] >= begin && rows[i] < end) copy_row(table + rows[i] * dim, values + i * dim, dim);
    }
  });
}
#else
// On a GPU every item first finds its row's place in a hash table of `capacity` places (a power of two, 0 before),
// which keeps 1 + the last item of that row; then the last items alone are copied.
#include "rows.cuh"

SOK_KERNEL sok1x_last_items(const i32* SOK_RESTRICT rows, i64 n, u32* last, i64 capacity, u32* SOK_RESTRICT place) {
  SOK_PARALLEL_FOR(i, n, 16) {
    const i32 row = rows[i];
    const u32 mine = (u32)i + 1;
    u64 slot = mix64((u64)(i64)row) & (u64)(capacity - 1);
    while (row >= 0) {
      u32 seen = *(volatile u32*)(last + slot);
      if (seen == 0) {
        seen = atomicCAS(last + slot, 0u, mine);
        if (seen == 0) break;
      }
      if (rows[seen - 1] == row) {
        atomicMax(last + slot, mine);
        break;
      }
      slot = (slot + 1) & (u64)(capacity - 1);
    }
    place[i] = (u32)slot;
  };
}

template <int W>
SOK_DEVICE void scatter_rows(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows, i64 n,
                             const u32* SOK_RESTRICT last, const u32* SOK_RESTRICT place, float* SOK_RESTRICT table) {
  const Team team = make_team(dim);
  for (i64 i = team.first; i < n; i += team.stride) {
    if (rows[i] < 0 || last[place[i]] != (u32)i + 1) continue;
    SOK_TEAM_COLUMNS(W, team, dim, c) {
      store_vec<W>(table + rows[i] * dim + c, load_vec<W>(values + i * dim + c));
    }
  }
}

SOK_KERNEL sok1x_scatter_last(const float* SOK_RESTRICT values, i64 dim, const i32* SOK_RESTRICT rows, i64 n,
                              const u32* SOK_RESTRICT last, const u32* SOK_RESTRICT place, float* SOK_RESTRICT table) {
  SOK_BY_ALIGNMENT(dim, scatter_rows, values, dim, rows, n, last, place, table);
}
#endif
