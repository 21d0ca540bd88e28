// Optimizers' steps on the rows of many tables: what Python decides, and the other side of what is declared here, is in
// updates.py.
#ifndef SOK1X_GROUPS_UPDATE_RUN_H
#define SOK1X_GROUPS_UPDATE_RUN_H

#include <cstdint>

#include "../bridge/bridge_group.h"

namespace sok1x {

// What is known of a member before it runs. Kept in step with updates.py's FACTS.
struct UpdateFacts {
  int64_t dim;             // D
  int64_t rows_at;         // which of its variables has the rows
  int64_t slots_at;        // the first of its slots
  int64_t gpu_threads;     // that a launch has for 1024 rows
};

// A kernel: on the host the function itself, on a GPU its GpuKernel and what launches that. Kept in step with updates.py.
struct UpdateKernel {
  int64_t scalars, slots;  // that it takes
  void* host;
  const void* gpu;
  int (*launch)(const void* kernel, int64_t threads, const void* parameters);
};

// Moves the rows of a group's members, none of which has finished, in their order. left: [count], in: members that are
// not to be looked at; out: those, too, that their operation must do, which knows what is wrong with them. Returns 0, or
// what the GPU's driver says; then some have been moved, and some have not.
int MoveRows(Group* group, const UpdateFacts* facts, const UpdateKernel& kernel, int host_inputs, uint8_t* left);

}  // namespace sok1x

#endif  // SOK1X_GROUPS_UPDATE_RUN_H
