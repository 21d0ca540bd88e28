// Places of the scratch table in which keys are made distinct.
#ifndef SOK1X_UNIQUE_SLOTS_H
#define SOK1X_UNIQUE_SLOTS_H

#include <stdint.h>

// Up to how many places they are doubled: see `slots` in unique.py, which has the same rule.
#define UNIQUE_SLOTS_HOST (1 << 17)
#define UNIQUE_SLOTS_GPU (1 << 20)

// For n keys: a power of two, at least 2n.
inline int64_t unique_slots(int64_t n, int64_t doubled) {
  int64_t slots = 16;
  while (slots < 2 * n) slots *= 2;
  return slots <= doubled ? 2 * slots : slots;
}

#endif  // SOK1X_UNIQUE_SLOTS_H
