// group_steps.h on the host, and on a GPU whose driver is given by addresses (group_steps.py).
#ifndef __CUDACC__
#include <algorithm>
#include <vector>

#include "common.cuh"
#include "gpu_kernel.h"
#include "group_steps.h"
#include "unique_slots.h"

// The kernels' host build, group_*.cu.
SOK_EXPORT void sok1x_group_find(const FindMember* members, const i64* starts, i64 count, i64 items, i64* missing);
SOK_EXPORT void sok1x_group_look_up(const FindMember* members, const i64* starts, i64 count, i64 items, i64* missing);
SOK_EXPORT void sok1x_group_gather(const GatherMember* members, const i64* starts, i64 count, i64 items);
SOK_EXPORT void sok1x_group_unique(const UniqueMember* members, i64 count, i64* counts, i32* scratch, i64 slots,
                                   i64 pieces);
SOK_EXPORT void sok1x_group_partition(const PartitionMember* members, i64 count, const i64* distinct, i64 ranks,
                                      i64* counts, i64* sent);
SOK_EXPORT void sok1x_group_sum(const SumMember* members, i64 count);
SOK_EXPORT void sok1x_group_move_clocks(const StampMember* members, i64 count);
SOK_EXPORT void sok1x_group_stamp_rows(const StampMember* members, const i64* starts, i64 count, i64 items);

// And of those that work on one table.
SOK_EXPORT i64 sok1x_insert(Slot* index, i64 capacity, const i64* keys, i64 n, i32* rows, i32 next_row);
SOK_EXPORT void sok1x_collect_new(const i64* keys, const i32* rows, i64 n, i64 first, i64* out);
SOK_EXPORT void sok1x_initial_rows(u64 seed, u64 table, const i64* keys, i64 n, i64 dim, i32 kind, float a, float b,
                                   const i32* only_where_negative, float* out);
SOK_EXPORT void sok1x_stamp_range(i64 first, i64 n, i64 ahead, i64 at_least, const i64* clock, i64* stamps);

// A GPU. Kept in step with group_steps.py's _Device, and its kernels' order with KERNELS there.
enum Kernel {
  FIND, GATHER, UNIQUE_CLAIM, UNIQUE_NUMBER, UNIQUE_INVERSE, PARTITION_COUNT, PARTITION_COUNTS, PARTITION_PLACE,
  PARTITION_REMAP, SUM_COUNT, SUM_PLACE, SUM_CLEAR, SUM_CHUNKS, SUM_KEYS, SUM_IN_ORDER, MOVE_CLOCKS, STAMP_ROWS,
  RUNNING_SUM, SORT_COUNT, SORT_PLACE, NUMBER_NEW, CLAIM_SLOTS, WRITE_KEYS, INITIAL_ROWS, FILL_INT64, STAMP_RANGE,
  KERNELS
};

struct GroupDevice {
  const GpuKernel* kernels[KERNELS];
  // The driver's cuMemcpyHtoDAsync, cuMemsetD8Async, cuMemcpyDtoHAsync, cuStreamSynchronize, cuEventRecord and
  // cuEventSynchronize.
  int (*upload)(u64 target, const void* source, size_t nbytes, void* stream);
  int (*clear)(u64 target, unsigned char value, size_t nbytes, void* stream);
  int (*download)(void* target, u64 source, size_t nbytes, void* stream);
  int (*synchronize)(void* stream);
  int (*record)(void* event, void* stream);
  int (*wait)(void* event);
  void* stream;
  // Pinned memory: of what is on its way to the GPU, used by halves, a half anew when the stream has come by the event
  // of its last copy; and of what comes back.
  char* ring;
  i64 half_bytes;
  void* copied[2];
  i64 recorded[2];
  i64 half, used;  // which half is being written, and how much of it has been
  char* landing;
  i64 landing_bytes;
  i64 deterministic;  // sums in the order of their terms
};

