// Keys of a batch: widened to int64, the one type that all later steps know, and made distinct, numbered in the
// order in which they first appear.
#include "scan.cuh"
#include "unique.cuh"

SOK_KERNEL sok1x_widen(const void* keys, i32 key_type, i64 n, i64* SOK_RESTRICT out) {
  SOK_PARALLEL_FOR(i, n, 16) {
    out[i] = load_key(keys, key_type, i);
  };
}

#ifndef __CUDACC__
SOK_EXPORT i64 sok1x_unique(const void* keys, i32 key_type, i64 n, i64* values, i32* inverse, i32* slots,
                            i64 capacity) {
  switch (key_type) {
    case KEY_INT32: return unique_keys((const i32*)keys, n, values, inverse, slots, capacity);
    case KEY_UINT32: return unique_keys((const u32*)keys, n, values, inverse, slots, capacity);
    default: return unique_keys((const i64*)keys, n, values, inverse, slots, capacity);
  }
}
#else
// On a GPU three launches. `table` has `capacity` places, a power of two: 0, or 1 + the first position of a key that
// is known so far. In the end it is the first position of all.

// Every key finds its place in the table, and leaves it in inverse.
SOK_KERNEL sok1x_unique_claim(const void* keys, i32 key_type, i64 n, u32* inverse, u32* table, i64 capacity) {
  const u64 mask = (u64)capacity - 1;
  SOK_PARALLEL_FOR(i, n, 24) {
    const i64 key = load_key(keys, key_type, i);
    const u32 mine = (u32)i + 1;
    u64 slot = mix64((u64)key) & mask;
    for (;;) {
      u32 seen = *(volatile u32*)(table + slot);
      if (seen == 0) {
        seen = atomicCAS(table + slot, 0u, mine);
        if (seen == 0) break;
      }
      if (load_key(keys, key_type, (i64)seen - 1) == key) {
        if (mine < seen) atomicMin(table + slot, mine);  // positions only go down: most threads need no atomic
        break;
      }
      slot = (slot + 1) & mask;
    }
    inverse[i] = (u32)slot;
  };
}

// Numbers the first positions in order: rank[i] is the number of the key at i, where i is its first position.
SOK_KERNEL sok1x_unique_number(const void* SOK_RESTRICT keys, i32 key_type, i64 n, const u32* SOK_RESTRICT inverse,
                               const u32* SOK_RESTRICT table, i64* SOK_RESTRICT values, i32* SOK_RESTRICT rank,
                               i64* count, u64* state) {
  scan_items(
      n, state, [=](i64 i) { return table[inverse[i]] == (u32)i + 1 ? 1u : 0u; },
      [=](i64 i, u64 before, u32 first) {
        if (first) {
          values[before] = load_key(keys, key_type, i);
          rank[i] = (i32)before;
        }
      },
      [=](u64 sum) { *count = (i64)sum; });
}

// From places in the table to numbers.
SOK_KERNEL sok1x_unique_inverse(u32* inverse, i64 n, const u32* SOK_RESTRICT table, const i32* SOK_RESTRICT rank) {
  SOK_PARALLEL_FOR(i, n, 16) { inverse[i] = (u32)rank[table[inverse[i]] - 1]; };
}
#endif
