// The members of a run of lookups, as all of its functions reach them: what they are given, the outputs that they get,
// their variables once these are locked; memory for the steps; and words for what goes wrong.
#ifndef SOK1X_GROUPS_LOOKUP_MEMBERS_H
#define SOK1X_GROUPS_LOOKUP_MEMBERS_H

#include <initializer_list>
#include <string>
#include <vector>

#include "../../cuda_kernels/group_steps.h"
#include "../bridge/bridge_group.h"
#include "lookup_facts.h"
#include "lookup_places.h"

namespace sok1x {

// Key types, as numbered in common.cuh.
constexpr int kKeyInt64 = 0, kKeyInt32 = 1;

// The status of what a step of a group says (group_steps.h), which is not 0.
inline int StatusOf(int code) {
  return code == GROUP_NO_MEMORY ? kResourceExhausted : code == GROUP_TOO_MANY ? kInvalidArgument : kInternal;
}

// Where the next begins of several that lie in one tensor, in numbers: as CUDA's own allocations.
inline int64_t Aligned(int64_t n) {
  constexpr int64_t kAlign = 64;
  return (n + kAlign - 1) / kAlign * kAlign;
}

// Bytes of a row of a gradient, which has a type of its own.
inline int64_t GradientRowBytes(const TensorInfo& gradient, int64_t dim) {
  return dim * (gradient.dtype == tf::DT_HALF ? 2 : 4);
}

// T members. Functions that give an int give a status code, and `error()` says then what was wrong.
class LookupMembers {
 public:
  // What the last function that failed says, and the member that it is about, -1 for all of them.
  const std::string& error() const { return error_; }
  int failed() const { return failed_; }

 protected:
  // facts: [T], which must live as long as this. device: null for the host.
  LookupMembers(Group* group, const LookupFacts* facts, const GroupSteps* steps, GroupDevice* device);

  int size() const { return static_cast<int>(group_->members().size()); }
  Request* member(int t) const { return group_->members()[t]; }
  const TensorInfo& input(int t, int place) const { return member(t)->inputs[place]; }
  const TensorInfo& keys(int t) const { return input(t, places_.keys); }
  // Of the keys that the member was given, which may be narrower than its table's: as numbered in common.cuh.
  i64 KeyType(int t) const {
    const int32_t dtype = keys(t).dtype;
    return dtype == tf::DT_INT32 ? 1 : dtype == tf::DT_UINT32 ? 2 : 0;
  }
  const TensorInfo& variable(int t, int place) const { return variables_[t * width_ + place]; }
  bool on_gpu() const { return work_.device != nullptr; }
  // Where a lookup leaves what it has counted.
  int CountsPlace(int t) const { return !by_bag_ ? 5 : facts_[t].weighted ? kKept + 1 : kScales; }

  // Notes an output that Allocate has made, or says why it could not.
  int Made(int t, int index, int rank, const int64_t* dims, int code);
  int Output(int t, int index, std::initializer_list<int64_t> dims, void** data);
  // Outputs without elements, and those that a lookup has not: places of -1.
  int Nothing(int t, std::initializer_list<int> places);
  // Tensors [n] for the n of each member, cut out of one: an allocation of a GPU's memory takes as long as much else
  // that an op costs. None for a few members, where memory for all has no place, and on hosts, whose memory is there
  // sooner, and where what a session.run has fetched keeps it: then each asks for its own.
  std::vector<tf::Tensor> Cut(tf::DataType type, const std::vector<int64_t>& elements);
  // Likewise the members' outputs `index`, where they have none yet: `Output` finds them then. elements: 0 where none.
  void CutOutputs(int index, tf::DataType type, const std::vector<int64_t>& elements);
  int LockVariables(bool exclusive);
  // A status for what a step returned.
  int Done(int code);
  GroupWork* Work();
  char* Scratch(int64_t bytes);
  i64* Numbers(int64_t count) { return reinterpret_cast<i64*>(Scratch(8 * count)); }

  Group* group_;
  const LookupFacts* facts_;
  const bool by_bag_;
  const Places places_;
  const GroupSteps* steps_;
  GroupWork work_;
  std::string error_;
  int failed_ = -1;
  int width_ = 0;                      // most variables of a member
  std::vector<TensorInfo> variables_;  // [T, width], once they are locked
  std::vector<int32_t> codes_;         // [T], what locking them gave
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LOOKUP_MEMBERS_H
