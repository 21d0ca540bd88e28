// See lookup_run.h: keys that have no row yet.
#include <algorithm>

#include "lookup_run.h"

namespace sok1x {

int LookupRun::Unseen(int64_t* missing, int64_t* fresh) {
  std::vector<const void*> tables;  // of two lookups of one table that have new keys the second comes later
  inserted_.clear();
  int64_t total = 0;
  for (int t = 0; t < size(); ++t) {
    const bool fits = batches_[t].fits;
    if ((missing[t] == 0 && fits) || codes_[t] != 0 || !facts_[t].hashed) continue;
    if (std::find(tables.begin(), tables.end(), found_[t].table) != tables.end()) continue;
    tables.push_back(found_[t].table);
    if (!fits) continue;  // what it inserts comes first, too
    inserted_.push_back(t);
    total += found_[t].n;
  }
  const int count = inserted_.size();
  if (count == 0) return 0;
  i64* values = Numbers(total);
  i32* numbers = reinterpret_cast<i32*>(Scratch(8 * total));  // inverse, then rows
  i64* const counted = Numbers(2 * count);
  if (values == nullptr || numbers == nullptr || counted == nullptr) return Done(GROUP_NO_MEMORY);
  std::vector<UniqueMember> keys(count, UniqueMember());
  std::vector<FindMember> asked(count, FindMember());
  std::vector<const i64*> numbers_at(2 * count);  // rows that have been given out, and of tables that forget free ones
  for (int i = 0; i < count; ++i) {
    const FindMember& from = found_[inserted_[i]];
    UniqueMember& m = keys[i];
    m.keys = from.keys;
    m.key_type = from.key_type;
    m.n = from.n;
    m.values = values;
    m.inverse = numbers;
    FindMember& a = asked[i];
    a.keys.base = reinterpret_cast<char*>(values);
    a.key_type = kKeyInt64;
    a.index = from.index;
    a.capacity = from.capacity;
    a.ranks = 1;
    a.rows = numbers + total;
    const int t = inserted_[i];
    numbers_at[i] = static_cast<const i64*>(variable(t, facts_[t].count_at).data);
    numbers_at[count + i] = facts_[t].forgets() ? FreeOf(t) : numbers_at[i];
    values += from.n;
    numbers += from.n;
  }
  std::vector<i64> distinct(count), lacking(count), used(2 * count);
  int code = steps_->unique(Work(), keys.data(), count, counted);
  if (code == 0) code = steps_->read(Work(), counted, count, distinct.data());
  for (int i = 0; i < count; ++i) asked[i].n = distinct[i];
  if (code == 0) code = steps_->find(Work(), asked.data(), count, counted + count);
  if (code == 0) code = steps_->read(Work(), counted + count, count, lacking.data());
  const int asks = AnyForgets() ? 2 * count : count;
  if (code == 0) code = steps_->read_each(Work(), numbers_at.data(), asks, used.data());
  if (code != 0) return Done(code);
  for (int i = 0; i < count; ++i) {
    const int t = inserted_[i];
    const TensorInfo& rows = variable(t, 0);
    InsertMember m = InsertMember();
    if (facts_[t].forgets() ? !WhereFree(t, lacking[i], used[i], used[count + i], &m)
                            : used[i] < 0 || used[i] + lacking[i] > rows.dims[0]) {
      member(t)->needs_rows = facts_[t].forgets() ? 0 : std::max<int64_t>(1, used[i] + lacking[i]);
      continue;  // its own `run` sees to it
    }
    missing[t] = 0;
    fresh[t] = lacking[i];
    m.index = const_cast<Slot*>(asked[i].index);
    m.capacity = asked[i].capacity;
    m.keys = keys[i].values;
    m.n = distinct[i];
    m.rows = asked[i].rows;
    m.used = used[i];
    m.fresh = lacking[i];
    m.count = const_cast<i64*>(numbers_at[i]);
    m.table = static_cast<float*>(rows.data);
    m.dim = facts_[t].dim;
    m.clock = static_cast<const i64*>(variable(t, facts_[t].clock_at).data);
    m.stamps = static_cast<i64*>(variable(t, facts_[t].stamps_at).data);
    inserted_[inserts_.size()] = t;
    inserts_.push_back(m);
  }
  inserted_.resize(inserts_.size());
  return 0;
}

int LookupRun::ForwardInsert(const NewRows* rows, const uint8_t* left) {
  std::vector<InsertMember> members;
  std::vector<FindMember> again;
  std::vector<CombineMember> bags;
  std::vector<GatherMember> kept;
  for (size_t i = 0; i < inserts_.size(); ++i) {
    const int t = inserted_[i];
    if (left[t]) continue;
    InsertMember m = inserts_[i];
    m.seed = facts_[t].seed;
    m.identity = facts_[t].identity;
    m.kind = facts_[t].kind;
    m.a = facts_[t].a;
    m.b = facts_[t].b;
    m.ahead = rows[t].ahead;
    m.at_least = rows[t].at_least;
    members.push_back(m);
    again.push_back(found_[t]);
    again.back().again = combined_.empty();
    if (combined_.empty()) continue;
    bags.push_back(combined_[t]);
    Keep(t, &kept);
  }
  inserts_.clear();
  int code = 0;
  if (!members.empty()) {
    sooner_ = false;  // rows for other ranks are made once more
    i64* const counted = Numbers(4 * again.size());
    code = counted == nullptr ? GROUP_NO_MEMORY : steps_->insert(Work(), members.data(), members.size());
    if (code == 0 && bags.empty()) {
      code = steps_->look_up(Work(), again.data(), again.size(), counted, nullptr, 0, nullptr);
    }
    if (code == 0 && by_sums_) {
      code = FindAndSum(again, bags, counted, false);
    } else if (code == 0 && !bags.empty()) {
      code = steps_->look_up_bags(Work(), again.data(), again.size(), bags.data(), counted, nullptr, nullptr);
    }
    if (code == 0 && !kept.empty()) code = steps_->gather(Work(), kept.data(), kept.size());
  }
  code = Done(code);
  if (code == 0) code = Touch(left);
  group_->Unlock();
  return code;
}

}  // namespace sok1x
