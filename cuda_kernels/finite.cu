// Whether numbers are finite: in IEEE 754 Inf and NaN, and nothing else, have all bits of the exponent set.
#include "common.cuh"

typedef unsigned short u16;

#ifdef __CUDACC__
#define ACCESS_BYTES 16  // as in finite.py

// Numbers of type T that travel as one access.
template <class T>
struct __align__(ACCESS_BYTES) Access {
  T value[ACCESS_BYTES / sizeof(T)];
};
#endif

// Adds up to one for each thread, or run of numbers, to *count if any of values[0] to values[n - 1] is not finite.
template <class T>
SOK_DEVICE void count_not_finite(const T* SOK_RESTRICT values, i64 n, T exponent, i64* count) {
#ifdef __CUDACC__
  const i64 width = ACCESS_BYTES / sizeof(T);
  const i64 wide = (u64)values % ACCESS_BYTES == 0 ? n / width : 0;
  bool found = false;
  SOK_PARALLEL_FOR(i, wide, ACCESS_BYTES) {
    const Access<T> some = ((const Access<T>*)values)[i];
    for (int w = 0; w < width; ++w) found |= (some.value[w] & exponent) == exponent;
  }
  SOK_PARALLEL_FOR(i, n - width * wide, sizeof(T)) {
    found |= (values[width * wide + i] & exponent) == exponent;
  }
  if (found) atomic_add(count, 1);
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, (i64)sizeof(T)) {
    T found = 0;
    for (i64 i = begin; i < end; ++i) found |= (values[i] & exponent) == exponent;
    if (found) atomic_add(count, 1);
  };
#endif
}

SOK_KERNEL sok1x_not_finite_half(const u16* values, i64 n, i64* count) {
  count_not_finite(values, n, (u16)0x7c00, count);
}

SOK_KERNEL sok1x_not_finite_float(const u32* values, i64 n, i64* count) {
  count_not_finite(values, n, (u32)0x7f800000, count);
}

SOK_KERNEL sok1x_not_finite_double(const u64* values, i64 n, i64* count) {
  count_not_finite(values, n, (u64)0x7ff0000000000000ULL, count);
}
