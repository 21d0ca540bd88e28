// See lookup_run.h: bags on one rank, of hosts, with one key each, in order, as most models' are. Then where they begin
// need not be found, and all that is written of it is one output for all members of as many bags; nothing in an
// evaluation, where nobody reads it.
#include <numeric>

#include "../bridge/bridge_calls.h"
#include "lookup_run.h"

namespace sok1x {

bool LookupRun::MayBeOneEach(int t) const {
  const LookupFacts& facts = facts_[t];
  const Batch& batch = batches_[t];
  return !on_gpu() && batch.fits && batch.keys > 0 && batch.keys == batch.bags && facts.most > 0 && !facts.weighted &&
         !facts.half;
}

int LookupRun::LookUpOneEach() {
  const int count = size();
  one_each_.assign(count, 0);
  std::vector<BagsMember> bags(count, BagsMember());
  int64_t all = 0;
  for (int t = 0; t < count && ahead_.empty(); ++t) {
    if (codes_[t] == 0 && MayBeOneEach(t)) bags[t] = GivenBags(t);
    all += bags[t].n_bags;
  }
  if (all > 0) {
    i64* const counts = Numbers(2 * count);
    if (counts == nullptr) return Done(GROUP_NO_MEMORY);
    const int code = Done(steps_->look_up_one_each(Work(), found_.data(), count, bags.data(), counts));
    if (code != 0) return code;
    for (int t = 0; t < count; ++t) {
      one_each_[t] = bags[t].n_bags > 0 && counts[t] == 0;
      if (one_each_[t]) counts_[t] = counts[count + t];
    }
  }
  for (int t = 0; t < count; ++t) {
    if (!MayBeOneEach(t)) continue;
    const int code = one_each_[t] ? LeaveOneEach(t) : Output(t, places_.offsets, {batches_[t].bags + 1}, &offsets_[t]);
    if (code != 0) return code;
    combined_[t].offsets = static_cast<const i64*>(offsets_[t]);
  }
  return 0;
}

int LookupRun::LeaveOneEach(int t) {
  const int64_t bags = batches_[t].bags;
  // New keys are inserted, and then looked up by bags.
  if (member(t)->places[places_.offsets] < 0 && counts_[t] == 0) return 0;
  for (int other = 0; other < t && member(t)->Output(places_.offsets) == nullptr; ++other) {
    if (!one_each_[other] || offsets_[other] == nullptr || batches_[other].bags != bags) continue;
    member(t)->SetOutput(places_.offsets, *member(other)->Output(places_.offsets));
    offsets_[t] = offsets_[other];
    return 0;
  }
  const int code = Output(t, places_.offsets, {bags + 1}, &offsets_[t]);
  if (code == 0) std::iota(static_cast<i64*>(offsets_[t]), static_cast<i64*>(offsets_[t]) + bags + 1, i64{0});
  return code;
}

bool LookupRun::GradientOfOneEach(int t) const {
  const TensorInfo& offsets = input(t, places_.offsets);
  const int64_t keys = input(t, places_.inverse).elements;
  if (on_gpu() || facts_[t].weighted || keys == 0 || offsets.elements != keys + 1) return false;
  if (offsets.data == known_one_each_ && keys <= known_keys_) return true;  // LeaveOneEach gives one tensor to many
  const i64* const begins = static_cast<const i64*>(offsets.data);
  i64 other = 0;
  for (int64_t b = 0; b <= keys; ++b) other |= begins[b] ^ b;
  if (other != 0) return false;
  known_one_each_ = begins;
  known_keys_ = keys;
  return true;
}

}  // namespace sok1x
