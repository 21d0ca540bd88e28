// See lookup_run.h: rows made distinct by the lookup itself, which ahead.h says more of.
#include <utility>

#include "../bridge/bridge_calls.h"
#include "ahead.h"
#include "lookup_run.h"

namespace sok1x {

namespace {

// Inputs and outputs of the op that makes rows distinct: operations/distinct_rows.py.
enum DistinctPlace { kInverseIn, kRowsIn, kRequestedIn };

}  // namespace

const void* LookupRun::TableOf(int t) const { return member(t)->variables[facts_[t].stamps_at].get(); }

bool LookupRun::StartAhead() {
  ahead_.clear();
  if (!on_gpu() && !Ahead::Get()->on_hosts()) return false;
  int64_t total = 0;
  std::vector<uint8_t> wanted(size());
  for (int t = 0; t < size(); ++t) {
    // Rows of a table that forgets may go to other keys before the op comes.
    wanted[t] = codes_[t] == 0 && found_[t].n > 0 && !facts_[t].forgets() && facts_[t].stamps_at >= 0 &&
                Ahead::Get()->Wanted(TableOf(t), member(t)->context->step_id());
    if (wanted[t]) total += Aligned(found_[t].n);
  }
  if (total == 0) return false;
  // Where memory is scarce the op does it.
  tf::OpKernelContext* const context = member(0)->context;
  if (!context->allocate_temp(tf::DT_INT64, tf::TensorShape({total}), &ahead_values_).ok() ||
      !context->allocate_temp(tf::DT_INT32, tf::TensorShape({total}), &ahead_inverse_).ok()) {
    return false;
  }
  group_->Touch();
  ahead_.assign(size(), UniqueMember());
  int64_t begin = 0;
  for (int t = 0; t < size(); ++t) {
    if (!wanted[t]) continue;
    UniqueMember& m = ahead_[t];
    m.keys.base = reinterpret_cast<char*>(found_[t].rows);
    m.key_type = kKeyInt32;
    m.n = found_[t].n;
    m.values = const_cast<i64*>(reinterpret_cast<const i64*>(ahead_values_.tensor_data().data())) + begin;
    m.inverse = const_cast<i32*>(reinterpret_cast<const i32*>(ahead_inverse_.tensor_data().data())) + begin;
    begin += Aligned(m.n);
  }
  return true;
}

void LookupRun::CountAhead(const int64_t* distinct) {
  ahead_counts_.assign(distinct, distinct + size());
  for (int t = 0; t < size(); ++t) {
    if (counts_[t] != 0) ahead_counts_[t] = -1;  // its rows are not all there yet
  }
}

void LookupRun::PutAhead(const uint8_t* left) {
  for (size_t t = 0; t < ahead_.size(); ++t) {
    const int64_t n = ahead_[t].n;
    if (n == 0 || left[t] || ahead_counts_[t] < 0) continue;
    const int64_t first = ahead_[t].values - reinterpret_cast<const i64*>(ahead_values_.tensor_data().data());
    Request* const request = member(t);
    const int place = ranks_ == 1 ? places_.inverse : places_.requested;
    Ahead::Get()->Put(TableOf(t), {request->context->step_id(), *request->Output(place),
                                   ahead_values_.Slice(first, first + n), ahead_inverse_.Slice(first, first + n),
                                   ahead_counts_[t]});
  }
  ahead_.clear();
  ahead_values_ = ahead_inverse_ = tf::Tensor();
}

int64_t LookupRun::TakeAhead(bool alone, int64_t* counts, std::vector<UniqueMember>* members) {
  const int place = alone ? kInverseIn : kRequestedIn;
  int64_t left = 0;
  for (int t = 0; t < size(); ++t) {
    Request* const request = member(t);
    const TensorInfo& at = input(t, place);
    Ahead::Made made;
    UniqueMember& m = (*members)[t];
    m.keys.base = static_cast<char*>(at.data);
    m.key_type = kKeyInt32;
    if (!Ahead::Get()->Take(request->variables[0].get(), request->context->step_id(), at.data, at.elements, &made)) {
      m.n = at.elements;
      left += m.n;
      continue;
    }
    m.values = const_cast<i64*>(reinterpret_cast<const i64*>(made.values.tensor_data().data()));
    counts[t] = made.count;
    request->SetOutput(place, made.inverse);
    group_->Keep(made.values);
  }
  return left;
}

}  // namespace sok1x
