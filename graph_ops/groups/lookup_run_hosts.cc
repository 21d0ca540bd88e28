// See lookup_run.h: lookups and gradients on several ranks where exchanges go by hosts. What a rank asks goes to the
// rank of its own host that has the owner's local number. This one makes the keys of all ranks of the host distinct,
// asks the owners for them as if they were its own, and passes their rows on; gradients go the same way, added up on
// it.
#include <algorithm>

#include "lookup_run.h"

namespace sok1x {

int LookupRun::NearAsk(int ranks, const int64_t* given, const int64_t* taken, const int64_t* sent,
                       const int64_t* begins, bool whole, int64_t* pointers, int64_t* gives, int64_t* takes) {
  if (!TakeBatches()) return kTooManyDimensions;
  const int count = size();
  ranks_ = ranks;
  near_given_.assign(given, given + count * ranks);
  near_taken_.assign(taken, taken + count * ranks);
  int code = MakeKeys(&near_keys_, ranks, near_taken_);
  Buffer collected;
  if (code == 0) code = Collect(ranks, near_given_, sent, begins, whole, &collected);
  if (code == 0) Tell(collected, near_keys_, pointers, gives, takes);
  return code;
}

int LookupRun::NearRelay(int64_t* counts, int64_t* begins, int64_t* sent) {
  const int count = size();
  int64_t total = 0;
  for (int t = 0; t < count; ++t) total += near_keys_.rows_of(t);
  i64* const values = Numbers(total);
  i64* const by_owner = Numbers(total);
  i32* const position = reinterpret_cast<i32*>(Scratch(4 * total));
  i64* const distinct = Numbers(count + count * ranks_);  // and behind it keys for each owner, [N, T]
  if (values == nullptr || by_owner == nullptr || position == nullptr || distinct == nullptr) {
    return Done(GROUP_NO_MEMORY);
  }
  std::vector<UniqueMember> keys_of(count, UniqueMember());
  std::vector<PartitionMember> parts(count, PartitionMember());
  relayed_.assign(count, nullptr);
  int64_t first = 0;
  for (int t = 0; t < count; ++t) {
    UniqueMember& m = keys_of[t];
    PartitionMember& p = parts[t];
    m.n = near_keys_.rows_of(t);
    const int code = Output(t, places_.relayed, {m.n}, &relayed_[t]);
    if (code != 0) return code;
    m.keys = near_keys_.of(t);
    m.key_type = kKeyInt64;
    m.values = values + first;
    m.inverse = static_cast<i32*>(relayed_[t]);
    p.values = m.values;
    p.n = p.n_inverse = m.n;
    p.position = position + first;
    p.inverse = m.inverse;
    p.parts = facts_[t].parts_of(ranks_);
    p.first = facts_[t].first;
    first += m.n;
  }
  int code = Done(steps_->unique(Work(), keys_of.data(), count, distinct));
  if (code == 0) {
    code = Done(steps_->partition(Work(), parts.data(), count, distinct, ranks_, distinct + count, by_owner));
  }
  std::vector<i64> numbers(count * ranks_);
  if (code == 0) code = Done(steps_->read(Work(), distinct + count, numbers.size(), numbers.data()));
  if (code != 0) return code;
  int64_t at = 0;
  for (int i = 0; i < count * ranks_; ++i) {
    const int r = i / count, t = i % count;
    counts[t * ranks_ + r] = numbers[i];
    begins[t * ranks_ + r] = at;
    at += numbers[i];
  }
  std::fill(sent, sent + count, reinterpret_cast<int64_t>(by_owner));
  return 0;
}

int LookupRun::NearAnswer(int64_t* pointers, int64_t* gives, int64_t* takes) {
  const int count = size();
  std::vector<int64_t> row_bytes(count);
  for (int t = 0; t < count; ++t) row_bytes[t] = facts_[t].row_bytes();
  passed_on_ = std::move(values_);
  int code = MakeRows(ranks_, near_given_, near_taken_, row_bytes, nullptr);
  if (code != 0) return code;
  std::vector<GatherMember> rows;
  for (int t = 0; t < count; ++t) {
    const i64 half = facts_[t].half;
    rows.push_back({passed_on_.of(t), half, facts_[t].dim, answers_.rows_of(t), static_cast<const i32*>(relayed_[t]),
                    nullptr, answers_.of(t), half});
  }
  code = Gather(rows);
  Tell(answers_, values_, pointers, gives, takes);
  return code;
}

const int64_t* LookupRun::Counted(int t) const {
  return static_cast<const int64_t*>(member(t)->inputs.back().data) + by_bag_;
}

int LookupRun::NearSum(int64_t* pointers, int64_t* gives, int64_t* takes) {
  const int count = size();
  std::vector<int64_t> given(count * ranks_), taken(count * ranks_), row_bytes(count);
  for (int t = 0; t < count; ++t) {
    row_bytes[t] = GradientRowBytes(input(t, kGradient), facts_[t].dim);
    if (left_[t]) continue;
    const int64_t* const counts = Counted(t) + 2 * ranks_;
    std::copy(counts, counts + ranks_, &given[t * ranks_]);
    std::copy(counts + ranks_, counts + 2 * ranks_, &taken[t * ranks_]);
  }
  passed_on_ = std::move(answers_);
  int code = MakeRows(ranks_, given, taken, row_bytes, nullptr);
  if (code != 0) return code;
  std::vector<SumMember> members(count, SumMember());
  for (int t = 0; t < count; ++t) {
    SumMember& m = members[t];
    m.dim = facts_[t].dim;
    if (left_[t]) continue;
    const TensorInfo& relayed = input(t, places_.relayed);
    m.values = passed_on_.of(t);
    m.values_half = input(t, kGradient).dtype == tf::DT_HALF;
    m.segments = static_cast<const i32*>(relayed.data);
    m.n = relayed.elements;
  }
  code = SumForOthers(&members);
  Tell(values_, answers_, pointers, gives, takes);
  return code;
}

}  // namespace sok1x
