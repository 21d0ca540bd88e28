// The subset of CUDA C++ in which kernels are written, valid for nvcc (GPU) and g++ (host).
//
// A kernel is one function, `SOK_KERNEL name(...)`; one of the host alone, which may return something, is
// `SOK_EXPORT result name(...)`. Inside it a data-parallel loop is
//
//   SOK_PARALLEL_FOR(i, n, bytes) { ...item i... };                  // mind the semicolon
//   SOK_PARALLEL_CHUNKS(begin, end, n, bytes) { ...items begin to end... };
//
// On CUDA both are grid-stride loops (a chunk is one item). On the host they are calls into the thread pool:
// a chunk is a run of consecutive items, so look-ahead prefetches and sums kept in registers pay. `bytes` says
// how much memory one item touches; the pool gives no thread less than is worth a hand-over.
// A kernel that writes a large output says so first, SOK_OUTPUT(pointer, bytes), see host_pages.h.
// SOK_PREFETCH(pointer) asks for what is read soon, on the host: see host_prefetch.h.
// A loop over rows needs a shape of its own on CUDA, where neighbouring threads should touch neighbouring floats:
// rows.cuh has teams of threads for that.
// Inside SOK_PARALLEL_FOR, write no `continue` and no `return`: the body is a lambda on the host.
#ifndef SOK1X_COMMON_CUH
#define SOK1X_COMMON_CUH

#ifdef __CUDACC__
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#else
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <atomic>
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
#include "host_pages.h"
#include "host_prefetch.h"
#include "host_threads.h"
#endif

#ifdef __CUDACC__

#define SOK_KERNEL extern "C" __global__ void
#define SOK_DEVICE static __device__ __forceinline__
#define SOK_RESTRICT __restrict__
#define SOK_PARALLEL_FOR(i, n, bytes)                                     \
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (i64)(n); \
       i += (i64)gridDim.x * blockDim.x)
#define SOK_PARALLEL_CHUNKS(begin, end, n, bytes)                                            \
  for (i64 begin = blockIdx.x * (i64)blockDim.x + threadIdx.x, end = begin + 1; begin < (n); \
       begin += (i64)gridDim.x * blockDim.x, end = begin + 1)
#define SOK_PREFETCH(pointer) ((void)0)
#define SOK_OUTPUT(pointer, bytes) ((void)0)

SOK_DEVICE void atomic_add(i64* target, i64 value) { atomicAdd((u64*)target, (u64)value); }
SOK_DEVICE void atomic_max(i64* target, i64 value) { atomicMax(target, value); }
SOK_DEVICE u32 float_bits(float value) { return __float_as_uint(value); }
SOK_DEVICE float bits_float(u32 bits) { return __uint_as_float(bits); }

// Adds up `value` over the warp's threads that are here, and one of them adds the sum to *target.
SOK_DEVICE void count_in_warp(i64* target, bool value) {
  const u32 here = __activemask();
  const u32 set = __ballot_sync(here, value);
  if (set && (threadIdx.x & 31) == (u32)(__ffs(here) - 1)) atomicAdd((u64*)target, (u64)__popc(set));
}

#else

#define SOK_EXPORT extern "C" __attribute__((visibility("default")))
#define SOK_KERNEL SOK_EXPORT void
#define SOK_DEVICE static inline __attribute__((always_inline))
#define SOK_RESTRICT __restrict__
#define SOK_PARALLEL_FOR(i, n, bytes) sok1x::ItemLoop{(n), (bytes)} = [=](i64 i)
#define SOK_PARALLEL_CHUNKS(begin, end, n, bytes) sok1x::ChunkLoop{(n), (bytes)} = [=](i64 begin, i64 end)
#define SOK_PREFETCH(pointer) sok1x::prefetch(pointer)
#define SOK_OUTPUT(pointer, bytes) sok1x::ask_for_huge_pages((pointer), (bytes))
// Before a function whose loops wait for arithmetic and not for memory: it is compiled for AVX2 as well as for any
// machine, and which is called is decided when the library is loaded. Both give the same bits.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define SOK_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define SOK_VECTORS
#endif

SOK_DEVICE void atomic_add(i64* target, i64 value) { __atomic_fetch_add(target, value, __ATOMIC_RELAXED); }
SOK_DEVICE void atomic_max(i64* target, i64 value) {
  i64 seen = __atomic_load_n(target, __ATOMIC_RELAXED);
  while (value > seen && !__atomic_compare_exchange_n(target, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
}
SOK_DEVICE u32 float_bits(float value) {
  u32 bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
SOK_DEVICE float bits_float(u32 bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#endif

// Key types, numbered as in backend.py.
enum KeyType { KEY_INT64 = 0, KEY_INT32 = 1, KEY_UINT32 = 2 };

SOK_DEVICE i64 load_key(const void* keys, i32 key_type, i64 i) {
  return key_type == KEY_INT32    ? (i64)((const i32*)keys)[i]
         : key_type == KEY_UINT32 ? (i64)((const u32*)keys)[i]
                                  : ((const i64*)keys)[i];
}

// A bijection of 64 bits in which each input bit flips each output bit with probability near 1/2: Stafford's
// 13th variant of the MurmurHash3 finalizer, the one SplitMix64 uses.
SOK_DEVICE u64 mix64(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

#endif  // SOK1X_COMMON_CUH
