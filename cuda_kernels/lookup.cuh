// A run of positions looked up by one thread of the host: rows found and copied with a look-ahead in two stages.
#ifndef SOK1X_LOOKUP_CUH
#define SOK1X_LOOKUP_CUH
#include "half_rows.cuh"

#ifndef __CUDACC__

// Positions from asking for a key's slot to reading it, and again from asking for its row to copying that.
static const i64 STAGE = 24;

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

// The same for the positions below n whose row is -1.
template <class K, class Ask, class Find, class Out>
SOK_DEVICE i64 look_up_lacking(const K* keys, i64 n, const Ask& ask, const Find& find, const float* table, i64 dim,
                               i32* rows, Out* out) {
  const i64 AT_ONCE = 4 * STAGE;
  i64 lacking[AT_ONCE], missed = 0;
  for (i64 next = 0; next < n;) {
    i64 count = 0;
    for (; next < n && count < AT_ONCE; ++next) {
      if (rows[next] >= 0) continue;
      ask((i64)keys[next]);
      lacking[count++] = next;
    }
    for (i64 i = 0; i < count; ++i) {
      const i32 row = rows[lacking[i]] = find((i64)keys[lacking[i]]);
      missed += row < 0;
      if (out && row >= 0) prefetch_row(table + row * dim, dim);
    }
    for (i64 i = 0; out && i < count; ++i) {
      const i32 row = rows[lacking[i]];
      if (row >= 0) copy_row(out + lacking[i] * dim, table + row * dim, dim);
    }
  }
  return missed;
}

#endif  // __CUDACC__

#endif  // SOK1X_LOOKUP_CUH
