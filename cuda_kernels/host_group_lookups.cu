// The steps of group_steps.h that find, order and copy rows.
#ifndef __CUDACC__
#include "host_group_device.h"

// The kernels' host build, group_*.cu.
SOK_EXPORT void sok1x_group_find(const FindMember* members, const i64* starts, i64 count, i64 items, i64* missing);
SOK_EXPORT void sok1x_group_look_up(const FindMember* members, const i64* starts, i64 count, i64 items, i64* missing);
SOK_EXPORT void sok1x_group_look_up_bags(const FindMember* members, const CombineMember* bags, const i64* starts,
                                         i64 count, i64 items, i64* missing);
SOK_EXPORT void sok1x_group_look_up_one_each(const FindMember* members, const BagsMember* bags, const i64* starts,
                                             i64 count, i64 items, i64* others, i64* missing);
SOK_EXPORT void sok1x_group_initial(const InitialMember* members, const i64* starts, i64 count, i64 items);
SOK_EXPORT void sok1x_group_gather(const GatherMember* members, const i64* starts, i64 count, i64 items);
SOK_EXPORT void sok1x_group_partition(const PartitionMember* members, i64 count, const i64* distinct, i64 ranks,
                                      i64* counts, i64* sent);
SOK_EXPORT void sok1x_group_pairs(const PairsMember* members, const i64* starts, i64 count, i64 items);
SOK_EXPORT void sok1x_group_bag_offsets(const BagsMember* members, const i64* starts, i64 count, i64 items,
                                        i64* counts);
SOK_EXPORT void sok1x_group_longest_bags(const BagsMember* members, const i64* starts, i64 count, i64 items,
                                         i64* counts);
SOK_EXPORT void sok1x_group_move_clocks(const StampMember* members, i64 count);
SOK_EXPORT void sok1x_group_stamp_rows(const StampMember* members, const i64* starts, i64 count, i64 items);

