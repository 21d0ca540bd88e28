// See dense_run.h: what one rank and several have in common, and one rank.
#include "dense_run.h"

#include <algorithm>
#include <sstream>

#include "../bridge/bridge_calls.h"

namespace sok1x {

namespace {

constexpr int kResourceExhausted = 8, kInvalidArgument = 3, kInternal = 13;  // TensorFlow's status codes
constexpr int kKeyInt64 = 0, kKeyInt32 = 1;                                  // common.cuh
enum Lookup { kEmbeddings, kInverse, kRows, kRequested, kCounts };           // outputs: operations/dense_lookup.py

}  // namespace

DenseRun::DenseRun(Group* group, const DenseFacts* facts, const GroupSteps* steps, GroupDevice* device)
    : group_(group), facts_(facts), steps_(steps) {
  group->Touch();
  work_.device = device;
  work_.owner = this;
  work_.allocate = [](void* owner, i64 nbytes) -> void* { return static_cast<DenseRun*>(owner)->Scratch(nbytes); };
  for (const Request* request : group->members()) {
    width_ = std::max(width_, static_cast<int>(request->variables.size()));
  }
}

char* DenseRun::Scratch(int64_t bytes) {
  void* data = nullptr;
  return group_->Piece(bytes, &data) == 0 ? static_cast<char*>(data) : nullptr;
}

GroupWork* DenseRun::Work() {
  group_->Ready();
  return &work_;
}

int DenseRun::Done(int code) {
  if (code == 0) return 0;
  std::ostringstream text;
  if (code == GROUP_NO_MEMORY) {
    text << "TensorFlow's allocator could not give the scratch memory of " << size()
         << " lookups that run together; use a smaller batch, or leave it more memory";
  } else if (code == GROUP_TOO_MANY) {
    text << "the batches of " << size() << " lookups that run together have more than 2**31 - 1 keys or rows in all on "
         << "one rank; use a smaller batch";
  } else {
    text << "CUDA's error " << code << " in " << size() << " lookups that run together";
  }
  error_ = text.str();
  return code == GROUP_NO_MEMORY ? kResourceExhausted : code == GROUP_TOO_MANY ? kInvalidArgument : kInternal;
}

int DenseRun::Made(int t, int index, int rank, const int64_t* dims, int code) {
  group_->Touch();
  if (code == 0) {
    outputs_bytes_ += member(t)->context->mutable_output(index)->TotalBytes();
    return 0;
  }
  std::ostringstream text;
  text << "TensorFlow's allocator could not give output " << index << ", of shape [";
  for (int i = 0; i < rank; ++i) text << (i ? ", " : "") << dims[i];
  text << "]; use a smaller batch, or leave it more memory";
  error_ = text.str();
  failed_ = t;
  return code;
}

int DenseRun::Output(int t, int index, std::initializer_list<int64_t> dims, void** data) {
  return Made(t, index, dims.size(), dims.begin(), Allocate(member(t), index, dims.size(), dims.begin(), data));
}

int DenseRun::Embeddings(int t, void** data) {
  const TensorInfo& keys = input(t, 0);
  int64_t dims[kMaxRank];
  std::copy(keys.dims, keys.dims + keys.rank, dims);
  dims[keys.rank] = facts_[t].dim;
  return Made(t, kEmbeddings, keys.rank + 1, dims, Allocate(member(t), kEmbeddings, keys.rank + 1, dims, data));
}

int DenseRun::Lock(bool exclusive) {
  variables_.resize(size() * width_);
  codes_.assign(size(), 0);
  const int code = group_->Lock(exclusive, variables_.data(), width_, codes_.data());
  if (code == 0) return 0;
  error_ = "a group of requests, or one of them, holds locks already";
  return kInternal;
}

bool DenseRun::Shapely() const {
  for (int t = 0; t < size(); ++t) {
    if (input(t, 0).rank >= kMaxRank) return false;
  }
  return true;
}

bool DenseRun::Fits(int t) const {
  const TensorInfo& gradient = input(t, 0);
  return gradient.elements == input(t, 1).elements * facts_[t].dim &&
         (gradient.dtype == tf::DT_FLOAT || gradient.dtype == tf::DT_HALF);
}

int DenseRun::LookUp(int64_t* missing) {
  i64* const counted = reinterpret_cast<i64*>(Scratch(8 * found_.size()));
  if (counted == nullptr) return Done(GROUP_NO_MEMORY);
  const int code = Done(steps_->look_up(Work(), found_.data(), found_.size(), counted));
  if (code != 0) return code;
  return Done(steps_->read(Work(), counted, found_.size(), reinterpret_cast<i64*>(missing)));
}

int DenseRun::ForwardAlone(bool training, uint8_t* left, int64_t* fresh) {
  std::fill(left, left + size(), 1);
  std::fill(fresh, fresh + size(), 0);
  if (!Shapely()) return 0;
  found_.assign(size(), FindMember());
  for (int t = 0; t < size(); ++t) {
    const TensorInfo& keys = input(t, 0);
    void *out, *at, *nothing;
    int code = Embeddings(t, &out);
    if (code == 0) code = Output(t, kInverse, {keys.elements}, &at);
    for (int empty : {kRows, kRequested, kCounts}) {
      if (code == 0) code = Output(t, empty, {0}, &nothing);
    }
    if (code != 0) return code;
    FindMember& m = found_[t];
    m.keys.base = static_cast<char*>(keys.data);
    m.key_type = KeyType(t);
    m.n = keys.elements;
    m.ranks = 1;
    m.limit = facts_[t].keys_of(1);
    m.rows = static_cast<i32*>(at);
    m.dim = facts_[t].dim;
    m.out.base = static_cast<char*>(out);
    m.out_half = facts_[t].half;
  }
  int code = Lock(training);
  if (code != 0) return code;
  for (int t = 0; t < size(); ++t) Open(t);
  counts_.resize(size());
  code = LookUp(counts_.data());
  for (int t = 0; t < size(); ++t) counts_[t] += codes_[t] != 0;
  if (code == 0 && training) code = Unseen(counts_.data(), fresh);
  if (inserts_.empty()) group_->Unlock();
  for (int t = 0; t < size(); ++t) left[t] = counts_[t] > 0;
  return code;
}

void DenseRun::Open(int t) {
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

int DenseRun::Unseen(int64_t* missing, int64_t* fresh) {
  std::vector<const void*> tables;  // of two lookups of one table that have new keys the second comes later
  inserted_.clear();
  int64_t total = 0;
  for (int t = 0; t < size(); ++t) {
    if (missing[t] == 0 || codes_[t] != 0 || !facts_[t].hashed) continue;
    if (std::find(tables.begin(), tables.end(), found_[t].table) != tables.end()) continue;
    tables.push_back(found_[t].table);
    inserted_.push_back(t);
    total += found_[t].n;
  }
  const int count = inserted_.size();
  if (count == 0) return 0;
  i64* values = reinterpret_cast<i64*>(Scratch(8 * total));
  i32* numbers = reinterpret_cast<i32*>(Scratch(8 * total));  // inverse, then rows
  i64* const counted = reinterpret_cast<i64*>(Scratch(16 * count));
  if (values == nullptr || numbers == nullptr || counted == nullptr) return Done(GROUP_NO_MEMORY);
  std::vector<UniqueMember> keys(count, UniqueMember());
  std::vector<FindMember> asked(count, FindMember());
  std::vector<const i64*> used_at(count);
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
    used_at[i] = static_cast<const i64*>(variable(inserted_[i], facts_[inserted_[i]].count_at).data);
    values += from.n;
    numbers += from.n;
  }
  std::vector<i64> distinct(count), lacking(count), used(count);
  int code = steps_->unique(Work(), keys.data(), count, counted);
  if (code == 0) code = steps_->read(Work(), counted, count, distinct.data());
  for (int i = 0; i < count; ++i) asked[i].n = distinct[i];
  if (code == 0) code = steps_->find(Work(), asked.data(), count, counted + count);
  if (code == 0) code = steps_->read(Work(), counted + count, count, lacking.data());
  if (code == 0) code = steps_->read_each(Work(), used_at.data(), count, used.data());
  if (code != 0) return Done(code);
  for (int i = 0; i < count; ++i) {
    const int t = inserted_[i];
    if (used[i] < 0 || used[i] + lacking[i] > facts_[t].rows) continue;  // its own `run` says so
    missing[t] = 0;
    fresh[t] = lacking[i];
    InsertMember m = InsertMember();
    m.index = const_cast<Slot*>(asked[i].index);
    m.capacity = asked[i].capacity;
    m.keys = keys[i].values;
    m.n = distinct[i];
    m.rows = asked[i].rows;
    m.used = used[i];
    m.fresh = lacking[i];
    m.count = const_cast<i64*>(used_at[i]);
    m.table = const_cast<float*>(found_[t].table);
    m.dim = facts_[t].dim;
    m.clock = static_cast<const i64*>(variable(t, facts_[t].clock_at).data);
    m.stamps = static_cast<i64*>(variable(t, facts_[t].stamps_at).data);
    inserted_[inserts_.size()] = t;
    inserts_.push_back(m);
  }
  inserted_.resize(inserts_.size());
  return 0;
}

int DenseRun::ForwardInsert(const NewRows* rows, const uint8_t* left) {
  std::vector<InsertMember> members;
  std::vector<FindMember> again;
  for (size_t i = 0; i < inserts_.size(); ++i) {
    const int t = inserted_[i];
    if (left[t]) continue;
    InsertMember m = inserts_[i];
    m.seed = rows[t].seed;
    m.identity = rows[t].identity;
    m.kind = rows[t].kind;
    m.a = rows[t].a;
    m.b = rows[t].b;
    m.ahead = rows[t].ahead;
    m.at_least = rows[t].at_least;
    members.push_back(m);
    again.push_back(found_[t]);
  }
  inserts_.clear();
  int code = 0;
  if (!members.empty()) {
    i64* const counted = reinterpret_cast<i64*>(Scratch(8 * again.size()));
    code = counted == nullptr ? GROUP_NO_MEMORY : steps_->insert(Work(), members.data(), members.size());
    if (code == 0) code = steps_->look_up(Work(), again.data(), again.size(), counted);
  }
  group_->Unlock();
  return Done(code);
}

int DenseRun::BackwardAlone(uint8_t* left) {
  std::vector<SumMember> members(size(), SumMember());
  for (int t = 0; t < size(); ++t) {
    left[t] = !Fits(t);
    if (left[t]) continue;
    const TensorInfo &gradient = input(t, 0), &inverse = input(t, 1), &rows = input(t, 2);
    void* out;
    const int code = Output(t, 0, {rows.elements, facts_[t].dim}, &out);
    if (code != 0) return code;
    SumMember& m = members[t];
    m.values.base = static_cast<char*>(gradient.data);
    m.values_half = gradient.dtype == tf::DT_HALF;
    m.dim = facts_[t].dim;
    m.segments = static_cast<const i32*>(inverse.data);
    m.n = inverse.elements;
    m.num_segments = rows.elements;
    m.sums.base = static_cast<char*>(out);
  }
  return Done(steps_->segment_sum(Work(), members.data(), size()));
}

int DenseRun::Distinct(bool alone, const int64_t* ahead, int64_t* at_least, int64_t* rows, int64_t* counts,
                       uint8_t* left) {
  enum { kInverseIn, kRowsIn, kRequestedIn };  // inputs and outputs: operations/distinct_rows.py
  const int place = alone ? kInverseIn : kRequestedIn, other = kRequestedIn - place;
  int64_t total = 0;
  for (int t = 0; t < size(); ++t) total += input(t, place).elements;
  std::vector<UniqueMember> members(size(), UniqueMember());
  i64* values = reinterpret_cast<i64*>(Scratch(8 * total));
  i64* const found = reinterpret_cast<i64*>(Scratch(8 * size()));
  if (values == nullptr || found == nullptr) return Done(GROUP_NO_MEMORY);
  for (int t = 0; t < size(); ++t) {
    const TensorInfo& at = input(t, place);
    void* inverse;
    const int code = Output(t, place, {at.elements}, &inverse);
    if (code != 0) return code;
    Request* request = member(t);
    request->context->set_output(other, request->context->input(request->variables.size() + other));
    UniqueMember& m = members[t];
    m.keys.base = static_cast<char*>(at.data);
    m.key_type = kKeyInt32;
    m.n = at.elements;
    m.values = values;
    m.inverse = static_cast<i32*>(inverse);
    values += at.elements;
  }
  int code = Done(steps_->unique(Work(), members.data(), size(), found));
  if (code == 0) code = Done(steps_->read(Work(), found, size(), reinterpret_cast<i64*>(counts)));
  if (code != 0) return code;
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
    m.table_rows = facts_[t].rows;
    m.ahead = ahead[t];
    m.at_least = at_least[t];
  }
  code = Lock(true);
  if (code != 0) return code;
  for (int t = 0; t < size(); ++t) {
    left[t] = codes_[t] != 0;
    stamps[t].stamps = static_cast<i64*>(variable(t, 0).data);  // null where it is left
    stamps[t].clock = static_cast<i64*>(variable(t, 1).data);
    if (left[t]) stamps[t].stamps = nullptr;
  }
  code = Done(steps_->stamp(Work(), stamps.data(), size()));
  group_->Unlock();
  return code;
}

}  // namespace sok1x
