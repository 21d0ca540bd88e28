// Dense tensors on their way through an all-reduce: copied side by side into one buffer and back, scaled, and 16-bit
// floats widened to 32 bits, in which they are summed.
#include "common.cuh"

// IEEE 754 binary16 to binary32; exact.
SOK_DEVICE float half_to_float(unsigned short half) {
  const u32 sign = (u32)(half & 0x8000u) << 16;
  const u32 exponent = (half >> 10) & 31u;
  const u32 fraction = half & 1023u;
  if (exponent == 31) return bits_float(sign | 0x7f800000u | (fraction << 13));  // Inf, NaN
  if (exponent) return bits_float(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float small = (float)fraction * bits_float(0x33800000u);  // zero or subnormal: fraction * 2^-24
  return bits_float(float_bits(small) | sign);
}

// IEEE 754 binary32 to binary16, to the nearest, ties to even; too large becomes Inf, NaN stays NaN.
SOK_DEVICE unsigned short float_to_half(float value) {
  const u32 bits = float_bits(value);
  const u32 sign = (bits >> 16) & 0x8000u;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);  // 65520 and above round to Inf
  u32 base, shift;
  if (magnitude >= 0x38800000u) {  // normal in 16 bits
    base = magnitude - 0x38000000u;
    shift = 13;
  } else {  // subnormal: the fraction, with its leading 1, shifted down
    const u32 exponent = magnitude >> 23;
    if (exponent < 102) return (unsigned short)sign;  // at most 2^-25, half of the smallest: rounds to zero
    base = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126 - exponent;
  }
  const u32 kept = base >> shift;
  const u32 rest = base & ((1u << shift) - 1);
  const u32 middle = 1u << (shift - 1);
  return (unsigned short)(sign | (kept + (rest > middle || (rest == middle && (kept & 1)))));
}

#ifndef __CUDACC__
// Host form only: a GPU has its copy engines.
SOK_KERNEL sok1x_copy_bytes(const char* SOK_RESTRICT from, i64 n, char* SOK_RESTRICT to) {
  SOK_PARALLEL_CHUNKS(begin, end, n, 2) { memcpy(to + begin, from + begin, end - begin); };
}
#endif

SOK_KERNEL sok1x_widen_half(const unsigned short* SOK_RESTRICT from, i64 n, float* SOK_RESTRICT to) {
  SOK_PARALLEL_FOR(i, n, 6) { to[i] = half_to_float(from[i]); };
}

SOK_KERNEL sok1x_narrow_half(const float* SOK_RESTRICT from, i64 n, unsigned short* SOK_RESTRICT to) {
  SOK_PARALLEL_FOR(i, n, 6) { to[i] = float_to_half(from[i]); };
}

SOK_KERNEL sok1x_divide_float(float* values, i64 n, float by) {
  SOK_PARALLEL_FOR(i, n, 8) { values[i] /= by; };
}

SOK_KERNEL sok1x_divide_double(double* values, i64 n, double by) {
  SOK_PARALLEL_FOR(i, n, 16) { values[i] /= by; };
}
