// See dense_run.h: what one rank and several have in common, and one rank.
#include "dense_run.h"

#include <algorithm>
#include <sstream>

#include "../bridge/bridge_calls.h"

namespace sok1x {

namespace {

constexpr int kResourceExhausted = 8, kInvalidArgument = 3, kInternal = 13;  // TensorFlow's status codes
constexpr int kKeyInt32 = 1;                                                 // common.cuh
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

int DenseRun::Output(int t, int index, std::initializer_list<int64_t> dims, void** data) {
  const int code = Allocate(member(t), index, dims.size(), dims.begin(), data);
  group_->Touch();
  if (code != 0) {
    std::ostringstream text;
    text << "TensorFlow's allocator could not give output " << index << ", of shape [";
    for (auto dim = dims.begin(); dim != dims.end(); ++dim) text << (dim == dims.begin() ? "" : ", ") << *dim;
    text << "]; use a smaller batch, or leave it more memory";
    error_ = text.str();
    failed_ = t;
  }
  return code;
}

int DenseRun::Embeddings(int t, void** data) {
  const TensorInfo& keys = input(t, 0);
  int64_t dims[kMaxRank];
  std::copy(keys.dims, keys.dims + keys.rank, dims);
  dims[keys.rank] = facts_[t].dim;
  const int code = Allocate(member(t), kEmbeddings, keys.rank + 1, dims, data);
  group_->Touch();
  if (code != 0) {
    std::ostringstream text;
    text << "TensorFlow's allocator could not give the embeddings, " << keys.elements << " times " << facts_[t].dim
         << " numbers; use a smaller batch, or leave it more memory";
    error_ = text.str();
    failed_ = t;
  }
  return code;
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

int DenseRun::ForwardAlone(bool training, uint8_t* left) {
  if (!Shapely()) {
    std::fill(left, left + size(), 1);
    return 0;
  }
  std::vector<FindMember> members(size(), FindMember());
  for (int t = 0; t < size(); ++t) {
    const TensorInfo& keys = input(t, 0);
    void *out, *at, *nothing;
    int code = Embeddings(t, &out);
    if (code == 0) code = Output(t, kInverse, {keys.elements}, &at);
    for (int empty : {kRows, kRequested, kCounts}) {
      if (code == 0) code = Output(t, empty, {0}, &nothing);
    }
    if (code != 0) return code;
    FindMember& m = members[t];
    m.keys.base = static_cast<char*>(keys.data);
    m.key_type = facts_[t].key_type;
    m.n = keys.elements;
    m.ranks = 1;
    m.limit = facts_[t].rows;
    m.rows = static_cast<i32*>(at);
    m.dim = facts_[t].dim;
    m.out.base = static_cast<char*>(out);
    m.out_half = facts_[t].half;
  }
  i64* const missing = reinterpret_cast<i64*>(Scratch(8 * size()));
  if (missing == nullptr) return Done(GROUP_NO_MEMORY);
  int code = Lock(training);
  if (code != 0) return code;
  for (int t = 0; t < size(); ++t) {
    FindMember& m = members[t];
    if (codes_[t] != 0) {
      m.n = 0;
      continue;
    }
    m.table = static_cast<const float*>(variable(t, 0).data);
    if (facts_[t].hashed) {
      m.index = static_cast<const Slot*>(variable(t, 1).data);
      m.capacity = variable(t, 1).dims[0];
    }
  }
  counts_.resize(size());
  code = steps_->look_up(Work(), members.data(), size(), missing);
  if (code == 0) code = steps_->read(Work(), missing, size(), counts_.data());
  group_->Unlock();
  for (int t = 0; t < size(); ++t) left[t] = codes_[t] != 0 || counts_[t] > 0;
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
