// Gradients of rows that nobody reads but one optimizer's step. Their op does not make the sums that they are: it
// leaves what these are made of, and the step adds up and moves each row in one pass
// (cuda_kernels/group_sum_update.cu), so that no sum passes through memory. Which ops do so, the graph shows:
// bridge_fusing.cc.
//
// To TensorFlow the output is a tensor as any other, of numbers that nobody has written. What its sums are made of
// lives as long as it does. A step that cannot go that way has the sums made first: `Settle`. A step that reads such an
// output knows its memory: where it is given another, as by TensorFlow's debugger, which puts a copy in between, it
// moves nothing.
#ifndef SOK1X_GROUPS_KEPT_SUMS_H
#define SOK1X_GROUPS_KEPT_SUMS_H

#include <memory>
#include <vector>

#include "../../cuda_kernels/group_steps.h"
#include "../bridge/bridge_group.h"

namespace sok1x {

class KeptSums {
 public:
  static constexpr int kCopied = -3;

  // Sums that are still to be made, and by what.
  struct Waiting {
    SumMember member;
    const GroupSteps* steps;
    GroupDevice* device;
  };

  // The tensor to give in place of `sums`, float32 [num_segments, dim] of at least one row, where the sums would go.
  // needs, memory: what the member's pointers lie in.
  static tf::Tensor Keep(const tf::Tensor& sums, const Waiting& waiting, const std::vector<tf::Tensor>& needs,
                         const std::shared_ptr<void>& memory);

  // Whether the sums at this address are still to be made: then of what.
  static bool At(const void* sums, SumMember* member);

  // Of a request that may keep its sums, and has made them after all: has the step know them.
  static void Note(Request* request);

  // Whether a step's first input is a copy of what its gradient's op has given out: then of numbers without a meaning.
  static bool IsCopy(const Request& step);

  // Makes the sums of a request's first input, if they are still to be made; on a GPU the request's streams are known.
  // Returns 0, kCopied, or what the step says (group_steps.h).
  static int Settle(Request* request);
  // How often sums have been left to a step, and how many wait now, in this process.
  static int64_t kept();
  static int64_t waiting();
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_KEPT_SUMS_H
