// The size of the host's thread pool, for Python.
#ifndef __CUDACC__
#include "common.cuh"

SOK_EXPORT void sok1x_set_threads(i32 threads) { sok1x::ThreadPool::get().set_threads(threads); }
SOK_EXPORT i32 sok1x_get_threads() { return sok1x::ThreadPool::get().threads(); }
#endif
