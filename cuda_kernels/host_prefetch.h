// Asking for memory before it is read.
#ifndef SOK1X_HOST_PREFETCH_H
#define SOK1X_HOST_PREFETCH_H

namespace sok1x {

// To GCC a function that does nothing but this one's builtin has no effect, and calls of it may go: 12.2 left out
// what look_up_run (lookup.cuh) has `ask` do, and a lookup of 45,000 keys took twice as long. The asm is no
// instruction; it is an effect.
static inline __attribute__((always_inline)) void prefetch(const void* pointer) {
  __builtin_prefetch(pointer);
  asm volatile("" : : "r"(pointer));
}

}  // namespace sok1x

#endif  // SOK1X_HOST_PREFETCH_H
