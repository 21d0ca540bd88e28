// Optimizers' steps on the rows of many tables: what Python decides, and the other side of what is declared here, is in
// updates.py.
#ifndef SOK1X_GROUPS_UPDATE_RUN_H
#define SOK1X_GROUPS_UPDATE_RUN_H

#include <cstdint>

#include "../../cuda_kernels/group_steps.h"
#include "../bridge/bridge_group.h"

namespace sok1x {

// What is known of a member before it runs. Kept in step with lane.py's UPDATE_FACTS.
struct UpdateFacts {
  int64_t dim;             // D
  int64_t rows_at;         // which of its variables has the rows
  int64_t slots_at;        // the first of its slots
};

// A step, and how many scalars and slots it takes; device: null for the host. Kept in step with updates.py.
struct UpdateKernel {
  int64_t scalars, slots;
  int (*move)(GroupWork* work, const UpdateMember* members, i64 count);
  int (*sum_and_move)(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* members);
  GroupDevice* device;
};

// Moves the rows of a group's members, none of which has finished, in their order. left: [count], in: members that are
// not to be looked at; out: those, too, that their operation must do, which knows what is wrong with them. Returns 0,
// or what CUDA, or the lack of memory, says (group_steps.h).
int MoveRows(Group* group, const UpdateFacts* facts, const UpdateKernel& kernel, int host_inputs, uint8_t* left);

}  // namespace sok1x

#endif  // SOK1X_GROUPS_UPDATE_RUN_H
