// Small steps between keys and rows: which row a key has without an index, which rows are new, which are left out.
#include "scan.cuh"

// Row of key k in a table without index, spread over `ranks`: k div ranks. Keys are in range.
SOK_KERNEL sok1x_direct_rows(const i64* keys, i64 n, i64 ranks, i32* rows) {
  SOK_PARALLEL_FOR(i, n, 12) { rows[i] = (i32)(keys[i] / ranks); };
}

// out[i] = values[index[i]]; without an index, a copy.
SOK_KERNEL sok1x_look_up_int32(const i32* values, const i32* index, i64 n, i32* out) {
  SOK_PARALLEL_FOR(i, n, 12) { out[i] = values[index ? index[i] : i]; };
}

SOK_KERNEL sok1x_look_up_int64(const i64* values, const i32* index, i64 n, i64* out) {
  SOK_PARALLEL_FOR(i, n, 20) { out[i] = values[index ? index[i] : i]; };
}

SOK_KERNEL sok1x_narrow_rows(const i64* SOK_RESTRICT rows, i64 n, i32* SOK_RESTRICT out) {
  SOK_PARALLEL_FOR(i, n, 12) { out[i] = (i32)rows[i]; };
}

// The keys that an insertion gave rows from `first` on, in the order of these rows: out[row - first] = key.
SOK_KERNEL sok1x_collect_new(const i64* keys, const i32* rows, i64 n, i64 first, i64* out) {
  SOK_PARALLEL_FOR(i, n, 16) {
    if (rows[i] >= first) out[rows[i] - first] = keys[i];
  };
}

// *from_end, 0 before, becomes n minus the lowest position whose key is outside [least, limit).
SOK_KERNEL sok1x_lowest_out_of_range(const i64* keys, i64 n, i64 least, i64 limit, i64* from_end) {
  SOK_PARALLEL_FOR(i, n, 8) {
    if (keys[i] < least || keys[i] >= limit) atomic_max(from_end, n - i);
  };
}

#ifndef __CUDACC__
// On the host a running count in order.

// Gives missing rows (-1) the numbers next, next + 1, ... while they are below `limit`, in order; others are copied.
SOK_KERNEL sok1x_number_missing(const i32* rows, i64 n, i64 next, i64 limit, i32* out, u64*) {
  for (i64 i = 0; i < n; ++i) {
    out[i] = rows[i] >= 0 ? rows[i] : (next < limit ? (i32)next++ : -1);
  }
}

// The rows that are not -1, in order, into `kept`; number[i] = their place there, or -1. *total: how many.
SOK_KERNEL sok1x_compact(const i32* rows, i64 n, i32* kept, i32* number, i64* total, u64*) {
  i64 count = 0;
  for (i64 i = 0; i < n; ++i) {
    number[i] = rows[i] < 0 ? -1 : (i32)count;
    if (rows[i] >= 0) kept[count++] = rows[i];
  }
  *total = count;
}
#else
// The same two on a GPU, with a scan (scan.cuh) for the count.
SOK_KERNEL sok1x_number_missing(const i32* SOK_RESTRICT rows, i64 n, i64 next, i64 limit, i32* SOK_RESTRICT out,
                                u64* state) {
  scan_items(
      n, state, [=](i64 i) { return rows[i] < 0 ? 1u : 0u; },
      [=](i64 i, u64 before, u32 missing) {
        const i64 given = next + (i64)before;
        out[i] = !missing ? rows[i] : given < limit ? (i32)given : -1;
      },
      [](u64) {});
}

SOK_KERNEL sok1x_compact(const i32* SOK_RESTRICT rows, i64 n, i32* SOK_RESTRICT kept, i32* SOK_RESTRICT number,
                         i64* total, u64* state) {
  scan_items(
      n, state, [=](i64 i) { return rows[i] < 0 ? 0u : 1u; },
      [=](i64 i, u64 before, u32 present) {
        number[i] = present ? (i32)before : -1;
        if (present) kept[before] = rows[i];
      },
      [=](u64 sum) { *total = (i64)sum; });
}
#endif