namespace group_steps {

namespace {

// The running sum of members' tiles on a GPU.
std::vector<i64> gather_tiles(const GatherMember* members, i64 count) {
  return running_sum(count, [=](i64 t) {
    return (members[t].n * row_lanes(members[t].dim) + 32 * GATHER_ROWS - 1) / (32 * GATHER_ROWS);
  });
}

Kernel gather_kernel(const GatherMember* members, i64 count) {
  return std::all_of(members, members + count, [](const GatherMember& m) {
    return plain_rows(m.source, m.source_half, m.dim) && plain_rows(m.out, m.out_half, m.dim);
  }) ? PLAIN_GATHER : GATHER;
}

}  // namespace

void gather(Step* step, const GatherMember* members, i64 count) {
  if (!step->on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
    ++kernels_run;
    sok1x_group_gather(members, starts.data(), count, starts[count]);
    return;
  }
  const auto starts = gather_tiles(members, count);
  const auto at = step->place(members, count, {&starts});
  step->launch(gather_kernel(members, count), 32 * starts[count], at.members, at.sums[0], count, starts[count]);
}

int gather(GroupWork* work, const GatherMember* members, i64 count) {
  Step step(work);
  gather(&step, members, count);
  return step.error;
}

namespace {

template <class F>
int find_on_host(F* kernel, const FindMember* members, i64 count, i64* missing) {
  const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
  ++kernels_run;
  kernel(members, starts.data(), count, starts[count], missing);
  return 0;
}

}  // namespace

int find(GroupWork* work, const FindMember* members, i64 count, i64* missing) {
  Step step(work);
  if (!step.on_gpu()) return find_on_host(sok1x_group_find, members, count, missing);
  const auto starts = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const auto at = step.place(members, count, {&starts});
  step.clear(missing, 8 * count);
  step.launch(FIND, 32 * starts[count], at.members, at.sums[0], count, starts[count], missing);
  return step.error;
}

namespace {

std::vector<i64> initial_tiles(const InitialMember* members, i64 count) {
  return running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
}

int initial_on_host(const InitialMember* members, i64 count) {
  const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
  ++kernels_run;
  sok1x_group_initial(members, starts.data(), count, starts[count]);
  return 0;
}

// The items of a member's bags, one more than keys, which ends its last bag.
i64 items_of(const BagsMember& m) { return m.splits ? m.n_bags + 1 : m.offsets ? m.n + 1 : 0; }

// On a GPU: finds, and where bags begin where that is asked for, `starts`; makes rows distinct where they are to be,
// `numbered`, asks for numbers, `asked` [n_asked], goes on with what the rows that are found are for, and has keys
// without a row begin, `begins`. One upload for all.
template <class Then>
int find_then(GroupWork* work, const FindMember* members, i64 count, i64* missing, i64* asked, i64 n_asked,
              UniqueMember* numbered, const Then* then, const std::vector<i64>& then_tiles, Kernel kernel,
              const InitialMember* begins = nullptr, i64 n_begins = 0, const BagsMember* starts = nullptr) {
  Step step(work);
  const i64 n_numbered = numbered ? count : 0, n_starts = starts ? count : 0;
  const auto tiles = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const auto of_bags = running_sum(n_starts, [=](i64 t) { return tiles_of(items_of(starts[t])); });
  const auto of_begins = initial_tiles(begins, n_begins);
  const Slots slots = number_slots(numbered, n_numbered);
  const void* arrays[] = {members, tiles.data(), then, then_tiles.data(), begins, of_begins.data(),
                          starts, of_bags.data(), numbered, slots.starts.data()};
  const auto sums = [](i64 n) { return n ? 8 * (n + 1) : 0; };
  const i64 nbytes[] = {count * (i64)sizeof *members, sums(count), count * (i64)sizeof *then, sums(count),
                        n_begins * (i64)sizeof *begins, sums(n_begins), n_starts * (i64)sizeof *starts, sums(n_starts),
                        n_numbered * (i64)sizeof *numbered, sums(n_numbered)};
  void* at[10] = {};
  step.place(10, arrays, nbytes, at);
  i64* const cleared = starts ? asked : missing;
  step.clear(cleared, 8 * (missing - cleared + count + n_numbered));
  if (starts) {
    step.launch(FIND_AND_START, 32 * (tiles[count] + of_bags[count]), at[0], at[1], at[6], at[7], count, tiles[count],
                of_bags[count], asked);
  } else {
    step.launch(FIND, 32 * tiles[count], at[0], at[1], count, tiles[count], missing);
  }
  if (numbered) unique_on_gpu(&step, at[8], at[9], count, slots, missing + count);
  if (n_asked) step.ask(asked, n_asked + n_numbered);
  step.launch(kernel, 32 * then_tiles[count], at[2], at[3], count, then_tiles[count]);
  step.launch(INITIAL, 32 * of_begins[n_begins], at[4], at[5], n_begins, of_begins[n_begins]);
  return step.error;
}

}  // namespace

int look_up(GroupWork* work, const FindMember* members, i64 count, i64* missing, const InitialMember* begins,
            i64 n_begins, UniqueMember* numbered) {
  if (!work->device) {
    int error = find_on_host(sok1x_group_look_up, members, count, missing);
    if (!error && numbered) error = unique(work, numbered, count, missing + count);
    const bool lacks = std::any_of(missing, missing + count, [](i64 n) { return n > 0; });
    return error || !n_begins || !lacks ? error : initial_on_host(begins, n_begins);
  }
  std::vector<GatherMember> copies(count);
  for (i64 t = 0; t < count; ++t) {
    const FindMember& m = members[t];
    copies[t] = GatherMember{{(char*)m.table}, 0, m.dim, m.n, m.rows, nullptr, m.out, m.out_half};
  }
  return find_then(work, members, count, missing, missing, n_begins ? 0 : count, numbered, copies.data(),
                   gather_tiles(copies.data(), count), gather_kernel(copies.data(), count), begins, n_begins);
}

int look_up_bags(GroupWork* work, const FindMember* members, i64 count, const CombineMember* bags, i64* counts,
                 UniqueMember* numbered, const BagsMember* starts) {
  i64* const missing = counts + 3 * count;
  if (!work->device) {
    if (starts) bag_offsets(work, starts, count, counts);
    const auto of_bags = running_sum(count, [=](i64 t) { return bags[t].n_bags; });
    ++kernels_run;
    sok1x_group_look_up_bags(members, bags, of_bags.data(), count, of_bags[count], missing);
    return numbered ? unique(work, numbered, count, missing + count) : 0;
  }
  const Kernel kernel = combine_kernel(bags, count);
  return find_then(work, members, count, missing, counts, 4 * count, numbered, bags,
                   combine_tiles(bags, count, kernel), kernel, nullptr, 0, starts);
}

int look_up_one_each(GroupWork* work, const FindMember* members, i64 count, const BagsMember* bags, i64* counts) {
  const auto starts = running_sum(count, [=](i64 t) { return bags[t].n_bags; });
  ++kernels_run;
  sok1x_group_look_up_one_each(members, bags, starts.data(), count, starts[count], counts, counts + count);
  return 0;
}

int initial(GroupWork* work, const InitialMember* members, i64 count) {
  Step step(work);
  if (!step.on_gpu()) return initial_on_host(members, count);
  const auto starts = initial_tiles(members, count);
  const auto at = step.place(members, count, {&starts});
  step.launch(INITIAL, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
  return step.error;
}

int partition(GroupWork* work, const PartitionMember* members, i64 count, const i64* distinct, i64 ranks, i64* counts,
              i64* sent) {
  Step step(work);
  if (!step.on_gpu()) {
    ++kernels_run;
    sok1x_group_partition(members, count, distinct, ranks, counts, sent);
    return 0;
  }
  const auto starts = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const auto of_inverse = running_sum(count, [=](i64 t) { return tiles_of(members[t].n_inverse); });
  const i64 tiles = starts[count], places = ranks * tiles;
  if (!tiles) {
    step.clear(counts, 8 * ranks * count);
    return step.error;
  }
  if (tiles * kTile > kMost) return GROUP_TOO_MANY;  // places are int32
  const auto at = step.place(members, count, {&starts, &of_inverse});
  const i64 state_bytes = scan_state_bytes(places), cleared = state_bytes + 4 * (places + 1);
  char* const state = step.memory(cleared + 4 * ranks * count);
  i32* const places_at = (i32*)(state + state_bytes);
  i32* const to_own = (i32*)(state + cleared);
  step.clear(state, cleared);
  step.launch(PARTITION_COUNT, 32 * tiles, at.members, at.sums[0], count, tiles, distinct, places_at);
  step.scan(places_at, places, places_at, state);
  step.launch(PARTITION_COUNTS, count, at.sums[0], count, tiles, ranks, places_at, counts, to_own);
  step.launch(PARTITION_PLACE, 32 * tiles, at.members, at.sums[0], count, tiles, distinct, places_at, to_own, sent);
  step.launch(PARTITION_REMAP, 32 * of_inverse[count], at.members, at.sums[1], count, of_inverse[count]);
  return step.error;
}

int pairs(GroupWork* work, const PairsMember* members, i64 count) {
  Step step(work);
  if (!step.on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
    ++kernels_run;
    sok1x_group_pairs(members, starts.data(), count, starts[count]);
    return 0;
  }
  const auto starts = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const auto at = step.place(members, count, {&starts});
  step.launch(PAIRS, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
  return step.error;
}

int bag_offsets(GroupWork* work, const BagsMember* members, i64 count, i64* counts) {
  Step step(work);
  const auto items = [=](i64 t) { return items_of(members[t]); };
  const auto bags = [=](i64 t) { return members[t].offsets && members[t].n > members[t].most ? members[t].n_bags : 0; };
  if (!step.on_gpu()) {
    const auto of_items = running_sum(count, items), of_bags = running_sum(count, bags);
    kernels_run += 1 + (of_bags[count] > 0);
    sok1x_group_bag_offsets(members, of_items.data(), count, of_items[count], counts);
    if (of_bags[count]) sok1x_group_longest_bags(members, of_bags.data(), count, of_bags[count], counts);
    return 0;
  }
  const auto of_items = running_sum(count, [=](i64 t) { return tiles_of(items(t)); });
  const auto of_bags = running_sum(count, [=](i64 t) { return tiles_of(bags(t)); });
  const auto at = step.place(members, count, {&of_items, &of_bags});
  step.clear(counts, 24 * count);
  step.launch(BAG_OFFSETS, 32 * of_items[count], at.members, at.sums[0], count, of_items[count], counts);
  step.launch(LONGEST_BAGS, 32 * of_bags[count], at.members, at.sums[1], count, of_bags[count], counts);
  return step.error;
}

int stamp(GroupWork* work, const StampMember* members, i64 count) {
  Step step(work);
  bool clocks = false;
  for (i64 t = 0; t < count; ++t) clocks = clocks || members[t].stamps != nullptr;
  if (!step.on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
    kernels_run += 1 + clocks;
    if (clocks) sok1x_group_move_clocks(members, count);
    sok1x_group_stamp_rows(members, starts.data(), count, starts[count]);
    return 0;
  }
  const auto starts = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const auto at = step.place(members, count, {&starts});
  if (clocks) step.launch(MOVE_CLOCKS, count, at.members, count);
  step.launch(STAMP_ROWS, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
  return step.error;
}

}  // namespace group_steps
#endif
