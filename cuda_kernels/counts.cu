// Numbers that kernels leave for the host, and their way there.
#include "common.cuh"

#ifdef __CUDACC__
// CUDA form only: on the host a count is there as soon as it is counted. Always zero between requests.
__device__ i64 sok1x_counts[16];

// Copies the counters to page-locked host memory and clears them.
SOK_KERNEL sok1x_publish_counts(volatile i64* host) {
  if (threadIdx.x < 16 && blockIdx.x == 0) {
    host[threadIdx.x] = sok1x_counts[threadIdx.x];
    sok1x_counts[threadIdx.x] = 0;
  }
  __threadfence_system();
}
#endif
