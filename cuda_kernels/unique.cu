// Keys of a batch: widened to int64, the one type that all later steps know, and made distinct, numbered in the
// order in which they first appear.
#include "unique.cuh"

SOK_KERNEL sok1x_widen(const void* keys, i32 key_type, i64 n, i64* SOK_RESTRICT out) {
  SOK_PARALLEL_FOR(i, n, 16) {
    out[i] = key_type == KEY_INT32    ? (i64)((const i32*)keys)[i]
             : key_type == KEY_UINT32 ? (i64)((const u32*)keys)[i]
                                      : ((const i64*)keys)[i];
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
#endif
