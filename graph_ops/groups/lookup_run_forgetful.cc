// See lookup_run.h: tables that forget. A group serves their lookups until rows must leave, or the table must grow;
// stores/forgetful_store.py says what is done here, and does the rest.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "../bridge/bridge_calls.h"
#include "../bridge/bridge_named.h"
#include "../bridge/bridge_pins.h"
#include "lookup_run.h"

namespace sok1x {

namespace {

// Places in a table's `counters`, and a number there. Kept in step with stores/forgetting.py and stores/repair.py.
enum Counter { kTick, kFree, kEvicted, kKnown, kAdmitted };
constexpr i64 kUnknownStep = i64{1} << 62;

template <typename Type>
void SplitWords(double value, ResetMember* reset) {
  const Type number = static_cast<Type>(value);
  i32 words[2];
  std::memcpy(words, &number, sizeof(number));
  reset->low = words[0];
  reset->high = words[sizeof(number) / 4 - 1];
}

// A slot's variable, as it is locked; false where it is none that rows can begin anew in.
bool BeginsAnew(const TensorInfo& slot, double value, i64 rows, ResetMember* reset) {
  if (slot.rank == 0 || slot.dims[0] < rows || rows == 0) return false;
  const i64 numbers = slot.elements / slot.dims[0];
  reset->data = static_cast<i32*>(slot.data);
  switch (slot.dtype) {
    case tf::DT_FLOAT: SplitWords<float>(value, reset); break;
    case tf::DT_INT32: SplitWords<i32>(value, reset); break;
    case tf::DT_DOUBLE: SplitWords<double>(value, reset); break;
    case tf::DT_INT64: SplitWords<i64>(value, reset); break;
    default: return false;
  }
  const bool wide = slot.dtype == tf::DT_DOUBLE || slot.dtype == tf::DT_INT64;
  reset->words = numbers * (wide ? 2 : 1);
  return true;
}

// How many keys were new in the last lookups of tables, by their rows' variables. One that is gone leaves its number to
// whoever gets its place: it is a guess for him, too.
class NewKeys {
 public:
  void Note(const tf::Var* table, i64 count) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (counts_.size() >= kMost) counts_.clear();
    counts_[table] = count;
  }
  // Once: who has been misled by it is not so again.
  i64 Take(const tf::Var* table) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = counts_.find(table);
    if (found == counts_.end()) return 0;
    const i64 count = found->second;
    counts_.erase(found);
    return count;
  }

 private:
  static constexpr size_t kMost = 10000;
  std::mutex mutex_;
  std::unordered_map<const tf::Var*, i64> counts_;
};

NewKeys* new_keys() {
  static NewKeys* const known = new NewKeys();
  return known;
}

}  // namespace

bool LookupRun::AnyForgets() const {
  for (int t = 0; t < size(); ++t) {
    if (facts_[t].forgets()) return true;
  }
  return false;
}

bool LookupRun::CanPin(int t) const {
  return !training_ || !facts_[t].forgets() || member(t)->context->step_container() != nullptr;
}

void LookupRun::ReachSlots() {
  reached_.assign(size(), {});
  resets_.assign(size(), {});
  unreached_.assign(size(), 0);
  for (int t = 0; t < size(); ++t) {
    Request* const request = member(t);
    if (!facts_[t].forgets() || request == nullptr) continue;
    const SlotsOf* const known = *facts_[t].slots_of;
    unreached_[t] = known == nullptr;
    for (i64 i = 0; known != nullptr && i < known->count; ++i) {
      const SlotsOf::Slot& slot = known->slots[i];
      tf::core::RefCountPtr<tf::Var> found = FindVariable(request, slot.container, slot.name);
      if (found == nullptr) continue;
      tf::tf_shared_lock lock(*found->mu());
      if (!HasValue(found.get())) continue;
      reached_[t].push_back({static_cast<int>(request->variables.size()), slot.value});
      request->variables.push_back(std::move(found));
    }
    width_ = std::max(width_, static_cast<int>(request->variables.size()));
  }
}

