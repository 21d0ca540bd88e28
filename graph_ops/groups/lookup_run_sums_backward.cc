// See lookup_run.h: gradients of lookups by bag that have gone by reduce_scatter. All ranks get the bags' gradients of
// all, and owners add up what is theirs.
#include <algorithm>

#include "lookup_run.h"

namespace sok1x {

const int64_t* LookupRun::BagsOfRanks(int t) const {
  return static_cast<const int64_t*>(member(t)->inputs.back().data) + 1;
}

int LookupRun::GradientsSend(int rank, int ranks, int width, int saved, const int64_t* headers, uint8_t* left,
                             int64_t* pointers, int64_t* takes) {
  const int count = size();
  ranks_ = ranks;
  left_.assign(count, 0);
  std::vector<int64_t> bags(count * ranks), row_bytes(count);
  for (int t = 0; t < count; ++t) {
    const auto of = [=](int r) { return headers + (t * ranks + r + 1) * width - saved; };
    for (int r = 1; r < ranks; ++r) left_[t] |= !std::equal(of(0), of(0) + saved, of(r));
    left[t] = left_[t];
    row_bytes[t] = GradientRowBytes(input(t, kGradient), facts_[t].dim);
    if (left_[t]) continue;
    std::copy(BagsOfRanks(t), BagsOfRanks(t) + ranks, &bags[t * ranks]);
    if (bags[t * ranks + rank] == input(t, places_.offsets).elements - 1) continue;
    error_ = "the lookup has saved another number of bags than its offsets have";
    failed_ = t;
    return kInternal;
  }
  const int64_t unit = count == 1 ? row_bytes[0] : 16;  // as MakeRows has it
  int code = Make(&answers_, ranks, unit, bags, row_bytes);
  answers_.side_by_side = count == 1;
  if (code == 0) code = Place(&answers_);
  if (code != 0) return code;
  std::copy(answers_.units.begin(), answers_.units.end(), takes);
  pointers[1] = reinterpret_cast<int64_t>(answers_.base);
  pointers[2] = unit;
  if (count == 1 && !facts_[0].mean) {  // as it is
    pointers[0] = reinterpret_cast<int64_t>(input(0, kGradient).data);
    group_->Ready();
    return 0;
  }
  char* const given = Scratch(answers_.units[rank] * unit);
  if (given == nullptr) return Done(GROUP_NO_MEMORY);
  pointers[0] = reinterpret_cast<int64_t>(given);
  const i64 zero = 0;
  const void* arrays[] = {&zero};
  const i64 nbytes[] = {8};
  void* placed[1];
  code = Done(steps_->place(Work(), 1, arrays, nbytes, placed));
  std::vector<PartsMember> members;
  const i64 begin = answers_.offsets[rank];  // of this rank's share, which begins with the first member's
  for (int t = 0; t < count && code == 0; ++t) {
    if (left_[t]) continue;
    const TensorInfo& gradient = input(t, kGradient);
    members.push_back({static_cast<const char*>(gradient.data), static_cast<const i64*>(placed[0]), 1,
                       gradient.dtype == tf::DT_HALF, facts_[t].dim, bags[t * ranks + rank],
                       facts_[t].mean ? static_cast<const i64*>(input(t, places_.offsets).data) : nullptr,
                       given + answers_.offsets[t * ranks + rank] - begin});
  }
  if (code != 0 || members.empty()) return code;
  return Done(steps_->sum_parts(Work(), members.data(), members.size()));
}

int LookupRun::GradientsTake() {
  const int count = size();
  std::vector<SumMember> members(count, SumMember());
  for (int t = 0; t < count; ++t) {
    TakeTerms(t, &members[t]);
    if (left_[t]) continue;
    const TensorInfo& offsets = input(t, places_.all_offsets);
    members[t].offsets = static_cast<const i64*>(offsets.data);
    members[t].n_bags = offsets.elements - 1;
  }
  return SumIntoOutputs(&members, {places_.requested, places_.all_offsets});
}

}  // namespace sok1x
