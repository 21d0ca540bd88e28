// Launches of kernels on a GPU, in one call from Python (gpu_launch.py). Runs on the host, as all host_*.cu do; CUDA's
// driver is given by its address, so that the library needs none.
#ifndef __CUDACC__
#include <stddef.h>

#include "common.cuh"

namespace {

typedef int (*Launch)(void* function, u32 blocks_x, u32 blocks_y, u32 blocks_z, u32 block_x, u32 block_y, u32 block_z,
                      u32 shared_bytes, void* stream, void** parameters, void** extra);

const int kInvalidValue = 1;           // CUDA_ERROR_INVALID_VALUE
const i64 kMostBlocks = 0x7fffffff;    // that a launch may have in its first dimension
void* const kParameters = (void*)1;    // CU_LAUNCH_PARAM_BUFFER_POINTER
void* const kParameterSize = (void*)2; // CU_LAUNCH_PARAM_BUFFER_SIZE
void* const kEnd = (void*)0;           // CU_LAUNCH_PARAM_END

}  // namespace

// A kernel that can be launched. Kept in step with gpu_launch.py's _Kernel.
struct GpuKernel {
  Launch launch;    // the driver's cuLaunchKernel
  void* function;   // CUfunction
  void* stream;     // CUstream
  i64 block;        // threads of a block
  i64 most_blocks;  // of a launch; 0: as many as it takes
  i64 nbytes;       // of all its parameters
};

SOK_EXPORT i32 sok1x_gpu_kernel_bytes() { return sizeof(GpuKernel); }

// Launches a kernel with at least `threads` threads, or most_blocks blocks; `parameters` has its parameters one after
// the other, each at its own alignment. Returns CUDA's error, 0 for none.
SOK_EXPORT i32 sok1x_gpu_launch(const GpuKernel* kernel, i64 threads, const void* parameters) {
  i64 blocks = (threads + kernel->block - 1) / kernel->block;
  if (kernel->most_blocks > 0 && blocks > kernel->most_blocks) blocks = kernel->most_blocks;
  if (blocks > kMostBlocks) return kInvalidValue;
  size_t nbytes = (size_t)kernel->nbytes;
  void* extra[] = {kParameters, (void*)parameters, kParameterSize, &nbytes, kEnd};
  return kernel->launch(kernel->function, (u32)blocks, 1, 1, (u32)kernel->block, 1, 1, 0, kernel->stream, nullptr,
                        extra);
}
#endif
