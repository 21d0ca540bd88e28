// See lookup_run.h: lookups by bag on several ranks, and their gradients, by reduce_scatter
// (exchanges/reduce_scatter.py): each key travels with its bag to its owner, which sums up what it has of each bag;
// partial sums travel back.
#include <algorithm>
#include <limits>

#include "lookup_run.h"

namespace sok1x {

int LookupRun::StartPairs(int ranks, const int64_t* keys_at, i64* counted) {
  const int count = size();
  int64_t total = 0;
  for (int t = 0; t < count; ++t) total += batches_[t].keys;
  i64* const by_owner = Numbers(total);
  i32* position = reinterpret_cast<i32*>(Scratch(4 * total));
  if (by_owner == nullptr || position == nullptr) return Done(GROUP_NO_MEMORY);
  std::vector<i64> lengths(count);
  std::vector<PartitionMember> parts(count, PartitionMember());
  pairs_.assign(count, PairsMember());
  for (int t = 0; t < count; ++t) {
    PairsMember& m = pairs_[t];
    const bool sorted = keys_at != nullptr && keys_at[t] != 0;
    m.keys = sorted ? reinterpret_cast<const void*>(keys_at[t]) : keys(t).data;
    m.key_type = sorted ? kKeyInt64 : KeyType(t);
    m.n = lengths[t] = batches_[t].keys;
    m.position = position;
    PartitionMember& p = parts[t];
    p.values = m.keys;
    p.key_type = m.key_type;
    p.n = m.n;
    p.position = position;
    p.parts = facts_[t].parts_of(ranks);
    p.first = facts_[t].first;
    position += m.n;
  }
  const void* arrays[] = {lengths.data()};
  const i64 nbytes[] = {8 * static_cast<i64>(count)};
  void* placed[1];
  int code = steps_->place(Work(), 1, arrays, nbytes, placed);
  if (code == 0) {
    code = steps_->partition(Work(), parts.data(), count, static_cast<i64*>(placed[0]), ranks, counted, by_owner);
  }
  return Done(code);
}

int LookupRun::PairsCount(int ranks, const int64_t* keys_at, int64_t* told) {
  const int count = size();
  ranks_ = ranks;
  by_sums_ = true;
  if (pair_counts_.empty()) {
    TakeBatches();
    i64* const counted = Numbers(count * ranks);
    if (counted == nullptr) return Done(GROUP_NO_MEMORY);
    pair_counts_.resize(count * ranks);
    int code = StartPairs(ranks, keys_at, counted);
    if (code == 0) code = Done(steps_->read(Work(), counted, pair_counts_.size(), pair_counts_.data()));
    if (code != 0) return code;
  }
  for (int t = 0; t < count; ++t) {
    for (int r = 0; r < ranks; ++r) {
      told[t * ranks + r] = pair_counts_[r * count + t];
      told[(count + t) * ranks + r] = batches_[t].bags;
    }
  }
  return 0;
}

int LookupRun::PairsAsk(int rank, const int64_t* told, const int64_t* heard, const int64_t* numbers, int64_t* pointers,
                        int64_t* gives, int64_t* takes) {
  const int count = size(), ranks = ranks_;
  rank_ = rank;
  out_.resize(count);
  offsets_.resize(count);
  requested_.resize(count);
  all_offsets_.resize(count);
  const std::vector<int64_t> given(told, told + count * ranks), taken(heard, heard + count * ranks);
  bags_.assign(heard + count * ranks, heard + 2 * count * ranks);
  for (int t = 0; t < count; ++t) {
    int64_t received = 0, all_bags = 0;
    for (int r = 0; r < ranks; ++r) {
      if (r == rank) pairs_[t].first = all_bags;
      received += taken[t * ranks + r];
      all_bags += bags_[t * ranks + r];
    }
    void* data = nullptr;
    int code = Embeddings(t, &out_[t]);
    if (code == 0) code = Output(t, places_.offsets, {batches_[t].bags + 1}, &offsets_[t]);  // `prepare` has filled it
    if (code == 0) code = Output(t, places_.requested, {received}, &requested_[t]);
    if (code == 0) code = Output(t, places_.all_offsets, {all_bags + 1}, &all_offsets_[t]);
    if (code == 0) code = Output(t, CountsPlace(t), {ranks + 2}, &data);
    if (code != 0) return code;
    int64_t* const saved = static_cast<int64_t*>(data);  // exchanges/ties.py
    saved[0] = kReduceScatter;
    std::copy(&bags_[t * ranks], &bags_[t * ranks] + ranks, saved + 1);
    saved[ranks + 1] = numbers[t];
    pairs_[t].offsets = static_cast<const i64*>(offsets_[t]);
    pairs_[t].n_bags = batches_[t].bags;
  }
  Buffer sent;
  const std::vector<int64_t> pair_bytes(count, kPairBytes);
  int code = Make(&sent, ranks, kPairBytes, given, pair_bytes);
  if (code == 0) code = Make(&keys_, ranks, kPairBytes, taken, pair_bytes);
  if (code == 0) code = Place(&sent);
  if (code == 0) code = Place(&keys_);
  if (code != 0) return code;
  for (int t = 0; t < count; ++t) pairs_[t].out = sent.of(t);
  code = Done(steps_->pairs(Work(), pairs_.data(), count));
  Tell(sent, keys_, pointers, gives, takes);
  return code;
}

int LookupRun::MakeSums() {
  const int count = size(), ranks = ranks_;
  std::vector<int64_t> row_bytes(count), taken(count * ranks);
  for (int t = 0; t < count; ++t) {
    row_bytes[t] = facts_[t].row_bytes();
    for (int r = 0; r < ranks; ++r) taken[t * ranks + r] = r == rank_ ? 0 : bags_[t * ranks + rank_];
  }
  int code = MakeRows(ranks, bags_, taken, row_bytes, nullptr);
  if (code != 0) return code;
  // What goes to others lies side by side; what stays here comes behind it, for it does not travel.
  int64_t before = 0, all = 0;
  for (int r = 0; r < ranks; ++r) {
    if (r < rank_) before += values_.units[r] * values_.unit;
    all += values_.units[r] * values_.unit;
  }
  const int64_t own = values_.units[rank_] * values_.unit;
  for (int t = 0; t < count; ++t) {
    for (int r = rank_; r < ranks; ++r) values_.offsets[t * ranks + r] += r == rank_ ? all - own - before : -own;
  }
  values_.units[rank_] = 0;
  values_.side_by_side = false;
  return Place(&values_);
}

int LookupRun::FindAndSum(const std::vector<FindMember>& members, const std::vector<CombineMember>& bags, i64* missing,
                          bool asks) {
  const int code = Find(members, missing, asks);
  if (code == 0 && asks && SendsSooner()) return CombineSooner(bags);
  return code ? code : steps_->combine(Work(), bags.data(), bags.size());
}

int LookupRun::PairsAnswer(bool training, int64_t* missing, int64_t* fresh, int64_t* pointers, int64_t* gives,
                           int64_t* takes) {
  const int count = size(), ranks = ranks_;
  std::fill(fresh, fresh + count, 0);
  // Bags of what has come, in its order: bag after bag.
  int64_t total = 0;
  for (int t = 0; t < count; ++t) total += keys_.rows_of(t);
  i64* bags = Numbers(total);
  i64* const counted = Numbers(3 * count);  // faults, of which there are none
  i64* const lacking = Numbers(2 * count);  // and how many rows are distinct
  if (bags == nullptr || counted == nullptr || lacking == nullptr) return Done(GROUP_NO_MEMORY);
  Buffer of_bags = keys_;
  for (int t = 0; t < count; ++t) {
    const i64* const starts = &keys_.starts[t * (ranks + 1)];
    for (int r = 0; r < ranks; ++r) of_bags.offsets[t * ranks + r] += 8 * (starts[r + 1] - starts[r]);
  }
  int code = Place(&of_bags);
  if (code == 0) code = MakeSums();
  if (code != 0) return code;
  std::vector<GatherMember> copies(count, GatherMember());
  std::vector<BagsMember> offsets(count, BagsMember());
  for (int t = 0; t < count; ++t) {
    GatherMember& copy = copies[t];
    copy.source = of_bags.of(t);
    copy.dim = 2;  // a number moves as two of 32 bits
    copy.n = keys_.rows_of(t);
    copy.out.base = reinterpret_cast<char*>(bags);
    BagsMember& m = offsets[t];
    m.bags = bags;
    m.stride = 1;
    m.n = copy.n;
    m.n_bags = values_.rows_of(t);
    m.most = std::numeric_limits<i64>::max();
    m.offsets = static_cast<i64*>(all_offsets_[t]);
    bags += copy.n;
  }
  code = Gather(copies);
  if (code == 0) code = Done(steps_->bag_offsets(Work(), offsets.data(), count, counted));
  if (code == 0) code = Lock(training, training);
  if (code != 0) return code;
  found_.assign(count, FindMember());
  counts_.assign(count, 0);
  combined_.assign(count, CombineMember());
  for (int t = 0; t < count; ++t) {
    FindReceived(t);
    CombineMember& m = combined_[t];
    m.source.base = reinterpret_cast<char*>(const_cast<float*>(found_[t].table));
    m.dim = facts_[t].dim;
    m.inverse = found_[t].rows;
    m.offsets = offsets[t].offsets;
    m.n_bags = codes_[t] != 0 ? 0 : offsets[t].n_bags;
    m.n_keys = found_[t].n;
    m.out = values_.of(t);
    m.out_half = facts_[t].half;
  }
  training_ = training;
  std::vector<int64_t> counts((training && StartAhead() ? 2 : 1) * count);
  code = Done(FindAndSum(found_, combined_, lacking, true));
  if (code == 0) code = Done(steps_->answer(Work(), lacking, counts.size(), reinterpret_cast<i64*>(counts.data())));
  std::copy(counts.begin(), counts.begin() + count, counts_.begin());
  if (code == 0 && !ahead_.empty()) CountAhead(&counts[count]);
  code = Answered(code, missing, fresh);
  Tell(values_, answers_, pointers, gives, takes);
  return code;
}

int LookupRun::SumsTake(const uint8_t* left) {
  const int count = size(), ranks = ranks_;
  PutAhead(left);
  const int touched = TouchLate(left);
  if (touched != 0) return touched;
  std::vector<i64> at(answers_.offsets);
  for (int t = 0; t < count; ++t) {
    i64& own = at[t * ranks + rank_];
    own = values_.base + values_.offsets[t * ranks + rank_] - answers_.base;
  }
  const void* arrays[] = {at.data()};
  const i64 nbytes[] = {8 * static_cast<i64>(at.size())};
  void* placed[1];
  int code = Done(steps_->place(Work(), 1, arrays, nbytes, placed));
  std::vector<PartsMember> members;
  for (int t = 0; t < count && code == 0; ++t) {
    if (left[t]) continue;
    Request* const request = member(t);
    // Keys may have been made distinct before it was known that this would be its exchange.
    const bool made = request->Output(places_.inverse) != nullptr;
    code = Nothing(t, {made ? -1 : places_.inverse, places_.rows, places_.relayed});
    members.push_back({answers_.base, static_cast<const i64*>(placed[0]) + t * ranks, ranks, facts_[t].half,
                       facts_[t].dim, batches_[t].bags,
                       facts_[t].mean ? static_cast<const i64*>(offsets_[t]) : nullptr, static_cast<char*>(out_[t])});
  }
  if (code != 0 || members.empty()) return code;
  return Done(steps_->sum_parts(Work(), members.data(), members.size()));
}

}  // namespace sok1x
