// The steps of group_steps.h that add rows up.
#ifndef __CUDACC__
#include "host_group_device.h"

// The kernels' host build.
SOK_EXPORT void sok1x_group_combine(const CombineMember* members, const i64* starts, i64 count, i64 items);
SOK_EXPORT void sok1x_group_parts(const PartsMember* members, const i64* starts, i64 count, i64 items);
SOK_EXPORT void sok1x_group_sum(const SumMember* members, i64 count);
SOK_EXPORT void sok1x_group_weights(const WeightsMember* members, const i64* starts, i64 count, i64 items);

namespace group_steps {

namespace {

const i64 kSortTile = 2048;   // as in sort.py
const i64 kSortBlock = 256;   // as in sort.py
const i64 kSortBits = 8;      // as in sort.py

// Sorts keys [n] below `limit` in a stable way: sorted_keys[j] == keys[places[j]], as sort.py.
void order(Step* step, u32* keys, i64 n, i64 limit, u32* sorted_keys, i32* places) {
  int passes = 1;
  while (passes * kSortBits < 63 && ((limit - 1) >> (passes * kSortBits))) ++passes;
  const i64 tiles = (n + kSortTile - 1) / kSortTile, counters = (1 << kSortBits) * tiles;
  i32* const counts = (i32*)step->memory(4 * (counters + 1));
  u32* const other_keys = passes > 1 ? (u32*)step->memory(4 * n) : nullptr;
  i32* const other_places = passes > 1 ? (i32*)step->memory(4 * n) : nullptr;
  u32* source = keys;
  i32* source_places = nullptr;
  for (int pass = 0; pass < passes; ++pass) {
    const bool here = (passes - 1 - pass) % 2 == 0;  // the last pass must end in the caller's arrays
    u32* const target = here ? sorted_keys : other_keys;
    i32* const target_places = here ? places : other_places;
    const i32 shift = (i32)(kSortBits * pass);
    char* const state = step->memory(scan_state_bytes(counters));
    step->clear(state, scan_state_bytes(counters));
    step->launch(SORT_COUNT, tiles * kSortBlock, source, n, shift, counts);
    step->scan(counts, counters, counts, state);
    step->launch(SORT_PLACE, tiles * kSortBlock, source, source_places, n, shift, counts, target, target_places);
    source = target;
    source_places = target_places;
  }
}

void sum_on_gpu(Step* step, const SumMember* members, i64 count, i64 segments) {
  const bool any_bags = std::any_of(members, members + count, [](const SumMember& m) { return m.offsets != nullptr; });
  const bool any_scaled =
      std::any_of(members, members + count, [](const SumMember& m) { return m.mean != 0 || m.scales != nullptr; });
  const auto items = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const i64 tiles = items[count], n = kTile * tiles;
  if (std::max(n, segments) > kMost) {
    step->error = GROUP_TOO_MANY;
    return;
  }
  const i64 state_bytes = scan_state_bytes(segments), cleared = state_bytes + 4 * (segments + 1);
  char* const state = step->memory(cleared);
  i32* const begins = (i32*)(state + state_bytes);
  i32* const places = (i32*)step->memory(4 * n);
  step->clear(state, cleared);
  if (step->deterministic()) {
    const auto of_segments = running_sum(count, [=](i64 t) {
      return (members[t].num_segments * row_lanes(members[t].dim) + 31) / 32;
    });
    const auto at = step->place(members, count, {&items, &of_segments});
    step->launch(SUM_COUNT, 32 * tiles, at.members, at.sums[0], count, tiles, begins, places);
    step->scan(begins, segments, begins, state);
    u32* const keys = (u32*)step->memory(4 * n);
    u32* const sorted_keys = (u32*)step->memory(4 * n);
    step->launch(SUM_KEYS, 32 * tiles, at.members, at.sums[0], count, tiles, segments, keys);
    if (n) order(step, keys, n, segments + 1, sorted_keys, places);
    float* const scales = any_scaled ? (float*)step->memory(4 * n) : nullptr;
    if (any_bags) step->launch(SUM_BAGS, n, at.members, at.sums[0], count, n, places, scales);
    step->launch(SUM_IN_ORDER, 32 * of_segments[count], at.members, at.sums[1], count, of_segments[count], at.sums[0],
                 begins, places, (const float*)scales);
    return;
  }
  const auto of_segments = running_sum(count, [=](i64 t) { return tiles_of(members[t].num_segments); });
  const auto of_chunks = running_sum(count, [=](i64 t) {
    return ((members[t].n + kChunk - 1) / kChunk * row_lanes(members[t].dim) + 31) / 32;
  });
  const auto at = step->place(members, count, {&items, &of_segments, &of_chunks});
  step->launch(SUM_COUNT, 32 * tiles, at.members, at.sums[0], count, tiles, begins, places);
  step->scan(begins, segments, begins, state);
  char* const ordered = step->memory(16 * n);
  float* const scales = any_scaled ? (float*)step->memory(4 * n) : nullptr;
  step->launch(SUM_PLACE, 32 * tiles, at.members, at.sums[0], count, tiles, begins, places, ordered, scales);
  step->launch(SUM_CLEAR, 32 * of_segments[count], at.members, at.sums[1], count, of_segments[count], begins);
  if (scales) {
    step->launch(SUM_SCALED_CHUNKS, 32 * of_chunks[count], at.members, at.sums[2], count, of_chunks[count], begins,
                 ordered, (const float*)scales);
  } else {
    const bool plain = std::all_of(members, members + count, [](const SumMember& m) {
      return plain_rows(m.values, m.values_half, m.dim) && plain_rows(m.sums, 0, m.dim);
    });
    step->launch(plain ? SUM_PLAIN_CHUNKS : SUM_CHUNKS, 32 * of_chunks[count], at.members, at.sums[2], count,
                 of_chunks[count], begins, ordered);
  }
}

}  // namespace

Kernel combine_kernel(const CombineMember* members, i64 count) {
  const auto weighted = [](const CombineMember& m) { return m.weights != nullptr; };
  const auto plain = [](const CombineMember& m) {
    return plain_rows(m.source, m.source_half, m.dim) && plain_rows(m.out, m.out_half, m.dim);
  };
  if (std::any_of(members, members + count, weighted)) return WEIGHTED_COMBINE;
  if (!std::all_of(members, members + count, plain)) return COMBINE;
  i64 keys = 0, bags = 0;
  for (i64 t = 0; t < count; ++t) {
    keys += members[t].n_keys;
    bags += members[t].n_bags;
  }
  return keys <= bags ? SHORT_COMBINE : PLAIN_COMBINE;
}

std::vector<i64> combine_tiles(const CombineMember* members, i64 count, Kernel kernel) {
  const i64 bags = kernel == PLAIN_COMBINE ? 1 : kernel == SHORT_COMBINE ? SHORT_BAGS : COMBINE_BAGS;
  return running_sum(count, [=](i64 t) {
    return (members[t].n_bags * row_lanes(members[t].dim) + 32 * bags - 1) / (32 * bags);
  });
}

int combine(GroupWork* work, const CombineMember* members, i64 count) {
  Step step(work);
  if (!step.on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n_bags; });
    ++kernels_run;
    sok1x_group_combine(members, starts.data(), count, starts[count]);
    return 0;
  }
  const Kernel kernel = combine_kernel(members, count);
  const auto starts = combine_tiles(members, count, kernel);
  const auto at = step.place(members, count, {&starts});
  step.launch(kernel, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
  return step.error;
}

