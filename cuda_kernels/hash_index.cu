// The hash index, key -> row: open addressing with linear probing over two arrays, index_keys and index_rows.
//
// A slot is empty iff its row is -1, whatever its key, so every int64 is a legal key. Capacity is a power of two.
// A key's slots start at the high bits of mix64(key) and go on cyclically; keys are never taken out.
#include "common.cuh"

// A slot's key and row are two cache misses of about 100 ns each: both are asked for this many keys ahead.
static const i64 INDEX_AHEAD = 16;

SOK_DEVICE i64 first_slot(i64 key, i64 capacity) { return (i64)mix64((u64)key) & (capacity - 1); }

SOK_DEVICE void prefetch_slot(const i64* index_keys, const i32* index_rows, i64 capacity, i64 key) {
  const i64 slot = first_slot(key, capacity);
  SOK_PREFETCH(index_keys + slot);
  SOK_PREFETCH(index_rows + slot);
}

// The slot that holds the key, or the empty one where it belongs, or -1 where neither is.
SOK_DEVICE i64 find_slot(const i64* index_keys, const i32* index_rows, i64 capacity, i64 key) {
  i64 slot = first_slot(key, capacity);
  for (i64 tried = 0; tried < capacity; ++tried) {
    if (index_rows[slot] < 0 || index_keys[slot] == key) return slot;
    slot = (slot + 1) & (capacity - 1);
  }
  return -1;
}

// rows[i] = the row of keys[i], or -1; *missing grows by the number of -1.
SOK_KERNEL sok1x_find_kernel(const i64* SOK_RESTRICT index_keys, const i32* SOK_RESTRICT index_rows, i64 capacity,
                             const i64* SOK_RESTRICT keys, i64 n, i32* SOK_RESTRICT rows, i64* missing) {
  SOK_PARALLEL_CHUNKS(begin, end, n, 128) {
    i64 missed = 0;
    for (i64 i = begin; i < end; ++i) {
      if (i + INDEX_AHEAD < end) prefetch_slot(index_keys, index_rows, capacity, keys[i + INDEX_AHEAD]);
      const i64 slot = find_slot(index_keys, index_rows, capacity, keys[i]);
      rows[i] = slot < 0 ? -1 : index_rows[slot];
      missed += rows[i] < 0;
    }
    if (missed) atomic_add(missing, missed);
  };
}

#ifndef __CUDACC__
SOK_EXPORT i64 sok1x_find(const i64* index_keys, const i32* index_rows, i64 capacity, const i64* keys, i64 n,
                          i32* rows) {
  i64 missing = 0;
  sok1x_find_kernel(index_keys, index_rows, capacity, keys, n, rows, &missing);
  return missing;
}

// Host form only: row numbers follow the order of first appearance, which one thread gives for free.
// Returns the number of rows given out, or, where a key finds no empty slot, -1: the index is as before, and so are
// the rows of the keys that are not in it.
SOK_EXPORT i64 sok1x_insert(i64* index_keys, i32* index_rows, i64 capacity, const i64* keys, i64 n, i32* rows,
                            i32 next_row) {
  i32 row = next_row;
  for (i64 i = 0; i < n; ++i) {
    if (i + INDEX_AHEAD < n && rows[i + INDEX_AHEAD] == -1) {
      prefetch_slot(index_keys, index_rows, capacity, keys[i + INDEX_AHEAD]);
    }
    if (rows[i] != -1) continue;
    const i64 slot = find_slot(index_keys, index_rows, capacity, keys[i]);
    if (slot < 0) {
      // Take back the new rows, the last one first, so that no probe sequence is cut before its key is found.
      for (i64 j = i - 1; j >= 0; --j) {
        if (rows[j] == row - 1 && row > next_row) {
          index_rows[find_slot(index_keys, index_rows, capacity, keys[j])] = -1;
          --row;
        }
        if (rows[j] >= next_row) rows[j] = -1;
      }
      return -1;
    }
    if (index_rows[slot] < 0) {
      index_keys[slot] = keys[i];
      index_rows[slot] = row++;
    }
    rows[i] = index_rows[slot];
  }
  return row - next_row;
}
#endif
