// The table of group_steps.h, and the steps that put numbers where kernels can read them, or read what kernels have
// left.
#ifndef __CUDACC__
#include "host_group_device.h"

std::atomic<i64> group_steps::kernels_run(0);

namespace {

using group_steps::Step;

i64 kernels() { return group_steps::kernels_run.load(std::memory_order_relaxed); }

int place(GroupWork* work, i64 count, const void* const* arrays, const i64* nbytes, void** placed) {
  Step step(work);
  step.place(count, arrays, nbytes, placed);
  return step.error;
}

int read(GroupWork* work, const i64* from, i64 count, i64* to) {
  Step step(work);
  step.read(1, count, [=](i64) { return from; }, to);
  return step.error;
}

int read_each(GroupWork* work, const i64* const* from, i64 count, i64* to) {
  Step step(work);
  step.read(count, 1, [=](i64 i) { return from[i]; }, to);
  return step.error;
}

int ask(GroupWork* work, const i64* from, i64 count) {
  Step step(work);
  step.ask(from, count);
  return step.error;
}

int answer(GroupWork* work, const i64* from, i64 count, i64* to) {
  Step step(work);
  step.answer(from, count, to);
  return step.error;
}

const GroupSteps kSteps = {
    sizeof(GroupSteps), place, read, read_each, ask, answer, group_steps::find, group_steps::look_up,
    group_steps::look_up_bags, group_steps::look_up_one_each,
    group_steps::initial, group_steps::gather, group_steps::unique, group_steps::partition,
    group_steps::pairs, group_steps::bag_offsets, group_steps::combine, group_steps::sum_parts,
    group_steps::segment_sum, group_steps::weights, group_steps::stamp, group_steps::insert, group_steps::touch,
    group_steps::leave_out, group_steps::descend, group_steps::lazy_adam, group_steps::sum_descend,
    group_steps::sum_lazy_adam, kernels};

}  // namespace

SOK_EXPORT const GroupSteps* sok1x_group_steps() { return &kSteps; }

SOK_EXPORT i32 sok1x_group_device_bytes() { return sizeof(GroupDevice); }
#endif
