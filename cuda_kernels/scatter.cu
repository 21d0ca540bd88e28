// Rows written into a table, by row number; of equal row numbers the last one wins.
#ifndef __CUDACC__
// Host form only: each thread walks all items in order and writes its own part of every destination row, so that
// "the last wins" holds for any number of threads. A GPU needs another way to order equal row numbers.
#include "destinations.h"
#include "rows.cuh"

SOK_EXPORT void sok1x_scatter(const float* values, i64 dim, const i32* rows, i64 n, float* table) {
  sok1x::for_destinations(dim, n * dim * 8, [=](const sok1x::Destinations& mine) {
    const i64 ahead = 16;
    for (i64 i = 0; i < n; ++i) {
      if (i + ahead < n) prefetch_row(table + rows[i + ahead] * dim + mine.column, mine.width);
      // Neighbouring rows of a narrow table share cache lines: shares are dealt in runs of 16 rows.
      if (rows[i] < 0 || (mine.shares > 1 && (rows[i] >> 4) % mine.shares != mine.share)) continue;
      copy_row(table + rows[i] * dim + mine.column, values + i * dim + mine.column, mine.width);
    }
  });
}
#endif
