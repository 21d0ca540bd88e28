// What a run of lookups (lookup_run.h) keeps from one of its functions to the next.
#ifndef SOK1X_GROUPS_LOOKUP_RUN_KEPT_H
#define SOK1X_GROUPS_LOOKUP_RUN_KEPT_H

#include <vector>

#include "../../cuda_kernels/group_steps.h"
#include "../bridge/bridge_group.h"
#include "lookup_buffer.h"
#include "lookup_facts.h"
#include "lookup_members.h"

namespace sok1x {

class Fork;

// A member's batch.
struct Batch {
  bool fits;           // its tensors have the shapes that they must have; and, once that is known, so are its bags
  int64_t keys, bags;  // how many
};

// T members, N ranks. What there is several of has one for each member, but where it says otherwise.
class LookupRunKept : protected LookupMembers {
 protected:
  LookupRunKept(Group* group, const LookupFacts* facts, const GroupSteps* steps, GroupDevice* device)
      : LookupMembers(group, facts, steps, device) {}

  int rank_ = 0, ranks_ = 1;
  bool training_ = false;
  std::vector<Batch> batches_;
  std::vector<void*> out_, inverse_, offsets_, requested_;  // outputs
  std::vector<void*> kept_;                                 // outputs; null where nobody asks for them
  std::vector<int64_t> counts_;
  std::vector<uint8_t> left_;
  std::vector<FindMember> found_;
  std::vector<CombineMember> combined_;  // by bag, on one rank; by reduce_scatter, of this rank's keys

  // Bags with one key each, on one rank.
  std::vector<uint8_t> one_each_;                 // members that have been looked up as such
  mutable const void* known_one_each_ = nullptr;  // offsets that GradientOfOneEach has been through,
  mutable int64_t known_keys_ = 0;                // and how many keys they have

  // What is exchanged.
  Buffer keys_, answers_, values_;
  bool own_there_ = false;
  const Fork* fork_ = nullptr;
  bool sooner_ = false;

  // By hosts.
  std::vector<int64_t> near_given_, near_taken_;  // [T, N]
  std::vector<void*> relayed_;                    // outputs
  Buffer near_keys_, passed_on_;                  // the latter: what has come from the other side of this rank

  // By reduce_scatter.
  bool by_sums_ = false;
  std::vector<PairsMember> pairs_;
  std::vector<i64> pair_counts_;    // [N, T], keys for each owner, once they are known
  std::vector<int64_t> bags_;       // [T, N], bags of each rank
  std::vector<void*> all_offsets_;  // outputs

  // Keys that get rows.
  std::vector<InsertMember> inserts_;  // of `inserted_`
  std::vector<int> inserted_;          // numbers of members

  // Tables that forget.
  struct Reached {
    int place;  // among the member's variables
    double value;
  };
  std::vector<std::vector<Reached>> reached_;     // slots
  std::vector<std::vector<ResetMember>> resets_;  // the same, once they are locked
  std::vector<uint8_t> unreached_;                // 1 where these are not all that there are
  bool touched_ = false;

  // Rows made distinct by the lookup itself.
  std::vector<UniqueMember> ahead_;    // of members that are not wanted n = 0
  std::vector<int64_t> ahead_counts_;  // how many distinct rows; -1: not of all keys
  tf::Tensor ahead_values_, ahead_inverse_;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LOOKUP_RUN_KEPT_H
