// The rank that owns a key.
#ifndef SOK1X_OWNERS_CUH
#define SOK1X_OWNERS_CUH
#include "common.cuh"

// The mathematical modulo: never negative.
SOK_DEVICE i64 owner_of(i64 key, i64 parts) {
  const i64 remainder = key % parts;
  return remainder < 0 ? remainder + parts : remainder;
}

#ifndef __CUDACC__
// The same for many keys: a power of two needs no division.
struct OwnerOf {
  i64 parts;
  u64 mask;
  explicit OwnerOf(i64 parts) : parts(parts), mask((parts & (parts - 1)) == 0 ? (u64)parts - 1 : 0) {}
  i64 operator()(i64 key) const { return mask || parts == 1 ? (i64)((u64)key & mask) : owner_of(key, parts); }
};
#endif

#endif  // SOK1X_OWNERS_CUH