namespace {

const i64 kTile = 32;         // items of a warp's tile: as in groups.py
const i64 kScanTile = 2048;   // as in scan.py
const i64 kScanBlock = 256;   // as in scan.py
const i64 kSortTile = 2048;   // as in sort.py
const i64 kSortBlock = 256;   // as in sort.py
const i64 kSortBits = 8;      // as in sort.py
const i64 kChunk = 32;        // as in segment_sum.py
const i64 kGatherRows = 4;    // as in group_gather.py
const i64 kMost = 0x7fffffff;

std::atomic<i64> kernels_run(0);

i64 kernels() { return kernels_run.load(std::memory_order_relaxed); }

i64 tiles_of(i64 n) { return (n + kTile - 1) / kTile; }
i64 scan_tiles(i64 n) { return (n + kScanTile - 1) / kScanTile; }
i64 scan_state_bytes(i64 n) { return 8 * (1 + scan_tiles(n)); }

// GPU threads that serve one row together: rows.cuh (make_team).
i64 row_lanes(i64 dim) {
  i64 lanes = 1;
  while (lanes < 32 && lanes * 4 < dim) lanes *= 2;
  return lanes;
}

// The running sum of size(t), [count + 1].
template <class Size>
std::vector<i64> running_sum(i64 count, const Size& size) {
  std::vector<i64> sums(count + 1);
  for (i64 t = 0; t < count; ++t) sums[t + 1] = sums[t] + size(t);
  return sums;
}

// One step: after an error nothing more is done, and `error` says which it was.
class Step {
 public:
  explicit Step(GroupWork* work) : work_(work), device_(work->device) {}

  bool on_gpu() const { return device_ != nullptr; }
  bool deterministic() const { return device_->deterministic != 0; }
  int error = 0;

  char* memory(i64 nbytes) {
    if (error) return nullptr;
    char* const at = (char*)work_->allocate(work_->owner, std::max<i64>(1, nbytes));
    if (at == nullptr) error = GROUP_NO_MEMORY;
    return at;
  }

  void clear(const void* at, i64 nbytes) {
    if (!error && nbytes) error = device_->clear((u64)at, 0, nbytes, device_->stream);
  }

  void place(i64 count, const void* const* arrays, const i64* nbytes, void** placed) {
    if (!on_gpu()) {
      std::copy((void* const*)arrays, (void* const*)arrays + count, placed);
      return;
    }
    i64 all = 0;
    for (i64 i = 0; i < count; ++i) all += aligned(nbytes[i]);
    char* const target = memory(all);
    if (error || !all) {
      std::fill(placed, placed + count, target);
      return;
    }
    char* const from = all > device_->half_bytes ? nullptr : room(all);
    i64 at = 0;
    for (i64 i = 0; i < count; at += aligned(nbytes[i++])) {
      placed[i] = target + at;
      if (from) memcpy(from + at, arrays[i], nbytes[i]);
      // Memory that is not pinned may change as soon as the driver returns.
      else if (!error && nbytes[i]) error = device_->upload((u64)placed[i], arrays[i], nbytes[i], device_->stream);
    }
    if (from && !error) error = device_->upload((u64)target, from, all, device_->stream);
  }

  // The members' records and running sums.
  template <class M>
  struct Placed {
    const M* members;
    const i64* sums[3];
  };

  template <class M>
  Placed<M> place(const M* members, i64 count, std::initializer_list<const std::vector<i64>*> sums) {
    const void* arrays[4] = {members};
    i64 nbytes[4] = {count * (i64)sizeof(M)};
    i64 n = 1;
    for (const auto* sum : sums) {
      arrays[n] = sum->data();
      nbytes[n++] = 8 * (i64)sum->size();
    }
    void* at[4] = {};
    place(n, arrays, nbytes, at);
    return {(const M*)at[0], {(const i64*)at[1], (const i64*)at[2], (const i64*)at[3]}};
  }

  template <class... A>
  void launch(Kernel which, i64 threads, A... arguments) {
    if (error || threads <= 0) return;
    const GpuKernel& kernel = *device_->kernels[which];
    const i64 blocks = blocks_for(kernel, threads);
    if (blocks < 0) {
      error = GROUP_TOO_MANY;
      return;
    }
    void* parameters[] = {(void*)&arguments...};
    ++kernels_run;
    error = kernel.launch(kernel.function, (u32)blocks, 1, 1, (u32)kernel.block, 1, 1, 0, kernel.stream, parameters,
                          nullptr);
  }

