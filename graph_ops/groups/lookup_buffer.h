// What members give other ranks, and take from them, in one exchange.
#ifndef SOK1X_GROUPS_LOOKUP_BUFFER_H
#define SOK1X_GROUPS_LOOKUP_BUFFER_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../cuda_kernels/group_members.h"

namespace sok1x {

// Memory [rank][member][rows] for one exchange.
struct Buffer {
  char* base = nullptr;
  std::vector<i64> starts, offsets;  // [T, N + 1], [T, N]: Blocks
  std::vector<i64> units;            // [N]: what belongs to each rank, in units of `unit` bytes
  i64 unit = 1;
  const i64* starts_at = nullptr;    // the same where kernels can read them
  const i64* offsets_at = nullptr;
  i64 ranks = 0;
  bool side_by_side = false;         // of one member, whose rows all follow one another

  Blocks of(int member) const {
    if (side_by_side) return {base, 0, nullptr, nullptr};
    return {base, ranks, starts_at + (ranks + 1) * member, offsets_at + ranks * member};
  }
  i64 rows_of(int member) const { return starts[(member + 1) * (ranks + 1) - 1]; }
};

// What to exchange, as ForwardAsk says it.
inline void Tell(const Buffer& given, const Buffer& taken, int64_t* pointers, int64_t* gives, int64_t* takes) {
  pointers[0] = reinterpret_cast<int64_t>(given.base);
  pointers[1] = reinterpret_cast<int64_t>(taken.base);
  pointers[2] = given.unit;
  std::copy(given.units.begin(), given.units.end(), gives);
  std::copy(taken.units.begin(), taken.units.end(), takes);
}

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LOOKUP_BUFFER_H
