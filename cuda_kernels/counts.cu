// Numbers that kernels leave for the host, and their way there.
#include "common.cuh"

#ifdef __CUDACC__
#define COUNT_PLACES 16  // as in counts.py, and as in backend.py for the host

// CUDA form only: on the host a count is there as soon as it is counted. Always zero between requests.
__device__ i64 sok1x_counts[COUNT_PLACES];

// Copies the counters to page-locked host memory and clears them.
SOK_KERNEL sok1x_publish_counts(volatile i64* host) {
  if (threadIdx.x < COUNT_PLACES && blockIdx.x == 0) {
    host[threadIdx.x] = sok1x_counts[threadIdx.x];
    sok1x_counts[threadIdx.x] = 0;
  }
  __threadfence_system();
}
#endif
