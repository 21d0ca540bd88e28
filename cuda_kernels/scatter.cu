// Rows written into a table, by row number; of equal row numbers the last one wins.
#ifndef __CUDACC__
// Host form only: each thread walks all items in order and writes the table rows of its own range, so that "the last
// wins" holds for any number of threads. A GPU needs another way to order equal row numbers.
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
#endif
