// How much bags move by one exchange, and how much by the other, as exchanges/sizes.py and choice.py have it.
#ifndef SOK1X_GROUPS_CHOICE_H
#define SOK1X_GROUPS_CHOICE_H

#include <cstdint>

#include "lookup_facts.h"

namespace sok1x {

// What a rank tells in place of its wish where it has no choice: NO_CHOICE in exchanges/sizes.py.
constexpr int64_t kNoChoice = 2;

// By how many bytes all2all moves more than reduce_scatter: of one rank, or of all together.
inline int64_t Surplus(const LookupFacts& facts, int64_t ranks, int64_t bags, int64_t keys, int64_t distinct) {
  const int64_t row_bytes = facts.row_bytes();
  return distinct * (8 + 2 * row_bytes) - keys * 16 - ranks * bags * 2 * row_bytes;
}

}  // namespace sok1x

#endif  // SOK1X_GROUPS_CHOICE_H
