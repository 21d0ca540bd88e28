// Memory filled with one value.
#include "common.cuh"

SOK_KERNEL sok1x_fill_int64(i64* out, i64 n, i64 value) {
  SOK_PARALLEL_FOR(i, n, 8) { out[i] = value; };
}

SOK_KERNEL sok1x_fill_int32(i32* out, i64 n, i64 value) {
  SOK_PARALLEL_FOR(i, n, 4) { out[i] = (i32)value; };
}
