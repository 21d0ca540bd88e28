// Fewer page faults on large outputs.
//
// TensorFlow's CPU allocator hands out large tensors as fresh pages, and the first write to each 4 KiB of them is a
// page fault: for an output of 24 MB, three times as long as the gather that fills it. Linux gives pages of
// 2 MiB where it is asked to (transparent_hugepage=madvise, the usual setting), at a fault each.
#ifndef SOK1X_HOST_PAGES_H
#define SOK1X_HOST_PAGES_H

#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace sok1x {

// A hint for memory about to be written as a whole; pages that exist already stay as they are.
inline void ask_for_huge_pages(void* pointer, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const uintptr_t page = 2 << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(pointer) + page - 1) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(pointer) + bytes) & ~(page - 1);
  if (bytes > 0 && begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace sok1x

#endif  // SOK1X_HOST_PAGES_H
