// Where the steps of group_steps.h run: the host, or a GPU whose driver is given by addresses (group_steps.py).
// What the files host_group_*.cu share.
#ifndef SOK1X_HOST_GROUP_DEVICE_H
#define SOK1X_HOST_GROUP_DEVICE_H

#include <algorithm>
#include <vector>

#include "common.cuh"
#include "gpu_kernel.h"
#include "group_steps.h"

// A GPU. Kept in step with group_steps.py's GroupDevice, and its kernels' order with KERNELS there.
enum Kernel {
  FIND, INITIAL, GATHER, PLAIN_GATHER, UNIQUE_CLAIM, UNIQUE_NUMBER, UNIQUE_INVERSE, PARTITION_COUNT, PARTITION_COUNTS,
  PARTITION_PLACE, PARTITION_REMAP, PAIRS, PARTS, BAG_OFFSETS, LONGEST_BAGS, COMBINE, PLAIN_COMBINE, SHORT_COMBINE,
  WEIGHTED_COMBINE, WEIGHTS, SUM_COUNT, SUM_PLACE, SUM_CLEAR, SUM_CHUNKS, SUM_PLAIN_CHUNKS, SUM_SCALED_CHUNKS, SUM_KEYS,
  SUM_BAGS, SUM_IN_ORDER, MOVE_CLOCKS, STAMP_ROWS, RUNNING_SUM, SORT_COUNT, SORT_PLACE, NUMBER_NEW, CLAIM_SLOTS,
  WRITE_KEYS, INITIAL_ROWS, FILL_INT64, STAMP_RANGE, LOOK_UP_INT64, DESCEND, LAZY_ADAM, GIVE_ROWS, CLAIM_FOR_KEYS,
  WRITE_CLAIMED, MOVE_ROWS, RESET_ROWS, BEGIN_ROWS, STAMP_GIVEN, ADVANCE_CLOCK, BEGIN_LOOKUP, TOUCH_ROWS, FILL_INT32,
  SUM_UPDATE_PLACE, SUM_UPDATE_LONG, DESCEND_SUMS, PLAIN_DESCEND_SUMS, LAZY_ADAM_SUMS, PLAIN_LAZY_ADAM_SUMS,
  FIND_AND_START, KERNELS
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
  // What a kernel has written to the host's memory, and where it has it; `asked` is the event behind the kernel.
  i64* answers;
  i64* answers_seen;  // the same as the GPU sees it
  i64 most_answers;
  void* asked;
  i64 deterministic;  // sums in the order of their terms
};

namespace group_steps {

const i64 kTile = 32;         // items of a warp's tile: as in groups.py
const i64 kScanTile = 2048;   // as in scan.py
const i64 kScanBlock = 256;   // as in scan.py
const i64 kChunk = 32;        // places of a sum's chunk: as in segment_sum.py
const i64 kMost = 0x7fffffff;

// How many kernels have run, or been launched.
extern std::atomic<i64> kernels_run;

inline i64 tiles_of(i64 n) { return (n + kTile - 1) / kTile; }
inline i64 scan_tiles(i64 n) { return (n + kScanTile - 1) / kScanTile; }
inline i64 scan_state_bytes(i64 n) { return 8 * (1 + scan_tiles(n)); }

// GPU threads that serve one row together: rows.cuh (make_team).
inline i64 row_lanes(i64 dim) {
  i64 lanes = 1;
  while (lanes < 32 && lanes * 4 < dim) lanes *= 2;
  return lanes;
}

// Whether rows of 32-bit numbers lie side by side, in fours, as kernels named `plain` take them.
inline bool plain_rows(const Blocks& rows, i64 half, i64 dim) {
  return rows.count == 0 && !half && dim % 4 == 0 && dim <= kMost && ((u64)rows.base & 15) == 0;
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

  // Numbers that kernels have left are sent to the host, while the stream goes on with what is launched later.
  void ask(const i64* from, i64 count) {
    if (error || !on_gpu() || count > device_->most_answers) return;
    launch(LOOK_UP_INT64, count, from, (const i32*)nullptr, count, device_->answers_seen);
    if (!error) error = device_->record(device_->asked, device_->stream);
  }

  void answer(const i64* from, i64 count, i64* to) {
    if (!on_gpu() || count > device_->most_answers) {
      read(1, count, [=](i64) { return from; }, to);
      return;
    }
    if (!error) error = device_->wait(device_->asked);
    if (!error) memcpy(to, device_->answers, 8 * count);
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

// The steps, each in the file that says it; group_steps.h says what they do.
// host_group_lookups.cu, host_group_unique.cu, host_group_inserts.cu:
int find(GroupWork* work, const FindMember* members, i64 count, i64* missing);
int look_up(GroupWork* work, const FindMember* members, i64 count, i64* missing, const InitialMember* begins,
            i64 n_begins, UniqueMember* numbered);
int look_up_bags(GroupWork* work, const FindMember* members, i64 count, const CombineMember* bags, i64* counts,
                 UniqueMember* numbered, const BagsMember* starts);
int look_up_one_each(GroupWork* work, const FindMember* members, i64 count, const BagsMember* bags, i64* counts);
int initial(GroupWork* work, const InitialMember* members, i64 count);
int gather(GroupWork* work, const GatherMember* members, i64 count);
int unique(GroupWork* work, UniqueMember* members, i64 count, i64* distinct);
int partition(GroupWork* work, const PartitionMember* members, i64 count, const i64* distinct, i64 ranks, i64* counts,
              i64* sent);
int pairs(GroupWork* work, const PairsMember* members, i64 count);
int bag_offsets(GroupWork* work, const BagsMember* members, i64 count, i64* counts);
int stamp(GroupWork* work, const StampMember* members, i64 count);
int descend(GroupWork* work, const UpdateMember* members, i64 count);
int lazy_adam(GroupWork* work, const UpdateMember* members, i64 count);
int insert(GroupWork* work, const InsertMember* members, i64 count);
int touch(GroupWork* work, const TouchMember* members, i64 count);
int leave_out(GroupWork* work, const TouchMember* members, i64 count);
// host_group_sums.cu:
Kernel combine_kernel(const CombineMember* members, i64 count);  // which serves them on a GPU
// The running sum of members' tiles there.
std::vector<i64> combine_tiles(const CombineMember* members, i64 count, Kernel kernel);
int combine(GroupWork* work, const CombineMember* members, i64 count);
int sum_parts(GroupWork* work, const PartsMember* members, i64 count);
int weights(GroupWork* work, const WeightsMember* members, i64 count);
int segment_sum(GroupWork* work, SumMember* members, i64 count);
// host_group_updates.cu:
std::vector<i64> update_tiles(const UpdateMember* members, i64 count);  // the running sum of members' tiles on a GPU
// host_group_sum_updates.cu:
int sum_descend(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* updates);
int sum_lazy_adam(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* updates);

void gather(Step* step, const GatherMember* members, i64 count);

// Hash tables of members whose keys are made distinct on a GPU: tiles of keys, and slots of all tables.
struct Slots {
  std::vector<i64> starts;  // the running sum of members' tiles
  i64 slots;
};

// Says of each member where its table is.
Slots number_slots(UniqueMember* members, i64 count);
// As `unique`. members, starts: where the GPU has them. distinct: 0 before.
void unique_on_gpu(Step* step, const void* members, const void* starts, i64 count, const Slots& slots, i64* distinct);

}  // namespace group_steps

#endif  // SOK1X_HOST_GROUP_DEVICE_H
