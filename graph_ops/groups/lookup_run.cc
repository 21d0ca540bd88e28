// See lookup_run.h: what lookups and gradients on one rank and on several have in common.
#include "lookup_run.h"

#include <algorithm>
#include <limits>

#include "../bridge/bridge_calls.h"

namespace sok1x {

namespace {

constexpr int64_t kMostBags = int64_t{1} << 31;  // of a member; one that has more is run by itself

// Whether a lookup's table has a row for each of its stamps. Where it has not, rows have been assigned that are not
// those of its keys, and its operation says so: stores/row_checks.py.
bool RowsAreItsOwn(const Request& request, const LookupFacts& facts) {
  return facts.stamps_at <= 0 || RowsOf(request, 0) == RowsOf(request, facts.stamps_at);
}

}  // namespace

int LookupRun::Gone() {
  error_ = "the variables of a table were there when its lookup was prepared, and are gone";
  return kInternal;
}

int LookupRun::Embeddings(int t, void** data) {
  const int64_t dim = facts_[t].dim, slots = facts_[t].slots;
  if (by_bag_ && slots == 0) return Output(t, kEmbeddings, {batches_[t].bags, dim}, data);
  if (by_bag_) return Output(t, kEmbeddings, {batches_[t].bags / slots, slots, dim}, data);
  const TensorInfo& given = keys(t);
  int64_t dims[kMaxRank];
  std::copy(given.dims, given.dims + given.rank, dims);
  dims[given.rank] = dim;
  return Made(t, kEmbeddings, given.rank + 1, dims, Allocate(member(t), kEmbeddings, given.rank + 1, dims, data));
}

int LookupRun::Lock(bool exclusive, bool slots) {
  if (slots) ReachSlots();
  const int code = LockVariables(exclusive);
  if (slots) TakeSlots();
  return code;
}

void LookupRun::Open(int t) {
  FindMember& m = found_[t];
  if (codes_[t] != 0) {
    m.n = 0;
    return;
  }
  m.table = static_cast<const float*>(variable(t, 0).data);
  if (facts_[t].hashed) {
    m.index = static_cast<const Slot*>(variable(t, 1).data);
    m.capacity = variable(t, 1).dims[0];
  }
}

bool LookupRun::TakeBatches() {
  batches_.assign(size(), Batch());
  bool shapely = true;
  for (int t = 0; t < size(); ++t) {
    const TensorInfo& given = keys(t);
    Batch& batch = batches_[t];
    if (!by_bag_) {
      batch = {true, given.elements, given.elements};
      shapely = shapely && given.rank < kMaxRank;
      continue;
    }
    const LookupFacts& facts = facts_[t];
    if (given.rank != 1) continue;
    if (facts.weighted && (input(t, kWeights).rank != 1 || input(t, kWeights).elements != given.elements)) continue;
    const TensorInfo& indices = input(t, kIndices);
    int64_t bags = indices.elements - 1;
    if (facts.ragged) {
      if (indices.rank != 1) continue;
    } else {
      const TensorInfo& shape = input(t, kDenseShape + facts.weighted);
      if (shape.rank != 1 || shape.elements != 2 || indices.rank != 2 || indices.dims[1] != 2 ||
          indices.dims[0] != given.elements) {
        continue;
      }
      bags = *static_cast<const int64_t*>(shape.data);
    }
    batch = {bags >= 0 && bags < kMostBags && bags % std::max<int64_t>(1, facts.slots) == 0, given.elements, bags};
  }
  return shapely;
}

int LookupRun::CheckBatches() {
  std::vector<int> asked;
  int64_t total = 0;
  for (int t = 0; t < size(); ++t) {
    batches_[t].fits = batches_[t].fits && RowsAreItsOwn(*member(t), facts_[t]);
    if (facts_[t].key_type == kKeyInt64 || KeyType(t) != kKeyInt64 || !batches_[t].fits) continue;
    asked.push_back(t);
    total += batches_[t].keys;
  }
  if (asked.empty()) return 0;
  i32* rows = reinterpret_cast<i32*>(Scratch(4 * total));
  i64* const counted = Numbers(asked.size());
  if (rows == nullptr || counted == nullptr) return Done(GROUP_NO_MEMORY);
  std::vector<FindMember> members;
  for (int t : asked) {
    const bool has_sign = facts_[t].key_type == kKeyInt32;
    members.push_back(FindMember());
    FindMember& m = members.back();
    m.keys.base = static_cast<char*>(keys(t).data);
    m.key_type = kKeyInt64;
    m.n = batches_[t].keys;
    m.least = has_sign ? std::numeric_limits<i32>::min() : 0;
    m.limit = int64_t{1} << (has_sign ? 31 : 32);
    m.rows = rows;
    rows += m.n;
  }
  std::vector<i64> beyond(asked.size());
  int code = steps_->find(Work(), members.data(), members.size(), counted);
  if (code == 0) code = steps_->read(Work(), counted, beyond.size(), beyond.data());
  for (size_t i = 0; i < asked.size(); ++i) batches_[asked[i]].fits = beyond[i] == 0;
  return Done(code);
}

std::vector<int64_t> LookupRun::KeysThatFit() const {
  std::vector<int64_t> keys;
  for (const Batch& batch : batches_) keys.push_back(batch.fits ? batch.keys : 0);
  return keys;
}

BagsMember LookupRun::GivenBags(int t) const {
  BagsMember m = BagsMember();
  (facts_[t].ragged ? m.splits : m.bags) = static_cast<const i64*>(input(t, kIndices).data);
  m.stride = 2;
  m.n = batches_[t].keys;
  m.n_bags = batches_[t].bags;
  return m;
}

int LookupRun::StartBags(i64* counts) {
  const std::vector<BagsMember> members = BagsToStart();
  return Done(steps_->bag_offsets(Work(), members.data(), size(), counts));
}

std::vector<BagsMember> LookupRun::BagsToStart() const {
  std::vector<BagsMember> members(size(), BagsMember());
  for (int t = 0; t < size(); ++t) {
    if (!batches_[t].fits || (!one_each_.empty() && one_each_[t])) continue;
    BagsMember& m = members[t] = GivenBags(t);
    m.most = facts_[t].most;
    m.offsets = static_cast<i64*>(offsets_[t]);
  }
  return members;
}

void LookupRun::CheckBags(const i64* counts) {
  const i64 *outside = counts, *unsorted = outside + size(), *longest = unsorted + size();
  for (int t = 0; t < size(); ++t) {
    batches_[t].fits &= outside[t] == 0 && unsorted[t] == 0 && (longest[t] >> BAG_BITS) <= facts_[t].most;
  }
}

int LookupRun::Weigh(int t, CombineMember* bags) {
  const LookupFacts& facts = facts_[t];
  if (!facts.weighted) return 0;
  const int64_t keys = batches_[t].keys;
  bags->weights = static_cast<const float*>(input(t, kWeights).data);
  void* scales = nullptr;
  int code = facts.mean ? Output(t, kScales, {keys}, &scales) : 0;
  bags->scales = static_cast<float*>(scales);
  const tf::Tensor* const order = member(t)->Output(kOrder);
  if (code == 0 && order != nullptr && order->NumElements() > 0) {  // its own `prepare` has brought it in order
    Blocks from = Blocks(), to = Blocks();
    from.base = static_cast<char*>(input(t, kWeights).data);
    to.base = Scratch(4 * keys);
    if (to.base == nullptr) return Done(GROUP_NO_MEMORY);
    bags->weights = reinterpret_cast<const float*>(to.base);
    code = Gather({{from, 0, 1, keys, reinterpret_cast<const i32*>(order->tensor_data().data()), nullptr, to, 0}});
  }
  return code ? code : Output(t, kKept, {facts.kept ? keys : 0, facts.dim}, &kept_[t]);
}

int LookupRun::LeaveInOrder(int t) {
  if (!facts_[t].weighted) return 0;
  Request* request = member(t);
  if (request->Output(kOrder) != nullptr) return 0;  // as its own `prepare` has found
  if (!facts_[t].mean && request->Output(kScales) == nullptr) {
    request->SetOutput(kScales, request->Input(kWeights));
  }
  return Nothing(t, {kOrder});
}

int LookupRun::Gather(const std::vector<GatherMember>& rows) {
  return rows.empty() ? 0 : Done(steps_->gather(Work(), rows.data(), rows.size()));
}

int LookupRun::Make(Buffer* buffer, int ranks, int64_t unit, const std::vector<int64_t>& counts,
                    const std::vector<int64_t>& row_bytes) {
  const int members = size();
  buffer->ranks = ranks;
  buffer->unit = unit;
  buffer->starts.assign(members * (ranks + 1), 0);
  buffer->offsets.resize(members * ranks);
  buffer->units.resize(ranks);
  int64_t at = 0;
  for (int r = 0; r < ranks; ++r) {
    const int64_t begin = at;
    for (int t = 0; t < members; ++t) {
      const int64_t rows = counts[t * ranks + r];
      i64* const starts = &buffer->starts[t * (ranks + 1)];
      starts[r + 1] = starts[r] + rows;
      buffer->offsets[t * ranks + r] = at;
      at += (rows * row_bytes[t] + unit - 1) / unit * unit;
    }
    buffer->units[r] = (at - begin) / unit;
  }
  buffer->base = Scratch(at);
  return buffer->base == nullptr ? Done(GROUP_NO_MEMORY) : 0;
}

int LookupRun::Place(Buffer* buffer) {
  if (buffer->side_by_side) return 0;  // nobody asks where its blocks begin
  const void* arrays[] = {buffer->starts.data(), buffer->offsets.data()};
  const i64 nbytes[] = {8 * static_cast<i64>(buffer->starts.size()), 8 * static_cast<i64>(buffer->offsets.size())};
  void* placed[2];
  const int code = steps_->place(Work(), 2, arrays, nbytes, placed);
  buffer->starts_at = static_cast<const i64*>(placed[0]);
  buffer->offsets_at = static_cast<const i64*>(placed[1]);
  return Done(code);
}

int LookupRun::MakeKeys(Buffer* buffer, int ranks, const std::vector<int64_t>& counts) {
  const int code = Make(buffer, ranks, 8, counts, std::vector<int64_t>(size(), 8));
  buffer->side_by_side = size() == 1;
  return code ? code : Place(buffer);
}

int LookupRun::MakeRows(int ranks, const std::vector<int64_t>& given, const std::vector<int64_t>& taken,
                        const std::vector<int64_t>& row_bytes, Buffer* sent) {
  // Members' blocks begin where kernels can move four floats at a time. One member's need no gaps.
  const int64_t unit = size() == 1 ? row_bytes[0] : 16;
  int code = Make(&values_, ranks, unit, given, row_bytes);
  if (code == 0) code = Make(&answers_, ranks, unit, taken, row_bytes);
  if (code != 0) return code;
  values_.side_by_side = answers_.side_by_side = size() == 1;
  if (sent != nullptr && own_there_) {
    const Buffer& come = sent == &values_ ? answers_ : values_;
    for (int t = 0; t < size(); ++t) {
      const int own = t * ranks + rank_;
      sent->offsets[own] = come.base + come.offsets[own] - sent->base;
    }
    sent->side_by_side = false;
  }
  code = Place(&values_);
  return code ? code : Place(&answers_);
}

}  // namespace sok1x