  // Numbers in runs of `each`: those of run i lie at from(i).
  template <class From>
  void read(i64 runs, i64 each, const From& from, i64* to) {
    const i64 nbytes = 8 * each;
    if (!on_gpu()) {
      for (i64 i = 0; i < runs; ++i) memcpy(to + each * i, from(i), nbytes);
      return;
    }
    char* const landing = runs * nbytes <= device_->landing_bytes ? device_->landing : (char*)to;
    for (i64 i = 0; i < runs && !error; ++i) {
      if (nbytes) error = device_->download(landing + nbytes * i, (u64)from(i), nbytes, device_->stream);
    }
    if (!error) error = device_->synchronize(device_->stream);
    if (!error && landing != (char*)to) memcpy(to, landing, runs * nbytes);
  }

  // out[i] = values[0] + ... + values[i - 1], i in [0, n]; n > 0. state: cleared, scan_state_bytes(n).
  void scan(i32* values, i64 n, i32* out, char* state) {
    launch(RUNNING_SUM, scan_tiles(n) * kScanBlock, values, n, out, state);
  }

 private:
  static i64 aligned(i64 nbytes) { return (nbytes + 15) / 16 * 16; }

  char* room(i64 nbytes) {
    GroupDevice& d = *device_;
    if (d.used + nbytes > d.half_bytes) {
      error = d.record(d.copied[d.half], d.stream);
      d.recorded[d.half] = 1;
      d.half = 1 - d.half;
      d.used = 0;
      if (!error && d.recorded[d.half]) error = d.wait(d.copied[d.half]);
    }
    char* const at = d.ring + d.half * d.half_bytes + d.used;
    d.used += nbytes;
    return at;
  }

