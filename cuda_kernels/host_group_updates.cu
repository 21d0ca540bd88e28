// The steps of group_steps.h that move rows as optimizers do.
#ifndef __CUDACC__
#include "host_group_device.h"

// The kernels' host build, group_update.cu.
SOK_EXPORT void sok1x_group_descend(const UpdateMember* members, const i64* starts, i64 count, i64 items);
SOK_EXPORT void sok1x_group_lazy_adam(const UpdateMember* members, const i64* starts, i64 count, i64 items);

namespace group_steps {

namespace {

template <class F>
int move(GroupWork* work, const UpdateMember* members, i64 count, F* on_host, Kernel on_gpu) {
  Step step(work);
  if (!step.on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
    ++kernels_run;
    on_host(members, starts.data(), count, starts[count]);
    return 0;
  }
  const auto starts = update_tiles(members, count);
  const auto at = step.place(members, count, {&starts});
  step.launch(on_gpu, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
  return step.error;
}

}  // namespace

std::vector<i64> update_tiles(const UpdateMember* members, i64 count) {
  return running_sum(count, [=](i64 t) {
    const i64 rows = UPDATE_ROWS * kTile / row_lanes(members[t].dim);
    return (members[t].n + rows - 1) / rows;
  });
}

int descend(GroupWork* work, const UpdateMember* members, i64 count) {
  return move(work, members, count, sok1x_group_descend, DESCEND);
}

int lazy_adam(GroupWork* work, const UpdateMember* members, i64 count) {
  return move(work, members, count, sok1x_group_lazy_adam, LAZY_ADAM);
}

}  // namespace group_steps
#endif
