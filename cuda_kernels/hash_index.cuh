// The hash index, key -> row: open addressing with linear probing.
//
// Key and row of a slot lie side by side, int64 both: one cache miss for a lookup where two arrays would cost two.
// A slot is empty iff its row is -1, whatever its key, so every int64 is a legal key. Capacity is a power of two.
// A key's slots start at the low bits of mix64(key) and go on cyclically; keys are taken out by an
// insertion that fails, of its own, and by index_rows.cu, which leaves no empty slot between a key and its beginning.
#ifndef SOK1X_HASH_INDEX_CUH
#define SOK1X_HASH_INDEX_CUH
#include "common.cuh"

struct Slot {
  i64 key, row;
};

// A slot is a cache miss of about 100 ns: it is asked for this many keys ahead.
static const i64 INDEX_AHEAD = 16;

SOK_DEVICE i64 first_slot(i64 key, i64 capacity) { return (i64)mix64((u64)key) & (capacity - 1); }

SOK_DEVICE void prefetch_slot(const Slot* index, i64 capacity, i64 key) {
  SOK_PREFETCH(index + first_slot(key, capacity));
}

#ifdef __CUDACC__
SOK_DEVICE Slot load_slot(const Slot* index, i64 slot) {
  const longlong2 both = *(const longlong2*)(index + slot);  // one access of 16 bytes
  Slot loaded = {both.x, both.y};
  return loaded;
}
#else
SOK_DEVICE const Slot& load_slot(const Slot* index, i64 slot) { return index[slot]; }
#endif

// The slot that holds the key, or the empty one where it belongs, or -1 where neither is.
SOK_DEVICE i64 find_slot(const Slot* index, i64 capacity, i64 key) {
  i64 slot = first_slot(key, capacity);
  for (i64 tried = 0; tried < capacity; ++tried) {
    if (index[slot].row < 0 || index[slot].key == key) return slot;
    slot = (slot + 1) & (capacity - 1);
  }
  return -1;
}

// The row of a key, or -1.
SOK_DEVICE i32 find_row(const Slot* index, i64 capacity, i64 key) {
  i64 slot = first_slot(key, capacity);
  for (i64 tried = 0; tried < capacity; ++tried) {
    const Slot& here = load_slot(index, slot);
    if (here.row < 0) return -1;
    if (here.key == key) return (i32)here.row;
    slot = (slot + 1) & (capacity - 1);
  }
  return -1;
}

#endif  // SOK1X_HASH_INDEX_CUH
