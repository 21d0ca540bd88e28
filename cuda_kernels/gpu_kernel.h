// A kernel that can be launched on a GPU. Kept in step with gpu_launch.py's _Kernel.
#ifndef SOK1X_GPU_KERNEL_H
#define SOK1X_GPU_KERNEL_H

#include <stdint.h>

typedef int (*GpuLaunch)(void* function, uint32_t blocks_x, uint32_t blocks_y, uint32_t blocks_z, uint32_t block_x,
                         uint32_t block_y, uint32_t block_z, uint32_t shared_bytes, void* stream, void** parameters,
                         void** extra);

struct GpuKernel {
  GpuLaunch launch;     // the driver's cuLaunchKernel
  void* function;       // CUfunction
  void* stream;         // CUstream
  int64_t block;        // threads of a block
  int64_t most_blocks;  // of a launch; 0: as many as it takes
  int64_t nbytes;       // of all its parameters
};

// Blocks of a launch with at least `threads` threads, or most_blocks; -1 where a launch cannot have so many.
inline int64_t blocks_for(const GpuKernel& kernel, int64_t threads) {
  const int64_t most = 0x7fffffff;  // in a launch's first dimension
  int64_t blocks = (threads + kernel.block - 1) / kernel.block;
  if (kernel.most_blocks > 0 && blocks > kernel.most_blocks) blocks = kernel.most_blocks;
  return blocks > most ? -1 : blocks;
}

#endif  // SOK1X_GPU_KERNEL_H
