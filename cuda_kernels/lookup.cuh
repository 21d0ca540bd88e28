// A run of positions looked up by one thread of the host: rows found and copied with a look-ahead in two stages.
#ifndef SOK1X_LOOKUP_CUH
#define SOK1X_LOOKUP_CUH
#include "half_rows.cuh"

#ifndef __CUDACC__

// Positions from asking for a key's slot to reading it, and again from asking for its row to copying that.
static const i64 STAGE = 12;

// Positions first to last - 1: rows[i] = find(key i), and unless out is null the row's values. `ask` prefetches what
// find reads. Returns how many have no row.
template <class K, class Ask, class Find, class Out>
SOK_DEVICE i64 look_up_run(const K* keys, i64 first, i64 last, const Ask& ask, const Find& find, const float* table,
                           i64 dim, i32* rows, Out* out) {
  i64 missed = 0;
  for (i64 i = first; i < last + 2 * STAGE; ++i) {
    if (i < last) ask((i64)keys[i]);
    const i64 found = i - STAGE;
    if (found >= first && found < last) {
      const i32 row = find((i64)keys[found]);
      rows[found] = row;
      missed += row < 0;
      if (out && row >= 0) prefetch_row(table + row * dim, dim);
    }
    const i64 copied = found - STAGE;
    if (out && copied >= first && rows[copied] >= 0) copy_row(out + copied * dim, table + rows[copied] * dim, dim);
  }
  return missed;
}

#endif  // __CUDACC__

#endif  // SOK1X_LOOKUP_CUH
