// Large pages for the tables in host memory.
#include "common.cuh"

#ifndef __CUDACC__
SOK_EXPORT void sok1x_advise_large_pages(void* pointer, i64 nbytes) { SOK_OUTPUT(pointer, nbytes); }
#endif
