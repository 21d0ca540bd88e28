// Memory filled with one value.
#include "common.cuh"

#ifdef __CUDACC__
// Sixteen bytes in a store, and the few elements before and behind them.
template <typename T>
SOK_DEVICE void fill(T* out, i64 n, T value, longlong2 wide) {
  const i64 in_one = 16 / sizeof(T), to_border = ((16 - (u64)out % 16) % 16) / sizeof(T);
  const i64 before = to_border < n ? to_border : n, stores = (n - before) / in_one;
  SOK_PARALLEL_FOR(i, stores, 16) { ((longlong2*)(out + before))[i] = wide; };
  SOK_PARALLEL_FOR(i, n - stores * in_one, 8) { out[i < before ? i : stores * in_one + i] = value; };
}
#endif

SOK_KERNEL sok1x_fill_int64(i64* out, i64 n, i64 value) {
#ifdef __CUDACC__
  fill(out, n, value, make_longlong2(value, value));
#else
  SOK_PARALLEL_FOR(i, n, 8) { out[i] = value; };
#endif
}

SOK_KERNEL sok1x_fill_int32(i32* out, i64 n, i64 value) {
#ifdef __CUDACC__
  const i64 twice = (i64)((u64)value << 32 | (u32)value);
  fill(out, n, (i32)value, make_longlong2(twice, twice));
#else
  SOK_PARALLEL_FOR(i, n, 4) { out[i] = (i32)value; };
#endif
}
