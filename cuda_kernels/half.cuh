// 16-bit floats, as `unsigned short`, to and from 32-bit ones.
#ifndef SOK1X_HALF_CUH
#define SOK1X_HALF_CUH
#include "common.cuh"

#ifdef __CUDACC__

// By the GPU's own instructions; the host's functions below give the same values, but for the bits of a NaN.
SOK_DEVICE float half_to_float(unsigned short half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

SOK_DEVICE unsigned short float_to_half(float value) {
  unsigned short half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}

#else

// One of two, without a branch: with branches compilers do not make vector code of the loops over these functions.
SOK_DEVICE u32 choose(bool first, u32 one, u32 other) {
  const u32 mask = 0u - (u32)first;
  return (one & mask) | (other & ~mask);
}

// IEEE 754 binary16 to binary32; exact. No subnormal float is met, for which a thread may be set to read zero.
SOK_DEVICE float half_to_float(unsigned short half) {
  const u32 magnitude = (u32)(half & 0x7fffu) << 13;
  const u32 small = float_bits(bits_float(magnitude + 0x38800000u) - bits_float(0x38800000u));  // below 2^-14
  const u32 large = magnitude + choose(magnitude >= 0x0f800000u, 0x70000000u, 0x38000000u);     // Inf, NaN; others
  return bits_float(choose(magnitude < 0x00800000u, small, large) | (u32)(half & 0x8000u) << 16);
}

// IEEE 754 binary32 to binary16, to the nearest, ties to even; too large becomes Inf, NaN stays NaN.
SOK_DEVICE unsigned short float_to_half(float value) {
  const u32 sign = (float_bits(value) >> 16) & 0x8000u;
  const u32 magnitude = float_bits(value) & 0x7fffffffu;
  // Below 2^-14 a half's last place is 2^-24, as is a float's from 0.5 to 1: the addition rounds.
  const u32 small = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
  const u32 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;  // Inf from 65520 on
  const u32 finite = choose(magnitude < 0x38800000u, small, normal);
  const u32 huge = choose(magnitude > 0x7f800000u, 0x7e00u, 0x7c00u);  // NaN, Inf
  return (unsigned short)(sign | choose(magnitude >= 0x47800000u, huge, finite));
}

#endif  // __CUDACC__

#endif  // SOK1X_HALF_CUH
