// Launches of kernels on a GPU, in one call from Python (gpu_launch.py). Runs on the host, as all host_*.cu do; CUDA's
// driver is given by its address, so that the library needs none.
#ifndef __CUDACC__
#include <stddef.h>

#include "common.cuh"
#include "gpu_kernel.h"

namespace {

const int kInvalidValue = 1;           // CUDA_ERROR_INVALID_VALUE
void* const kParameters = (void*)1;    // CU_LAUNCH_PARAM_BUFFER_POINTER
void* const kParameterSize = (void*)2; // CU_LAUNCH_PARAM_BUFFER_SIZE
void* const kEnd = (void*)0;           // CU_LAUNCH_PARAM_END

}  // namespace

SOK_EXPORT i32 sok1x_gpu_kernel_bytes() { return sizeof(GpuKernel); }

// Launches a kernel with at least `threads` threads, or most_blocks blocks; `parameters` has its parameters one after
// the other, each at its own alignment. Returns CUDA's error, 0 for none.
SOK_EXPORT i32 sok1x_gpu_launch(const GpuKernel* kernel, i64 threads, const void* parameters) {
  const i64 blocks = blocks_for(*kernel, threads);
  if (blocks < 0) return kInvalidValue;
  size_t nbytes = (size_t)kernel->nbytes;
  void* extra[] = {kParameters, (void*)parameters, kParameterSize, &nbytes, kEnd};
  return kernel->launch(kernel->function, (u32)blocks, 1, 1, (u32)kernel->block, 1, 1, 0, kernel->stream, nullptr,
                        extra);
}
#endif
