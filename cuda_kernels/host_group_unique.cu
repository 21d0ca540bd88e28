// The step of group_steps.h that makes keys distinct, and what a lookup takes of it on a GPU.
#ifndef __CUDACC__
#include "host_group_device.h"
#include "unique_slots.h"

// The kernels' host build, group_unique.cu.
SOK_EXPORT void sok1x_group_unique(const UniqueMember* members, i64 count, i64* counts, i32* scratch, i64 slots,
                                   i64 pieces);

namespace group_steps {

Slots number_slots(UniqueMember* members, i64 count) {
  Slots made = {running_sum(count, [=](i64 t) { return tiles_of(members[t].n); }), 0};
  for (i64 t = 0; t < count; ++t) {
    members[t].first_slot = made.slots;
    members[t].slots = unique_slots(members[t].n, UNIQUE_SLOTS_GPU);
    made.slots += members[t].slots;
  }
  return made;
}

void unique_on_gpu(Step* step, const void* members, const void* starts, i64 count, const Slots& made, i64* distinct) {
  const i64 tiles = made.starts[count];
  if (tiles * kTile > kMost && !step->error) step->error = GROUP_TOO_MANY;
  if (step->error) return;
  // What must be zero before comes first.
  const i64 state_bytes = scan_state_bytes(kTile * tiles), cleared = state_bytes + 8 * (tiles + 1) + 4 * made.slots;
  char* const state = step->memory(cleared + 4 * kTile * tiles + 4 * tiles);
  i64* const before_tile = (i64*)(state + state_bytes);
  u32* const tables = (u32*)(before_tile + tiles + 1);
  i32* const rank = (i32*)(state + cleared);
  i32* const member_of_tile = rank + kTile * tiles;
  step->clear(state, cleared);
  step->launch(UNIQUE_CLAIM, 32 * tiles, members, starts, count, tiles, tables, member_of_tile);
  step->launch(UNIQUE_NUMBER, scan_tiles(kTile * tiles) * kScanBlock, members, starts, member_of_tile, tiles, tables,
               rank, before_tile, state);
  step->launch(UNIQUE_INVERSE, 32 * tiles, members, starts, member_of_tile, tiles, tables, rank, before_tile, distinct);
}

int unique(GroupWork* work, UniqueMember* members, i64 count, i64* distinct) {
  Step step(work);
  i64 most = 0, tiles = 0;
  for (i64 t = 0; t < count; ++t) {
    tiles += tiles_of(members[t].n);
    most = std::max(most, members[t].n);
  }
  if (tiles * kTile > kMost) return GROUP_TOO_MANY;
  if (!step.on_gpu()) {
    const i64 places = unique_slots(most, UNIQUE_SLOTS_HOST);
    const i64 threads = std::min<i64>(count, sok1x::ThreadPool::get().threads());
    char* const scratch = step.memory(4 * threads * places);
    if (step.error) return step.error;
    ++kernels_run;
    sok1x_group_unique(members, count, distinct, (i32*)scratch, places, threads);
    return 0;
  }
  const Slots slots = number_slots(members, count);
  const auto at = step.place(members, count, {&slots.starts});
  step.clear(distinct, 8 * count);
  unique_on_gpu(&step, at.members, at.sums[0], count, slots, distinct);
  return step.error;
}

}  // namespace group_steps
#endif
