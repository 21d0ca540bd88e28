// Lookups in the hash index, and insertions.
#include "hash_index.cuh"
#include "scan.cuh"

// All slots empty.
SOK_KERNEL sok1x_clear_index(Slot* index, i64 capacity) {
  SOK_PARALLEL_FOR(i, capacity, 16) {
    index[i].key = 0;
    index[i].row = -1;
  };
}

// rows[i] = the row of keys[i], or -1; *missing grows by the number of -1.
SOK_KERNEL sok1x_find_kernel(const Slot* SOK_RESTRICT index, i64 capacity,
                             const i64* SOK_RESTRICT keys, i64 n, i32* SOK_RESTRICT rows, i64* missing) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 128) {
    const i32 row = find_row(index, capacity, keys[i]);
    rows[i] = row;
    count_in_warp(missing, row < 0);
  };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 128) {
    i64 missed = 0;
    for (i64 i = begin; i < end; ++i) {
      if (i + INDEX_AHEAD < end) prefetch_slot(index, capacity, keys[i + INDEX_AHEAD]);
      rows[i] = find_row(index, capacity, keys[i]);
      missed += rows[i] < 0;
    }
    if (missed) atomic_add(missing, missed);
  };
#endif
}

#ifndef __CUDACC__
// Host form only: row numbers follow the order of first appearance, which one thread gives for free.
// Returns the number of rows given out, or, where a key finds no empty slot, -1: the index is as before, and so are
// the rows of the keys that are not in it.
SOK_EXPORT i64 sok1x_insert(Slot* index, i64 capacity, const i64* keys, i64 n, i32* rows,
                            i32 next_row) {
  i32 row = next_row;
  for (i64 i = 0; i < n; ++i) {
    if (i + INDEX_AHEAD < n && rows[i + INDEX_AHEAD] == -1) {
      prefetch_slot(index, capacity, keys[i + INDEX_AHEAD]);
    }
    if (rows[i] != -1) continue;
    const i64 slot = find_slot(index, capacity, keys[i]);
    if (slot < 0) {
      // Take back the new rows, the last one first, so that no probe sequence is cut before its key is found.
      for (i64 j = i - 1; j >= 0; --j) {
        if (rows[j] == row - 1 && row > next_row) {
          index[find_slot(index, capacity, keys[j])].row = -1;
          --row;
        }
        if (rows[j] >= next_row) rows[j] = -1;
      }
      return -1;
    }
    if (index[slot].row < 0) {
      index[slot].key = keys[i];
      index[slot].row = row++;
    }
    rows[i] = (i32)index[slot].row;
  }
  return row - next_row;
}
#else
// On a GPU all new keys look for their slots at once, and yet each ends in the slot that the host gives it: of two that
// want one slot the one with the lower row has it, as if it had come first, and the other goes on from there.

// Keys without a row get next_row, next_row + 1, ... in order, and are collected; *inserted grows by their number.
SOK_KERNEL sok1x_number_new(const i64* SOK_RESTRICT keys, i64 n, i32* rows, i32 next_row, i64* SOK_RESTRICT new_keys,
                            i64* inserted, i64* how_many, u64* state) {
  scan_items(
      n, state, [=](i64 i) { return rows[i] < 0 ? 1u : 0u; },
      [=](i64 i, u64 before, u32 missing) {
        if (missing) {
          rows[i] = (i32)(next_row + before);
          new_keys[before] = keys[i];
        }
      },
      [=](u64 sum) {
        *inserted = (i64)sum;
        *how_many = (i64)sum;
      });
}

// Rows find their slots. A slot's key is written later: who is displaced is known by its row.
SOK_KERNEL sok1x_claim_slots(Slot* index, i64 capacity, const i64* SOK_RESTRICT new_keys, const i64* how_many,
                             i32 next_row, i64) {
  SOK_PARALLEL_FOR(i, *how_many, 64) {
    i64 row = next_row + i;
    i64 slot = first_slot(new_keys[i], capacity);
    for (;;) {
      const i64 seen = *(volatile i64*)&index[slot].row;
      if (seen < 0 || seen > row) {
        if (atomicCAS((u64*)&index[slot].row, (u64)seen, (u64)row) != (u64)seen) continue;
        if (seen < 0) break;
        row = seen;
      }
      slot = (slot + 1) & (capacity - 1);
    }
  };
}

SOK_KERNEL sok1x_write_keys(Slot* index, i64 capacity, const i64* SOK_RESTRICT new_keys, const i64* how_many,
                            i32 next_row, i64) {
  SOK_PARALLEL_FOR(i, *how_many, 64) {
    i64 slot = first_slot(new_keys[i], capacity);
    while (index[slot].row != next_row + i) slot = (slot + 1) & (capacity - 1);
    index[slot].key = new_keys[i];
  };
}

SOK_KERNEL sok1x_count_missing(const i32* rows, i64 n, i64* missing) {
  SOK_PARALLEL_FOR(i, n, 4) { count_in_warp(missing, rows[i] < 0); };
}
#endif
