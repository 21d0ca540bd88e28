// When rows last changed: a step number for each row of a shard, and the last step of all, which is its clock.
#include "hash_index.cuh"

// The step of a change: `ahead` after the clock's, and at least `at_least`.
SOK_DEVICE i64 step_of_change(const i64* clock, i64 ahead, i64 at_least) {
  const i64 step = *clock + ahead;
  return step > at_least ? step : at_least;
}

SOK_KERNEL sok1x_advance_clock(i64* clock, i64 ahead, i64 at_least) {
  SOK_PARALLEL_FOR(i, 1, 8) { *clock = step_of_change(clock, ahead, at_least); };
}

// Stamps rows[0] to rows[n - 1], those that the table has, with the clock's step, first moved on to `at_least`.
SOK_KERNEL sok1x_stamp_rows(const i32* rows, i64 n, i64 table_rows, i64 at_least, i64* clock, i64* stamps) {
  // A thread that comes late and reads the moved clock gets the same step.
  const i64 step = step_of_change(clock, 0, at_least);
  SOK_PARALLEL_FOR(i, n, 68) {
    if (rows[i] >= 0 && rows[i] < table_rows) stamps[rows[i]] = step;
  };
  SOK_PARALLEL_FOR(i, 1, 8) { *clock = step; };
}

// Stamps rows first to first + n - 1; the clock stays.
SOK_KERNEL sok1x_stamp_range(i64 first, i64 n, i64 ahead, i64 at_least, const i64* clock, i64* stamps) {
  const i64 step = step_of_change(clock, ahead, at_least);
  SOK_PARALLEL_FOR(i, n, 8) { stamps[first + i] = step; };
}

// rows[row] = row if it has changed after step `since`, else -1.
SOK_KERNEL sok1x_changed_rows(const i64* SOK_RESTRICT stamps, i64 n, i64 since, i32* SOK_RESTRICT rows) {
  SOK_PARALLEL_FOR(row, n, 12) { rows[row] = stamps[row] > since ? (i32)row : -1; };
}

SOK_DEVICE void store_key(void* keys, i32 key_type, i64 i, i64 key) {
  if (key_type == KEY_INT64) {
    ((i64*)keys)[i] = key;
  } else {
    ((u32*)keys)[i] = (u32)key;  // the same 32 bits, signed or not
  }
}

// keys[number[row]] = the key of each row below n that has a number, -1 being none.
SOK_KERNEL sok1x_numbered_keys(const Slot* SOK_RESTRICT index, i64 capacity, const i32* SOK_RESTRICT number, i64 n,
                               i32 key_type, void* keys) {
  SOK_PARALLEL_FOR(i, capacity, 20) {
    const i64 row = index[i].row;
    if (row >= 0 && row < n && number[row] >= 0) store_key(keys, key_type, number[row], index[i].key);
  };
}

// keys[i] = the key of rows[i] in a table without index.
SOK_KERNEL sok1x_direct_keys_of_rows(const i32* SOK_RESTRICT rows, i64 n, i64 ranks, i64 rank, i32 key_type,
                                     void* keys) {
  SOK_PARALLEL_FOR(i, n, 12) { store_key(keys, key_type, i, rows[i] * ranks + rank); };
}
