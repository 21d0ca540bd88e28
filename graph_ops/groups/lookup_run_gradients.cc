// See lookup_run.h: rows made distinct, and gradients on several ranks.
#include <algorithm>
#include <utility>

#include "../bridge/bridge_calls.h"
#include "kept_sums.h"
#include "lookup_run.h"

namespace sok1x {

bool LookupRun::Fits(int t) const {
  const TensorInfo& gradient = input(t, kGradient);
  const int64_t rows = by_bag_ ? input(t, places_.offsets).elements - 1 : input(t, places_.inverse).elements;
  if (facts_[t].weighted && input(t, kScales).elements != input(t, places_.inverse).elements) return false;
  return gradient.elements == rows * facts_[t].dim &&
         (gradient.dtype == tf::DT_FLOAT || gradient.dtype == tf::DT_HALF);
}

SumMember LookupRun::Terms(int t) const {
  const TensorInfo &gradient = input(t, kGradient), &inverse = input(t, places_.inverse);
  SumMember m = SumMember();
  m.values.base = static_cast<char*>(gradient.data);
  m.values_half = gradient.dtype == tf::DT_HALF;
  m.dim = facts_[t].dim;
  m.segments = static_cast<const i32*>(inverse.data);
  m.n = inverse.elements;
  if (by_bag_ && !GradientOfOneEach(t)) {
    const TensorInfo& offsets = input(t, places_.offsets);
    m.offsets = static_cast<const i64*>(offsets.data);
    m.n_bags = offsets.elements - 1;
    m.mean = facts_[t].mean;
    if (facts_[t].weighted) m.scales = static_cast<const float*>(input(t, kScales).data);
  }
  return m;
}

int LookupRun::Distinct(bool alone, const int64_t* ahead, int64_t* at_least, int64_t* rows, int64_t* counts,
                        uint8_t* left) {
  enum { kInverseIn, kRowsIn, kRequestedIn };  // inputs and outputs: operations/distinct_rows.py
  const int place = alone ? kInverseIn : kRequestedIn, other = kRequestedIn - place;
  std::vector<UniqueMember> members(size(), UniqueMember());
  const int64_t total = TakeAhead(alone, counts, &members);
  i64* values = Numbers(total);
  i64* const found = Numbers(size());
  if (values == nullptr || found == nullptr) return Done(GROUP_NO_MEMORY);
  for (int t = 0; t < size(); ++t) {
    UniqueMember& m = members[t];
    Request* request = member(t);
    request->SetOutput(other, request->Input(other));
    if (m.values != nullptr) continue;
    void* inverse;
    const int code = Output(t, place, {m.n}, &inverse);
    if (code != 0) return code;
    m.values = values;
    m.inverse = static_cast<i32*>(inverse);
    values += m.n;
  }
  int code = 0;
  if (total > 0) {
    std::vector<int64_t> counted(size());
    code = Done(steps_->unique(Work(), members.data(), size(), found));
    if (code == 0) code = Done(steps_->read(Work(), found, size(), reinterpret_cast<i64*>(counted.data())));
    for (int t = 0; t < size(); ++t) {
      if (members[t].n > 0) counts[t] = counted[t];
    }
  }
  if (code != 0) return code;
  CutOutputs(kRowsIn, tf::DT_INT32, std::vector<int64_t>(counts, counts + size()));
  std::vector<StampMember> stamps(size(), StampMember());
  for (int t = 0; t < size(); ++t) {
    void* out = nullptr;
    code = Output(t, kRowsIn, {counts[t]}, &out);
    if (code != 0) return code;
    rows[t] = reinterpret_cast<int64_t>(out);
    if (facts_[t].global_step) {
      const TensorInfo& step = member(t)->inputs.back();
      at_least[t] = 1 + (step.dtype == tf::DT_INT32 ? *static_cast<int32_t*>(step.data)
                                                    : *static_cast<int64_t*>(step.data));
    }
    StampMember& m = stamps[t];
    m.values = members[t].values;
    m.rows = static_cast<i32*>(out);
    m.n = counts[t];
    m.ahead = ahead[t];
    m.at_least = at_least[t];
  }
  code = Lock(true);
  if (code != 0) return code;
  for (int t = 0; t < size(); ++t) {
    left[t] = codes_[t] != 0;
    if (left[t]) continue;  // without stamps nothing is stamped
    stamps[t].stamps = static_cast<i64*>(variable(t, 0).data);
    stamps[t].table_rows = variable(t, 0).elements;
    stamps[t].clock = static_cast<i64*>(variable(t, 1).data);
  }
  code = Done(steps_->stamp(Work(), stamps.data(), size()));
  group_->Unlock();
  return code;
}

int LookupRun::BackwardHeaders(int width, int64_t* headers, uint8_t* fits) {
  for (int t = 0; t < size(); ++t) {
    const TensorInfo& counts = member(t)->inputs.back();
    fits[t] = Fits(t) && counts.elements == width - 2;
    if (!fits[t]) continue;
    const auto* from = static_cast<const int64_t*>(counts.data);
    std::copy(from, from + counts.elements, headers + t * width + 2);
  }
  return 0;
}

int LookupRun::BackwardSend(int rank, int ranks, int width, const int64_t* headers, bool counted, uint8_t* left,
                            int64_t* pointers, int64_t* gives, int64_t* takes) {
  const int count = size();
  ranks_ = ranks;
  rank_ = rank;
  left_.assign(count, 0);
  std::vector<int64_t> given(count * ranks), taken(count * ranks), row_bytes(count);
  for (int t = 0; t < count; ++t) {
    const auto number_of = [=](int r) { return headers + (int64_t{t} * ranks + r + 1) * width - 1; };
    for (int r = 0; r < ranks; ++r) {
      left_[t] |= *number_of(r) != *number_of(0);
      const int64_t* const sends = number_of(r) - 2 * ranks;
      for (int to = 0; to < ranks && counted; ++to) left_[t] |= sends[to] != *(number_of(to) - ranks + r);
    }
    if (!left_[t]) {
      std::copy(Counted(t), Counted(t) + ranks, &given[t * ranks]);
      std::copy(Counted(t) + ranks, Counted(t) + 2 * ranks, &taken[t * ranks]);
    }
    left[t] = left_[t];
    row_bytes[t] = GradientRowBytes(input(t, kGradient), facts_[t].dim);
  }
  int code = MakeRows(ranks, given, taken, row_bytes, &values_);
  if (code != 0) return code;
  std::vector<SumMember> members(count, SumMember());
  for (int t = 0; t < count; ++t) {
    members[t].dim = facts_[t].dim;
    if (!left_[t]) members[t] = Terms(t);
  }
  code = SumForOthers(&members);
  Tell(values_, answers_, pointers, gives, takes);
  return code;
}

int LookupRun::SumForOthers(std::vector<SumMember>* members) {
  int64_t wide = 0;
  for (int t = 0; t < size(); ++t) {
    SumMember& m = (*members)[t];
    if (left_[t]) continue;
    m.num_segments = values_.rows_of(t);
    (m.values_half ? m.half : m.sums) = values_.of(t);
    if (m.values_half) wide += m.num_segments * m.dim;
  }
  if (wide > 0) {  // summed as float32 elsewhere, and rounded once into what is sent
    float* at = reinterpret_cast<float*>(Scratch(4 * wide));
    if (at == nullptr) return Done(GROUP_NO_MEMORY);
    for (SumMember& m : *members) {
      if (!m.values_half) continue;
      m.sums.base = reinterpret_cast<char*>(at);
      at += m.num_segments * m.dim;
    }
  }
  return Done(steps_->segment_sum(Work(), members->data(), size()));
}

int LookupRun::BackwardTake() {
  std::vector<SumMember> members(size(), SumMember());
  for (int t = 0; t < size(); ++t) TakeTerms(t, &members[t]);
  return SumIntoOutputs(&members, {places_.requested});
}

void LookupRun::TakeTerms(int t, SumMember* m) {
  m->dim = facts_[t].dim;
  if (left_[t]) return;
  const TensorInfo& requested = input(t, places_.requested);
  m->values = answers_.of(t);
  m->values_half = input(t, kGradient).dtype == tf::DT_HALF;
  m->segments = static_cast<const i32*>(requested.data);
  m->n = requested.elements;
}

int LookupRun::SumIntoOutputs(std::vector<SumMember>* members, std::initializer_list<int> inputs) {
  std::vector<SumMember> summed(size(), SumMember());
  std::vector<std::pair<int, tf::Tensor>> kept;
  std::vector<int64_t> keep(size());  // numbers in sums of which there is nothing yet but their place
  for (int t = 0; t < size(); ++t) {
    // An op's own `run` may have given it its output before it failed.
    const bool keeps = !left_[t] && member(t)->keeps_sums && member(t)->Output(0) == nullptr;
    keep[t] = keeps ? input(t, places_.rows).elements * (*members)[t].dim : 0;
  }
  const std::vector<tf::Tensor> places = Cut(tf::DT_FLOAT, keep);
  for (int t = 0; t < size(); ++t) {
    SumMember& m = (*members)[t];
    summed[t].dim = m.dim;
    if (left_[t]) continue;
    Request* const request = member(t);
    m.num_segments = input(t, places_.rows).elements;
    void* out = nullptr;
    if (keep[t] == 0) {
      const int code = Output(t, 0, {m.num_segments, m.dim}, &out);
      if (code != 0) return code;
      m.sums.base = static_cast<char*>(out);
      summed[t] = m;
      continue;
    }
    tf::Tensor sums;
    const tf::TensorShape shape({m.num_segments, m.dim});
    const int64_t dims[] = {m.num_segments, m.dim};
    if (places.empty() || !sums.CopyFrom(places[t], shape)) {
      const int code = Made(t, 0, 2, dims, Report(request->context->allocate_temp(tf::DT_FLOAT, shape, &sums)));
      if (code != 0) return code;
    }
    m.sums.base = const_cast<char*>(sums.tensor_data().data());
    kept.emplace_back(t, sums);
  }
  const int code = static_cast<int>(kept.size()) == size()
      ? 0 : Done(steps_->segment_sum(Work(), summed.data(), summed.size()));
  if (code != 0 || kept.empty()) return code;
  // What members have been sent lies in the group's memory; where its blocks begin, on hosts in the buffer itself.
  struct Received {
    std::shared_ptr<Group::Blocks> blocks;
    Buffer buffer;
  };
  std::shared_ptr<Received> received;
  if (ranks_ > 1) received.reset(new Received{group_->Lend(), std::move(answers_)});
  for (const auto& each : kept) {
    Request* const request = member(each.first);
    std::vector<tf::Tensor> needs;
    for (int place : inputs) {
      if (place < 0 || (place == kScales && !facts_[each.first].weighted)) continue;
      needs.push_back(request->Input(place));
    }
    request->SetOutput(0, KeptSums::Keep(each.second, {(*members)[each.first], steps_, work_.device}, needs, received));
  }
  return 0;
}

}  // namespace sok1x