void LookupRun::TakeSlots() {
  for (int t = 0; t < size(); ++t) {
    if (reached_[t].empty()) continue;
    for (const Reached& slot : reached_[t]) {
      resets_[t].emplace_back();
      if (codes_[t] == 0 &&
          !BeginsAnew(variable(t, slot.place), slot.value, variable(t, 0).dims[0], &resets_[t].back())) {
        unreached_[t] = 1;
      }
    }
    member(t)->variables.resize(reached_[t][0].place);
  }
}

UseMember LookupRun::UseOf(int t) const {
  const LookupFacts& facts = facts_[t];
  UseMember use = UseMember();
  use.used = static_cast<i64*>(variable(t, facts.used_at).data);
  use.frequency = facts.frequency_at < 0 ? nullptr : static_cast<i64*>(variable(t, facts.frequency_at).data);
  use.tick = CountersOf(t) + kTick;
  use.known = CountersOf(t) + kKnown;
  use.unknown = kUnknownStep;
  use.clock = static_cast<const i64*>(variable(t, facts.clock_at).data);
  return use;
}

const i64* LookupRun::FreeOf(int t) const { return CountersOf(t) + kFree; }

bool LookupRun::LacksRoom(int t) const {
  const LookupFacts& facts = facts_[t];
  if (!facts.forgets() || on_gpu() || codes_[t] != 0 || !batches_[t].fits) return false;
  const i64 given = *static_cast<const i64*>(variable(t, facts.count_at).data);
  return new_keys()->Take(member(t)->variables[0].get()) > *FreeOf(t) + variable(t, 0).dims[0] - given;
}

bool LookupRun::WhereFree(int t, int64_t lacking, int64_t given, int64_t free, InsertMember* insert) const {
  const LookupFacts& facts = facts_[t];
  if (!on_gpu()) new_keys()->Note(member(t)->variables[0].get(), lacking);
  const i64 more = std::max<i64>(0, lacking - free);
  if (facts.filters || facts.kind < 0 || free < 0 || free > given || given + more > variable(t, 0).dims[0] ||
      unreached_[t]) {
    return false;
  }
  insert->use = UseOf(t);
  insert->free = static_cast<const i64*>(variable(t, facts.free_at).data);
  insert->n_free = free;
  insert->free_count = CountersOf(t) + kFree;
  insert->admitted = CountersOf(t) + kAdmitted;
  insert->resets = resets_[t].data();
  insert->n_resets = resets_[t].size();
  return true;
}

int LookupRun::Touch(const uint8_t* left) {
  touched_ = true;
  if (!training_) return 0;
  std::vector<TouchMember> members;
  for (int t = 0; t < size(); ++t) {
    if (!facts_[t].forgets() || left[t] || codes_[t] != 0) continue;
    const tf::Status status = Pins::Get()->Look(member(t), member(t)->variables[0].get());
    if (!status.ok()) {
      error_ = MessageOf(status);
      failed_ = t;
      return kInternal;
    }
    members.push_back({UseOf(t), found_[t].rows, found_[t].n});
  }
  return members.empty() ? 0 : Done(steps_->touch(Work(), members.data(), members.size()));
}

int LookupRun::TouchLate(const uint8_t* left) {
  if (!training_ || touched_ || !AnyForgets()) return 0;
  int code = Lock(true);
  if (code == 0) code = Touch(left);
  group_->Unlock();
  return code;
}

int LookupRun::LeaveNothing(const uint8_t* left) {
  std::vector<TouchMember> members;
  for (int t = 0; t < size(); ++t) {
    if (!facts_[t].forgets() || codes_[t] != 0 || (left != nullptr && left[t])) continue;
    members.push_back({UseMember(), found_[t].rows, found_[t].n});
  }
  return members.empty() ? 0 : Done(steps_->leave_out(Work(), members.data(), members.size()));
}

}  // namespace sok1x
