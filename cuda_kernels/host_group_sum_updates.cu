// The steps of group_steps.h that sum gradients up and move rows by them in one pass.
#ifndef __CUDACC__
#include "host_group_device.h"

// The kernels' host build, group_sum_update.cu.
SOK_EXPORT void sok1x_group_sum_descend(const SumMember* sums, const UpdateMember* updates, i64 count);
SOK_EXPORT void sok1x_group_sum_lazy_adam(const SumMember* sums, const UpdateMember* updates, i64 count);

namespace group_steps {

namespace {

const i64 kMostLongThreads = 1 << 17;  // as a rule few segments are long; who finds none ends at once

// Kernels that take what comes in fours, and those for all else.
struct Moves {
  Kernel plain, any;
};

bool plain(const SumMember& m) {
  return m.mean == 0 && m.scales == nullptr && plain_rows(m.values, m.values_half, m.dim) &&
         plain_rows(m.sums, 0, m.dim);
}

void on_gpu(Step* step, const SumMember* sums, const UpdateMember* updates, i64 count, i64 segments,
            const Moves& kernels) {
  const auto items = running_sum(count, [=](i64 t) { return tiles_of(sums[t].n); });
  const auto of_rows = update_tiles(updates, count);
  const i64 tiles = items[count], n = kTile * tiles;
  if (std::max(n, segments) > kMost) {
    step->error = GROUP_TOO_MANY;
    return;
  }
  const i64 state_bytes = scan_state_bytes(segments), cleared = state_bytes + 4 * (segments + 2);
  char* const state = step->memory(cleared);
  i32* const begins = (i32*)(state + state_bytes);
  i32* const listed = begins + segments + 1;  // parts of long segments, which have more terms than a part each
  const i64 most = n / kChunk * 2;
  i32* const places = (i32*)step->memory(4 * n);
  char* const ordered = step->memory(16 * n);
  char* const chunks = step->memory(16 * most);
  step->clear(state, cleared);
  const void* arrays[] = {sums, updates, items.data(), of_rows.data()};
  const i64 bytes = 8 * (count + 1);
  const i64 nbytes[] = {count * (i64)sizeof(SumMember), count * (i64)sizeof(UpdateMember), bytes, bytes};
  void* at[4] = {};
  step->place(4, arrays, nbytes, at);
  step->launch(SUM_COUNT, 32 * tiles, at[0], at[2], count, tiles, begins, places);
  step->scan(begins, segments, begins, state);
  step->launch(SUM_UPDATE_PLACE, 32 * tiles, at[0], at[2], count, tiles, begins, places, ordered, listed, chunks);
  step->launch(SUM_UPDATE_LONG, std::min(32 * most, kMostLongThreads), at[0], most, ordered, listed, chunks);
  step->launch(std::all_of(sums, sums + count, plain) ? kernels.plain : kernels.any, 32 * of_rows[count], at[0], at[1],
               at[3], count, of_rows[count], begins, ordered);
}

template <class F>
int sum_and_move(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* updates, F* on_host,
                 const Moves& kernels, int (*move)(GroupWork*, const UpdateMember*, i64)) {
  Step step(work);
  if (!step.on_gpu()) {
    ++kernels_run;
    on_host(sums, updates, count);
    return 0;
  }
  if (step.deterministic()) {
    const int code = segment_sum(work, sums, count);
    return code ? code : move(work, updates, count);
  }
  i64 segments = 0;
  for (i64 t = 0; t < count; ++t) {
    sums[t].first_segment = segments;
    segments += sums[t].num_segments;
  }
  if (segments) on_gpu(&step, sums, updates, count, segments, kernels);
  return step.error;
}

}  // namespace

int sum_descend(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* updates) {
  return sum_and_move(work, sums, count, updates, sok1x_group_sum_descend, {PLAIN_DESCEND_SUMS, DESCEND_SUMS}, descend);
}

int sum_lazy_adam(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* updates) {
  return sum_and_move(work, sums, count, updates, sok1x_group_sum_lazy_adam,
                      {PLAIN_LAZY_ADAM_SUMS, LAZY_ADAM_SUMS}, lazy_adam);
}

}  // namespace group_steps
#endif
