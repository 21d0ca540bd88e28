// See lookup_run.h: lookups on one rank, and their gradients.
#include <algorithm>

#include "lookup_run.h"

namespace sok1x {

int LookupRun::OutputsAlone(int t) {
  const Batch& batch = batches_[t];
  void *out, *at;
  int code = Embeddings(t, &out);
  if (code == 0) code = Output(t, places_.inverse, {batch.keys}, &at);
  if (code == 0 && by_bag_ && !MayBeOneEach(t)) code = Output(t, places_.offsets, {batch.bags + 1}, &offsets_[t]);
  if (code == 0) code = Nothing(t, {places_.rows, places_.requested, places_.all_offsets, places_.relayed,
                                           CountsPlace(t)});
  if (code != 0) return code;
  FindMember& m = found_[t];
  m.keys.base = static_cast<char*>(keys(t).data);
  m.key_type = KeyType(t);
  m.n = batch.keys;
  m.ranks = 1;
  m.limit = facts_[t].keys_of(1);
  m.rows = static_cast<i32*>(at);
  m.dim = facts_[t].dim;
  m.out.base = static_cast<char*>(out);
  m.out_half = facts_[t].half;
  return 0;
}

int LookupRun::ForwardAlone(bool training, uint8_t* left, int64_t* fresh) {
  const int count = size();
  std::fill(left, left + count, 1);
  std::fill(fresh, fresh + count, 0);
  if (!TakeBatches()) return 0;
  int code = CheckBatches();
  if (code != 0) return code;
  found_.assign(count, FindMember());
  offsets_.assign(count, nullptr);
  counts_.assign(count, 0);
  CutOutputs(places_.inverse, tf::DT_INT32, KeysThatFit());
  for (int t = 0; t < count; ++t) {
    code = batches_[t].fits ? OutputsAlone(t) : 0;
    if (code != 0) return code;
  }
  code = Lock(training, training);
  if (code != 0) return code;
  training_ = training;
  for (int t = 0; t < count; ++t) {
    if (training && LacksRoom(t)) batches_[t].fits = false;
    Open(t);
    if (!batches_[t].fits) found_[t].n = 0;
  }
  code = by_bag_ ? LookUpBags(training) : LookUpKeys(training);
  if (code == 0 && training) code = Unseen(counts_.data(), fresh);
  for (int t = 0; t < count; ++t) left[t] = counts_[t] > 0 || codes_[t] != 0 || !batches_[t].fits || !CanPin(t);
  if (code == 0 && !training) code = LeaveNothing(left);
  if (code == 0 && inserts_.empty()) code = Touch(left);
  if (inserts_.empty()) group_->Unlock();
  if (code == 0) PutAhead(left);
  return code;
}

bool LookupRun::AllBegin() const {
  for (int t = 0; t < size(); ++t) {
    // Of several ranks keys have been looked at where they come from.
    const bool begins = facts_[t].hashed ? facts_[t].kind >= 0 || facts_[t].has_absent : ranks_ > 1;
    if (!begins || codes_[t] != 0) return false;
  }
  return true;
}

std::vector<InitialMember> LookupRun::Begins() const {
  std::vector<InitialMember> members;
  for (int t = 0; t < size(); ++t) {
    const FindMember& from = found_[t];
    if (!facts_[t].hashed) continue;
    members.push_back({from.keys, from.key_type, from.n, from.rows, from.out, from.out_half, from.dim, facts_[t].seed,
                       facts_[t].identity, facts_[t].kind, facts_[t].a, facts_[t].b});
    if (facts_[t].has_absent) {
      members.back().kind = kConstant;
      members.back().a = facts_[t].absent;
    }
  }
  return members;
}

int LookupRun::LookUpKeys(bool training) {
  const bool ahead = training && StartAhead();
  const int64_t asked = ahead ? 2 * size() : size();
  i64* const missing = Numbers(asked);
  if (missing == nullptr) return Done(GROUP_NO_MEMORY);
  // Where all begin, nobody has to wait.
  const bool waits = training || !AllBegin();
  const std::vector<InitialMember> begins = waits ? std::vector<InitialMember>() : Begins();
  int code = SendsSooner() ? LookUpSooner(missing, begins, waits)
                           : steps_->look_up(Work(), found_.data(), size(), missing, begins.data(), begins.size(),
                                             ahead ? ahead_.data() : nullptr);
  if (!waits) return Done(code);
  std::vector<int64_t> counts(asked);
  if (code == 0) code = steps_->answer(Work(), missing, asked, reinterpret_cast<i64*>(counts.data()));
  if (code != 0) return Done(code);
  std::copy(counts.begin(), counts.begin() + size(), counts_.begin());
  if (ahead) CountAhead(&counts[size()]);
  return 0;
}

int LookupRun::LookUpBags(bool training) {
  const int count = size();
  const bool ahead = training && StartAhead();
  combined_.assign(count, CombineMember());
  kept_.assign(count, nullptr);
  for (int t = 0; t < count; ++t) {
    if (!batches_[t].fits || codes_[t] != 0) continue;
    const FindMember& from = found_[t];
    CombineMember& m = combined_[t];
    m.source.base = reinterpret_cast<char*>(const_cast<float*>(from.table));
    m.dim = from.dim;
    m.inverse = from.rows;
    m.offsets = static_cast<const i64*>(offsets_[t]);
    m.n_bags = batches_[t].bags;
    m.n_keys = from.n;
    m.mean = facts_[t].mean;
    m.out = from.out;
    m.out_half = from.out_half;
    const int code = Weigh(t, &m);
    if (code != 0) return code;
  }
  int code = LookUpOneEach();
  if (code == 0 && std::find(one_each_.begin(), one_each_.end(), 0) != one_each_.end()) code = LookUpOtherBags(ahead);
  if (code != 0) return code;
  std::vector<GatherMember> rows;
  for (int t = 0; t < count; ++t) {
    if (!batches_[t].fits || codes_[t] != 0) continue;
    code = LeaveInOrder(t);
    if (code != 0) return code;
    if (counts_[t] == 0) Keep(t, &rows);
  }
  return Gather(rows);
}

int LookupRun::LookUpOtherBags(bool ahead) {
  const int count = size();
  const int64_t asked = (ahead ? 5 : 4) * count;
  i64* const counted = Numbers(asked);
  if (counted == nullptr) return Done(GROUP_NO_MEMORY);
  std::vector<BagsMember> bags;  // on a GPU they begin in the same pass; it does no harm with offsets that are none
  int code = 0;
  if (on_gpu()) {
    bags = BagsToStart();
  } else {
    code = StartBags(counted);
    if (code == 0) CheckBags(counted);
  }
  std::vector<FindMember> found(found_);
  std::vector<CombineMember> combined(combined_);
  for (int t = 0; t < count; ++t) {
    if (!batches_[t].fits) found_[t].n = combined_[t].n_bags = 0;
    if (!batches_[t].fits || one_each_[t]) found[t].n = combined[t].n_bags = 0;
    if (!batches_[t].fits && ahead) ahead_[t].n = 0;
  }
  if (code == 0) {
    code = Done(steps_->look_up_bags(Work(), found.data(), count, combined.data(), counted,
                                     ahead ? ahead_.data() : nullptr, on_gpu() ? bags.data() : nullptr));
  }
  std::vector<i64> counts(asked);
  if (code == 0) code = Done(steps_->answer(Work(), counted, asked, counts.data()));
  if (code != 0) return code;
  CheckBags(counts.data());
  for (int t = 0; t < count; ++t) {
    if (!one_each_[t]) counts_[t] = counts[3 * count + t];
  }
  if (ahead) CountAhead(reinterpret_cast<int64_t*>(&counts[4 * count]));
  return 0;
}

void LookupRun::Keep(int t, std::vector<GatherMember>* rows) const {
  const FindMember& from = found_[t];
  if (facts_[t].kept == 0) return;
  Blocks source = Blocks(), out = Blocks();
  source.base = reinterpret_cast<char*>(const_cast<float*>(from.table));
  out.base = static_cast<char*>(kept_[t]);
  rows->push_back({source, 0, from.dim, from.n, from.rows, nullptr, out, facts_[t].half});
}

int LookupRun::BackwardAlone(uint8_t* left) {
  std::vector<SumMember> members(size(), SumMember());
  left_.assign(size(), 0);
  for (int t = 0; t < size(); ++t) {
    left[t] = left_[t] = !Fits(t);
    if (!left_[t]) members[t] = Terms(t);
  }
  return SumIntoOutputs(&members, {kGradient, places_.inverse, places_.offsets, kScales});
}

int LookupRun::WeightsGradient(uint8_t* left) {
  enum { kOf, kOffsets, kRows, kGiven, kOrderOfGiven };  // inputs: operations/bag_weights.py
  std::vector<WeightsMember> members(size(), WeightsMember());
  for (int t = 0; t < size(); ++t) {
    const TensorInfo &gradient = input(t, kOf), &offsets = input(t, kOffsets), &rows = input(t, kRows);
    const TensorInfo &given = input(t, kGiven), &order = input(t, kOrderOfGiven);
    const int64_t dim = facts_[t].dim;
    left[t] = gradient.elements != (offsets.elements - 1) * dim || rows.elements != given.elements * dim ||
              (order.elements != 0 && order.elements != given.elements);
    if (left[t]) continue;
    void* out;
    const int code = Output(t, 0, {given.elements}, &out);
    if (code != 0) return code;
    WeightsMember& m = members[t];
    m.gradient = static_cast<const char*>(gradient.data);
    m.gradient_half = gradient.dtype == tf::DT_HALF;
    m.rows = static_cast<const char*>(rows.data);
    m.rows_half = rows.dtype == tf::DT_HALF;
    m.dim = dim;
    m.offsets = static_cast<const i64*>(offsets.data);
    m.n_bags = offsets.elements - 1;
    m.n = given.elements;
    m.mean = facts_[t].mean;
    m.order = order.elements == 0 ? nullptr : static_cast<const i32*>(order.data);
    m.weights = static_cast<const float*>(given.data);
    m.out = static_cast<float*>(out);
  }
  return Done(steps_->weights(Work(), members.data(), size()));
}

}  // namespace sok1x