  GroupWork* work_;
  GroupDevice* device_;
};

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

void gather(Step* step, const GatherMember* members, i64 count) {
  if (!step->on_gpu()) {
    const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
    ++kernels_run;
    sok1x_group_gather(members, starts.data(), count, starts[count]);
    return;
  }
  const auto starts = running_sum(count, [=](i64 t) {
    return (members[t].n * row_lanes(members[t].dim) + 32 * kGatherRows - 1) / (32 * kGatherRows);
  });
  const auto at = step->place(members, count, {&starts});
  step->launch(GATHER, 32 * starts[count], at.members, at.sums[0], count, starts[count]);
}

int gather(GroupWork* work, const GatherMember* members, i64 count) {
  Step step(work);
  gather(&step, members, count);
  return step.error;
}

void find(Step* step, const FindMember* members, i64 count, i64* missing) {
  const auto starts = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const auto at = step->place(members, count, {&starts});
  step->clear(missing, 8 * count);
  step->launch(FIND, 32 * starts[count], at.members, at.sums[0], count, starts[count], missing);
}

template <class F>
int find_on_host(F* kernel, const FindMember* members, i64 count, i64* missing) {
  const auto starts = running_sum(count, [=](i64 t) { return members[t].n; });
  ++kernels_run;
  kernel(members, starts.data(), count, starts[count], missing);
  return 0;
}

int find(GroupWork* work, const FindMember* members, i64 count, i64* missing) {
  Step step(work);
  if (!step.on_gpu()) return find_on_host(sok1x_group_find, members, count, missing);
  find(&step, members, count, missing);
  return step.error;
}

int look_up(GroupWork* work, const FindMember* members, i64 count, i64* missing) {
  Step step(work);
  if (!step.on_gpu()) return find_on_host(sok1x_group_look_up, members, count, missing);
  find(&step, members, count, missing);
  std::vector<GatherMember> copies(count);
  for (i64 t = 0; t < count; ++t) {
    const FindMember& m = members[t];
    copies[t] = GatherMember{{(char*)m.table}, 0, m.dim, m.n, m.rows, nullptr, m.out, m.out_half};
  }
  gather(&step, copies.data(), count);
  return step.error;
}

int unique(GroupWork* work, UniqueMember* members, i64 count, i64* distinct) {
  Step step(work);
  i64 tiles = 0, slots = 0, most = 0;
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
  for (i64 t = 0; t < count; ++t) {
    members[t].first_slot = slots;
    members[t].slots = unique_slots(members[t].n, UNIQUE_SLOTS_GPU);
    slots += members[t].slots;
  }
  const auto starts = running_sum(count, [=](i64 t) { return tiles_of(members[t].n); });
  const auto at = step.place(members, count, {&starts});
  // What must be zero before comes first.
  const i64 state_bytes = scan_state_bytes(kTile * tiles), cleared = state_bytes + 8 * (tiles + 1) + 4 * slots;
  char* const state = step.memory(cleared + 4 * kTile * tiles + 4 * tiles);
  i64* const before_tile = (i64*)(state + state_bytes);
  u32* const tables = (u32*)(before_tile + tiles + 1);
  i32* const rank = (i32*)(state + cleared);
  i32* const member_of_tile = rank + kTile * tiles;
  step.clear(distinct, 8 * count);
  step.clear(state, cleared);
  step.launch(UNIQUE_CLAIM, 32 * tiles, at.members, at.sums[0], count, tiles, tables, member_of_tile);
  step.launch(UNIQUE_NUMBER, scan_tiles(kTile * tiles) * kScanBlock, at.members, at.sums[0], member_of_tile, tiles,
              tables, rank, before_tile, state);
  step.launch(UNIQUE_INVERSE, 32 * tiles, at.members, at.sums[0], member_of_tile, tiles, tables, rank, before_tile,
              distinct);
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
    step->launch(SUM_IN_ORDER, 32 * of_segments[count], at.members, at.sums[1], count, of_segments[count], at.sums[0],
                 begins, places);
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
  step->launch(SUM_PLACE, 32 * tiles, at.members, at.sums[0], count, tiles, begins, places, ordered,
               (float*)nullptr);  // no bags here, so nothing is weighted
  step->launch(SUM_CLEAR, 32 * of_segments[count], at.members, at.sums[1], count, of_segments[count], begins);
  step->launch(SUM_CHUNKS, 32 * of_chunks[count], at.members, at.sums[2], count, of_chunks[count], begins, ordered);
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

void insert(Step* step, const InsertMember& m) {
  float* const out = m.table + m.used * m.dim;
  char* const memory = step->memory(8 * m.fresh + 16 + (step->on_gpu() ? scan_state_bytes(m.n) : 0));
  if (step->error) return;
  i64* const new_keys = (i64*)memory;
  if (!step->on_gpu()) {
    kernels_run += 4;
    sok1x_insert(m.index, m.capacity, m.keys, m.n, m.rows, (i32)m.used);
    sok1x_collect_new(m.keys, m.rows, m.n, m.used, new_keys);
    if (m.kind >= 0) {
      sok1x_initial_rows((u64)m.seed, (u64)m.identity, new_keys, m.fresh, m.dim, (i32)m.kind, (float)m.a, (float)m.b,
                         nullptr, out);
    }
    *m.count = m.used + m.fresh;
    sok1x_stamp_range(m.used, m.fresh, m.ahead, m.at_least, m.clock, m.stamps);
    return;
  }
  i64* const inserted = new_keys + m.fresh;  // the kernels' own count, twice
  char* const state = (char*)(inserted + 2);
  step->clear(inserted, 16 + scan_state_bytes(m.n));
  step->launch(NUMBER_NEW, scan_tiles(m.n) * kScanBlock, m.keys, m.n, m.rows, (i32)m.used, new_keys, inserted,
               inserted + 1, state);
  step->launch(CLAIM_SLOTS, m.fresh, m.index, m.capacity, new_keys, inserted + 1, (i32)m.used, m.fresh);
  step->launch(WRITE_KEYS, m.fresh, m.index, m.capacity, new_keys, inserted + 1, (i32)m.used, m.fresh);
  if (m.kind >= 0) {
    step->launch(INITIAL_ROWS, m.fresh * row_lanes(m.dim), (u64)m.seed, (u64)m.identity, new_keys, m.fresh, m.dim,
                 (i32)m.kind, (float)m.a, (float)m.b, (const i32*)nullptr, out);
  }
  step->launch(FILL_INT64, 1, m.count, (i64)1, m.used + m.fresh);
  step->launch(STAMP_RANGE, m.fresh, m.used, m.fresh, m.ahead, m.at_least, m.clock, m.stamps);
}

int insert(GroupWork* work, const InsertMember* members, i64 count) {
  Step step(work);
  for (i64 t = 0; t < count; ++t) insert(&step, members[t]);
  return step.error;
}

const GroupSteps kSteps = {sizeof(GroupSteps), place, read, read_each, find, look_up, gather, unique,
                           partition, segment_sum, stamp, insert, kernels};

}  // namespace

SOK_EXPORT const GroupSteps* sok1x_group_steps() { return &kSteps; }

SOK_EXPORT i32 sok1x_group_device_bytes() { return sizeof(GroupDevice); }
#endif
