// Keys of a batch: widened to int64, the one type that all later steps know, and made distinct, numbered in the
// order in which they first appear.
#include "common.cuh"

SOK_KERNEL sok1x_widen(const void* keys, i32 key_type, i64 n, i64* SOK_RESTRICT out) {
  SOK_PARALLEL_FOR(i, n, 16) {
    out[i] = key_type == KEY_INT32    ? (i64)((const i32*)keys)[i]
             : key_type == KEY_UINT32 ? (i64)((const u32*)keys)[i]
                                      : ((const i64*)keys)[i];
  };
}

#ifndef __CUDACC__
// Host form only: one thread walks the keys in order, so the numbers come for free. A GPU needs to sort or scan.

namespace {

// Keys looked at together: their slots are asked for before the first is read.
const i64 BATCH = 32;

// Open addressing over `slots`, a power of two of at least 2n places: -1, or the number of a distinct key.
template <class K>
i64 unique_keys(const K* keys, i64 n, i64* values, i32* inverse, i32* slots, i64 capacity) {
  const u64 mask = (u64)capacity - 1;
  memset(slots, 0xff, capacity * sizeof(i32));
  i64 distinct = 0;
  u64 first[BATCH];
  for (i64 begin = 0; begin < n; begin += BATCH) {
    const i64 count = std::min(BATCH, n - begin);
    for (i64 j = 0; j < count; ++j) {
      first[j] = mix64((u64)(i64)keys[begin + j]) & mask;
      SOK_PREFETCH(slots + first[j]);
    }
    for (i64 j = 0; j < count; ++j) {
      const i64 key = (i64)keys[begin + j];
      u64 slot = first[j];
      i32 number;
      while ((number = slots[slot]) >= 0 && values[number] != key) slot = (slot + 1) & mask;
      if (number < 0) {
        number = (i32)distinct;
        slots[slot] = number;
        values[distinct++] = key;
      }
      inverse[begin + j] = number;
    }
  }
  return distinct;
}

}  // namespace

SOK_EXPORT i64 sok1x_unique(const void* keys, i32 key_type, i64 n, i64* values, i32* inverse, i32* slots,
                            i64 capacity) {
  switch (key_type) {
    case KEY_INT32: return unique_keys((const i32*)keys, n, values, inverse, slots, capacity);
    case KEY_UINT32: return unique_keys((const u32*)keys, n, values, inverse, slots, capacity);
    default: return unique_keys((const i64*)keys, n, values, inverse, slots, capacity);
  }
}
#endif
