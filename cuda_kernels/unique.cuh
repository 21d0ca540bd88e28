// The distinct keys of a batch, in the order in which they first appear, by one thread of the host.
#ifndef SOK1X_UNIQUE_CUH
#define SOK1X_UNIQUE_CUH
#include "common.cuh"

#ifndef __CUDACC__
// Host form only: one thread walks the keys in order, so the numbers come for free. A GPU needs to sort or scan.

// Keys looked at together: their slots are asked for before the first is read.
static const i64 BATCH = 32;

// Open addressing over `slots`, a power of two of at least 2n places: -1, or the number of a distinct key. keys[i] is
// key i, of any type.
template <class Keys>
static i64 unique_keys(const Keys& keys, i64 n, i64* values, i32* inverse, i32* slots, i64 capacity) {
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
#endif

#endif  // SOK1X_UNIQUE_CUH
