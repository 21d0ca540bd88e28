// See lookup_run.h: lookups on several ranks.
#include <algorithm>
#include <numeric>

#include "lookup_run.h"

namespace sok1x {

int LookupRun::Prepare(int ranks, bool training, bool pairs, int width, int64_t* headers, int64_t* begins,
                       int64_t* sent, uint8_t* left) {
  if (!TakeBatches()) return kTooManyDimensions;
  int code = CheckBatches();
  if (code != 0) return code;
  const int count = size();
  int64_t total = 0;
  bool direct = false;
  offsets_.assign(count, nullptr);
  for (int t = 0; t < count; ++t) {
    if (batches_[t].fits) total += batches_[t].keys;
    direct = direct || !facts_[t].hashed;
  }
  i64* const values = Numbers(total);
  i64* const by_owner = Numbers(total);
  i32* const position = reinterpret_cast<i32*>(Scratch(4 * total));
  const int64_t faults = by_bag_ ? 3 * count : 0;  // before keys for each owner, [N, T]; and behind those, all keys
  const int64_t numbered = faults + count * ranks;
  i64* const distinct = Numbers(count + numbered + pairs * count * ranks);
  if (values == nullptr || by_owner == nullptr || position == nullptr || distinct == nullptr) {
    return Done(GROUP_NO_MEMORY);
  }
  i64* const counted = distinct + count;
  std::vector<UniqueMember> keys_of(count, UniqueMember());
  std::vector<PartitionMember> parts(count, PartitionMember());
  std::vector<int64_t> first_of(count);  // of all members' keys
  std::vector<int64_t> inverse(KeysThatFit());
  for (int t = 0; t < count; ++t) {
    if (facts_[t].exchange == kReduceScatter) inverse[t] = 0;
  }
  CutOutputs(places_.inverse, tf::DT_INT32, inverse);
  int64_t first = 0;
  for (int t = 0; t < count; ++t) {
    UniqueMember& m = keys_of[t];
    PartitionMember& p = parts[t];
    first_of[t] = first;
    if (batches_[t].fits) first += batches_[t].keys;
    m.values = values + first_of[t];
    p.parts = facts_[t].by_hosts() ? facts_[t].near_parts : facts_[t].parts_of(ranks);
    if (!batches_[t].fits) continue;
    code = by_bag_ ? Output(t, places_.offsets, {batches_[t].bags + 1}, &offsets_[t]) : 0;
    if (code != 0) return code;
    if (facts_[t].exchange == kReduceScatter) continue;  // by which all keys travel: lookup_run_sums.cc
    void* out;
    code = Output(t, places_.inverse, {batches_[t].keys}, &out);
    if (code != 0) return code;
    m.keys.base = static_cast<char*>(keys(t).data);
    m.key_type = KeyType(t);
    m.n = batches_[t].keys;
    m.inverse = static_cast<i32*>(out);
    p.values = m.values;
    p.n = p.n_inverse = m.n;
    p.position = position + first_of[t];
    p.inverse = m.inverse;
    p.first = facts_[t].by_hosts() ? facts_[t].near_first : facts_[t].first;
  }
  code = by_bag_ ? StartBags(counted) : 0;
  if (code == 0) code = Done(steps_->unique(Work(), keys_of.data(), count, distinct));
  if (code == 0) {
    code = Done(steps_->partition(Work(), parts.data(), count, distinct, ranks, counted + faults, by_owner));
  }
  if (code == 0 && pairs) code = StartPairs(ranks, nullptr, counted + numbered);
  std::vector<i64> numbers(numbered + pairs * count * ranks);
  if (code == 0) code = Done(steps_->read(Work(), counted, numbers.size(), numbers.data()));
  if (code != 0) return code;
  if (by_bag_) CheckBags(numbers.data());
  pair_counts_.assign(numbers.begin() + numbered, numbers.end());
  const i64* owned = numbers.data() + faults;
  int64_t at = 0;
  for (int r = 0; r < ranks; ++r) {
    for (int t = 0; t < count; ++t, ++owned) {
      headers[(t + 1) * width - ranks + r] = *owned;
      begins[t * ranks + r] = at;
      at += *owned;
    }
  }
  *sent = reinterpret_cast<int64_t>(by_owner);
  std::vector<i64> distinct_of(count);
  for (int t = 0; t < count; ++t) {
    int64_t* const header = headers + t * width;
    for (int r = 0; r < ranks; ++r) distinct_of[t] += header[width - ranks + r];
    header[kMark] = on_gpu();
    header[kFlag] = training;
    left[t] = !batches_[t].fits;
    if (!by_bag_) continue;
    header[kBags] = batches_[t].bags;
    header[kKeys] = batches_[t].keys;
    header[kDistinct] = facts_[t].exchange == kSettled ? -1 : distinct_of[t];
  }
  if (!direct) return 0;
  i32* const rows = reinterpret_cast<i32*>(Scratch(4 * total));
  i64* const missing = Numbers(count);
  if (rows == nullptr || missing == nullptr) return Done(GROUP_NO_MEMORY);
  std::vector<FindMember> asked(count, FindMember());
  for (int t = 0; t < count; ++t) {
    FindMember& m = asked[t];
    m.keys.base = reinterpret_cast<char*>(keys_of[t].values);
    m.key_type = kKeyInt64;
    m.n = facts_[t].hashed ? 0 : distinct_of[t];
    if (!facts_[t].hashed && batches_[t].fits && facts_[t].exchange == kReduceScatter) {
      m.keys.base = static_cast<char*>(keys(t).data);
      m.key_type = KeyType(t);
      m.n = batches_[t].keys;
    }
    m.ranks = facts_[t].parts_of(ranks);
    m.limit = facts_[t].keys_of(ranks);
    m.rows = rows + first_of[t];
  }
  std::vector<i64> outside(count);
  code = steps_->find(Work(), asked.data(), count, missing);
  if (code == 0) code = steps_->read(Work(), missing, count, outside.data());
  for (int t = 0; t < count; ++t) left[t] |= outside[t] > 0;
  return Done(code);
}

int LookupRun::ForwardAsk(int rank, int ranks, const int64_t* given_keys, const int64_t* taken_keys,
                          const int64_t* numbers, const int64_t* sent, const int64_t* begins, bool whole,
                          int64_t* pointers, int64_t* gives, int64_t* takes) {
  if (!TakeBatches()) return kTooManyDimensions;
  const int count = size();
  ranks_ = ranks;
  rank_ = rank;
  out_.resize(count);
  inverse_.resize(count);
  offsets_.resize(count);
  requested_.resize(count);
  const std::vector<int64_t> given(given_keys, given_keys + count * ranks);
  const std::vector<int64_t> taken(taken_keys, taken_keys + count * ranks);
  std::vector<int64_t> row_bytes(count), received(count);
  for (int t = 0; t < count; ++t) {
    received[t] = std::accumulate(&taken[t * ranks], &taken[t * ranks] + ranks, int64_t{0});
  }
  CutOutputs(places_.requested, tf::DT_INT32, received);
  for (int t = 0; t < count; ++t) {
    row_bytes[t] = facts_[t].row_bytes();
    void* data = nullptr;
    int code = Embeddings(t, &out_[t]);
    // `prepare` has filled these.
    if (code == 0) code = Output(t, places_.inverse, {batches_[t].keys}, &inverse_[t]);
    if (code == 0 && by_bag_) code = Output(t, places_.offsets, {batches_[t].bags + 1}, &offsets_[t]);
    if (code == 0) code = Output(t, places_.requested, {received[t]}, &requested_[t]);
    if (code == 0) code = Output(t, CountsPlace(t), {by_bag_ + facts_[t].counted(ranks) + 1}, &data);
    if (code != 0) return code;
    int64_t* saved = static_cast<int64_t*>(data);  // exchanges/ties.py
    if (by_bag_) *saved++ = kAll2All;
    const auto save = [&](const std::vector<int64_t>& counts) {
      saved = std::copy(&counts[t * ranks], &counts[t * ranks] + ranks, saved);
    };
    if (facts_[t].by_hosts()) {
      save(near_given_);
      save(near_taken_);
    }
    save(given);
    save(taken);
    *saved = numbers[t];
  }
  int code = MakeKeys(&keys_, ranks, taken);
  if (code == 0) code = MakeRows(ranks, given, taken, row_bytes, &answers_);
  if (code != 0) return code;
  Buffer collected;
  code = Collect(ranks, given, sent, begins, whole, &collected);
  if (code == 0) Tell(collected, keys_, pointers, gives, takes);
  return code;
}

int LookupRun::Collect(int ranks, const std::vector<int64_t>& given, const int64_t* sent, const int64_t* begins,
                       bool whole, Buffer* collected) {
  const int count = size();
  if (whole) {
    collected->base = reinterpret_cast<char*>(sent[0]);
    collected->unit = 8;
    collected->units.assign(ranks, 0);
    for (int i = 0; i < count * ranks; ++i) collected->units[i % ranks] += given[i];
    group_->Ready();
    return 0;
  }
  int code = MakeKeys(collected, ranks, given);
  Buffer prepared = *collected;  // the same sizes, where `Prepare` has left them
  for (int i = 0; i < count * ranks; ++i) prepared.offsets[i] = 8 * begins[i];
  prepared.side_by_side = false;
  if (code == 0) code = Place(&prepared);
  std::vector<GatherMember> copies(count, GatherMember());
  for (int t = 0; t < count; ++t) {
    prepared.base = reinterpret_cast<char*>(sent[t]);
    GatherMember& m = copies[t];
    m.source = prepared.of(t);
    m.dim = 2;  // a key moves as two 32-bit numbers
    m.n = collected->rows_of(t);
    m.out = collected->of(t);
  }
  if (code == 0) code = Done(steps_->gather(Work(), copies.data(), count));
  group_->Ready();
  return code;
}

void LookupRun::FindReceived(int t) {
  FindMember& m = found_[t];
  m.keys = keys_.of(t);
  m.key_type = kKeyInt64;
  m.n = keys_.rows_of(t);
  m.ranks = facts_[t].parts_of(ranks_);
  m.rows = static_cast<i32*>(requested_[t]);
  m.dim = facts_[t].dim;
  batches_[t].fits = true;  // which is known where it is prepared
  Open(t);
}

int LookupRun::Find(const std::vector<FindMember>& members, i64* missing, bool asks) {
  const int count = members.size();
  const bool numbered = asks && !ahead_.empty();
  int code = steps_->find(Work(), members.data(), count, missing);
  if (code == 0 && numbered) code = steps_->unique(Work(), ahead_.data(), count, missing + count);
  if (code == 0 && asks) code = steps_->ask(Work(), missing, numbered ? 2 * count : count);
  return code;
}

int LookupRun::ForwardAnswer(bool training, int64_t* missing, int64_t* fresh, int64_t* pointers, int64_t* gives,
                             int64_t* takes) {
  const int count = size();
  std::fill(fresh, fresh + count, 0);
  int code = Lock(training, training);
  if (code != 0) return code;
  found_.assign(count, FindMember());
  counts_.assign(count, 0);
  for (int t = 0; t < count; ++t) {
    found_[t].out = answers_.of(t);
    found_[t].out_half = facts_[t].half;
    FindReceived(t);
  }
  training_ = training;
  code = LookUpKeys(training);
  code = Answered(code, missing, fresh);
  Tell(answers_, values_, pointers, gives, takes);
  return code;
}

int LookupRun::Answered(int code, int64_t* missing, int64_t* fresh) {
  const int count = size();
  for (int t = 0; t < count; ++t) missing[t] = counts_[t] + (codes_[t] != 0);
  if (code == 0 && training_) code = Unseen(missing, fresh);
  for (int t = 0; t < count; ++t) missing[t] += !CanPin(t);
  if (code == 0 && !training_) code = LeaveNothing(nullptr);
  if (inserts_.empty()) group_->Unlock();
  return code;
}

int LookupRun::ForwardTake(const uint8_t* left) {
  const int count = size();
  PutAhead(left);
  const int touched = TouchLate(left);
  if (touched != 0) return touched;
  std::vector<GatherMember> rows;
  std::vector<CombineMember> bags;
  kept_.assign(count, nullptr);
  for (int t = 0; t < count; ++t) {
    if (left[t]) continue;
    int code = Nothing(t, {places_.rows, places_.all_offsets, facts_[t].by_hosts() ? -1 : places_.relayed});
    if (code != 0) return code;
    const auto* inverse = static_cast<const i32*>(inverse_[t]);
    Blocks out = Blocks();
    out.base = static_cast<char*>(out_[t]);
    const i64 half = facts_[t].half, keys = batches_[t].keys;
    if (by_bag_) {
      bags.push_back({values_.of(t), half, facts_[t].dim, inverse, static_cast<const i64*>(offsets_[t]),
                      batches_[t].bags, keys, facts_[t].mean, out, half, nullptr, nullptr});
      code = Weigh(t, &bags.back());
      if (code == 0) code = LeaveInOrder(t);
      if (code != 0) return code;
      if (facts_[t].kept == 0) continue;
      out.base = static_cast<char*>(kept_[t]);
    }
    rows.push_back({values_.of(t), half, facts_[t].dim, keys, inverse, nullptr, out, half});
  }
  const int code = bags.empty() ? 0 : Done(steps_->combine(Work(), bags.data(), bags.size()));
  return code ? code : Gather(rows);
}

}  // namespace sok1x