int sum_parts(GroupWork* work, const PartsMember* members, i64 count) {
  Step step(work);
  if (!step.on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n_bags; });
    ++kernels_run;
    sok1x_group_parts(members, starts.data(), count, starts[count]);
    return 0;
  }
  const auto starts =
      running_sum(count, [=](i64 t) { return (members[t].n_bags * row_lanes(members[t].dim) + 31) / 32; });
  const auto at = step.place(members, count, {&starts});
  step.launch(PARTS, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
  return step.error;
}

int weights(GroupWork* work, const WeightsMember* members, i64 count) {
  Step step(work);
  if (!step.on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n_bags; });
    ++kernels_run;
    sok1x_group_weights(members, starts.data(), count, starts[count]);
    return 0;
  }
  const auto starts =
      running_sum(count, [=](i64 t) { return (members[t].n_bags * row_lanes(members[t].dim) + 31) / 32; });
  const auto at = step.place(members, count, {&starts});
  step.launch(WEIGHTS, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
  return step.error;
}

int segment_sum(GroupWork* work, SumMember* members, i64 count) {
  Step step(work);
  i64 segments = 0;
  for (i64 t = 0; t < count; ++t) {
    members[t].first_segment = segments;
    segments += members[t].num_segments;
  }
  if (!step.on_gpu()) {
    ++kernels_run;
    sok1x_group_sum(members, count);
  } else if (segments) {
    sum_on_gpu(&step, members, count, segments);
  }
  std::vector<GatherMember> copies;
  for (i64 t = 0; t < count; ++t) {
    const SumMember& m = members[t];
    if (m.half.base == nullptr) continue;
    copies.push_back(GatherMember{m.sums, 0, m.dim, m.num_segments, nullptr, nullptr, m.half, 1});
  }
  if (!copies.empty()) gather(&step, copies.data(), copies.size());
  return step.error;
}

}  // namespace group_steps
#endif
