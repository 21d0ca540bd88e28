// Running sums.
#include "scan.cuh"

#ifdef __CUDACC__
// CUDA form only, for other kernels' use: out[i] = values[0] + ... + values[i - 1], and out[n] the whole sum.
SOK_KERNEL sok1x_running_sum(const i32* values, i64 n, i32* out, u64* state) {
  scan_items(
      n, state, [=](i64 i) { return (u32)values[i]; },
      [=](i64 i, u64 before, u32) { out[i] = (i32)before; }, [=](u64 sum) { out[n] = (i32)sum; });
}
#endif
