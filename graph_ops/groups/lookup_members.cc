// See lookup_members.h.
#include "lookup_members.h"

#include <algorithm>
#include <sstream>

#include "../bridge/bridge_calls.h"

namespace sok1x {

namespace {

constexpr int kFew = 4;  // members, for whom no tensor is made that theirs are cut out of

const Places kByKey = {0, 1, -1, 2, 3, -1, 4}, kByBag = {1, 1, 2, 3, 4, 5, 6};

}  // namespace

LookupMembers::LookupMembers(Group* group, const LookupFacts* facts, const GroupSteps* steps, GroupDevice* device)
    : group_(group), facts_(facts), by_bag_(facts[0].by_bag != 0), places_(by_bag_ ? kByBag : kByKey), steps_(steps) {
  group->Touch();
  work_.device = device;
  work_.owner = this;
  work_.allocate = [](void* owner, i64 nbytes) -> void* {
    auto* const run = static_cast<LookupMembers*>(owner);
    void* const data = run->Scratch(nbytes);
    run->group_->Ready();  // a step is at work
    return data;
  };
  for (const Request* request : group->members()) {
    width_ = std::max(width_, static_cast<int>(request->variables.size()));
  }
}

char* LookupMembers::Scratch(int64_t bytes) {
  void* data = nullptr;
  return group_->Piece(bytes, &data) == 0 ? static_cast<char*>(data) : nullptr;
}

GroupWork* LookupMembers::Work() {
  group_->Ready();
  return &work_;
}

int LookupMembers::Done(int code) {
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
  return StatusOf(code);
}

int LookupMembers::Made(int t, int index, int rank, const int64_t* dims, int code) {
  group_->Touch();
  if (code == 0) return 0;
  std::ostringstream text;
  text << "TensorFlow's allocator could not give output " << index << ", of shape [";
  for (int i = 0; i < rank; ++i) text << (i ? ", " : "") << dims[i];
  text << (code == kOtherShape ? "]: it has another shape already" : "]; use a smaller batch, or leave it more memory");
  error_ = text.str();
  failed_ = t;
  return code;
}

int LookupMembers::Output(int t, int index, std::initializer_list<int64_t> dims, void** data) {
  return Made(t, index, dims.size(), dims.begin(), Allocate(member(t), index, dims.size(), dims.begin(), data));
}

int LookupMembers::Nothing(int t, std::initializer_list<int> places) {
  void* nothing;
  for (int place : places) {
    if (place < 0) continue;
    if (member(t)->Output(place) == nullptr) {  // without the allocator, which takes as long as for some
      member(t)->SetOutput(place, tf::Tensor(member(t)->output_types[place]));
      continue;
    }
    const int code = Output(t, place, {0}, &nothing);
    if (code != 0) return code;
  }
  return 0;
}

std::vector<tf::Tensor> LookupMembers::Cut(tf::DataType type, const std::vector<int64_t>& elements) {
  std::vector<tf::Tensor> parts;
  if (!on_gpu()) return parts;
  int64_t all = 0;
  for (int64_t n : elements) all += Aligned(n);
  const int64_t members = std::count_if(elements.begin(), elements.end(), [](int64_t n) { return n > 0; });
  tf::Tensor whole;
  if (members < kFew || !member(0)->context->allocate_temp(type, tf::TensorShape({all}), &whole).ok()) return parts;
  group_->Touch();
  int64_t begin = 0;
  for (int64_t n : elements) {
    parts.push_back(n == 0 ? tf::Tensor(type) : whole.Slice(begin, begin + n));
    begin += Aligned(n);
  }
  return parts;
}

void LookupMembers::CutOutputs(int index, tf::DataType type, const std::vector<int64_t>& elements) {
  std::vector<int64_t> wanted(elements);
  for (int t = 0; t < size(); ++t) {
    if (member(t)->Output(index) != nullptr) wanted[t] = 0;
  }
  const std::vector<tf::Tensor> parts = Cut(type, wanted);
  for (size_t t = 0; t < parts.size(); ++t) {
    if (wanted[t] > 0) member(t)->SetOutput(index, parts[t]);
  }
}

int LookupMembers::LockVariables(bool exclusive) {
  variables_.resize(size() * width_);
  codes_.assign(size(), 0);
  const int code = group_->Lock(exclusive, variables_.data(), width_, codes_.data());
  if (code == 0) return 0;
  error_ = "a group of requests, or one of them, holds locks already";
  return kInternal;
}

}  // namespace sok1x
