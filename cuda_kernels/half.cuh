// 16-bit floats, as `unsigned short`, to and from 32-bit ones.
#ifndef SOK1X_HALF_CUH
#define SOK1X_HALF_CUH
#include "common.cuh"

#if !defined(__CUDACC__) && defined(__x86_64__) && defined(__GNUC__)
#define SOK_F16C __attribute__((target("avx,f16c")))
#include <immintrin.h>
#endif

#ifdef __CUDACC__

// By the GPU's own instructions. The host's functions below give the same values, but for the bits of a NaN.
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
  const u32 quiet = choose(magnitude > 0x0f800000u, 0x00400000u, 0u);  // NaN
  return bits_float(choose(magnitude < 0x00800000u, small, large) | quiet | (u32)(half & 0x8000u) << 16);
}

// IEEE 754 binary32 to binary16, to the nearest, ties to even; too large becomes Inf, NaN stays NaN.
SOK_DEVICE unsigned short float_to_half(float value) {
  const u32 sign = (float_bits(value) >> 16) & 0x8000u;
  const u32 magnitude = float_bits(value) & 0x7fffffffu;
  // Below 2^-14 a half's last place is 2^-24, as is a float's from 0.5 to 1: the addition rounds.
  const u32 small = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
  const u32 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;  // Inf from 65520 on
  const u32 finite = choose(magnitude < 0x38800000u, small, normal);
  const u32 huge = choose(magnitude > 0x7f800000u, 0x7e00u | ((magnitude >> 13) & 0x1ffu), 0x7c00u);  // NaN, Inf
  return (unsigned short)(sign | choose(magnitude >= 0x47800000u, huge, finite));
}

// Many at a time: by the processor's instructions, where it has them, with the bits of the functions above.
#ifdef SOK_F16C
static const bool has_f16c = (__builtin_cpu_init(), __builtin_cpu_supports("avx2"));  // which came after F16C

SOK_F16C static inline i64 widen_by_eight(const unsigned short* in, i64 n, float* out) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(in + i))));
  return i;
}
SOK_F16C static inline i64 narrow_by_eight(const float* in, i64 n, unsigned short* out) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i*)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), 0));
  return i;
}
#else
static const bool has_f16c = false;
static inline i64 widen_by_eight(const unsigned short*, i64, float*) { return 0; }
static inline i64 narrow_by_eight(const float*, i64, unsigned short*) { return 0; }
#endif

SOK_DEVICE void widen(const unsigned short* SOK_RESTRICT in, i64 n, float* SOK_RESTRICT out) {
  for (i64 i = has_f16c ? widen_by_eight(in, n, out) : 0; i < n; ++i) out[i] = half_to_float(in[i]);
}
SOK_DEVICE void narrow(const float* SOK_RESTRICT in, i64 n, unsigned short* SOK_RESTRICT out) {
  for (i64 i = has_f16c ? narrow_by_eight(in, n, out) : 0; i < n; ++i) out[i] = float_to_half(in[i]);
}

#endif  // __CUDACC__

#endif  // SOK1X_HALF_CUH
