// One run of a fused node: TensorFlow is called back when the last of its requests has finished.
#ifndef SOK1X_BRIDGE_FUSED_H
#define SOK1X_BRIDGE_FUSED_H

#include <memory>
#include <mutex>
#include <vector>

#include "bridge_member.h"
#include "bridge_request.h"

namespace sok1x {

// A status with which the op `label` has failed: as TensorFlow names such an op, where the node that runs has another
// name. A second one, which TensorFlow adds, is this node.
tf::Status OfOp(tf::OpKernelContext* context, const tf::Status& status, const char* label);

// Makes requests of a kernel's members, as many as `queued` has, from `first` on; made: the first outputs of those that
// they follow. After a failure some of `queued` have been made.
tf::Status BeginMembers(tf::OpKernelContext* context, uint64_t session, std::vector<Member>* members, size_t first,
                        const std::vector<tf::Tensor>& made, std::vector<Queued>* queued);

std::vector<int64_t> IdsOf(const std::vector<Queued>& queued);

// The requests of a kernel that TensorFlow may give up at any moment, which the executor then hears.
class Cancellable {
 public:
  // These are next; from now on they may be cancelled. False: the step has been given up already.
  bool Next(const std::vector<int64_t>& ids);
  void Cancel();

 private:
  std::mutex mutex_;  // taken before the queue's
  std::vector<int64_t> ids_;
  bool cancelled_ = false;
};

// What a kernel's run is made of.
struct FusedRun {
  std::vector<Member>* members;  // those that follow others come last
  uint64_t session;
  std::shared_ptr<Cancellable> cancellable;  // null where TensorFlow cannot give up the step
};

class Fused {
 public:
  // Of the requests in `queued`, which know it from now on: of the members that begin with the run. When these have
  // finished, the requests of those that follow them begin.
  Fused(const std::vector<Queued>& queued, const FusedRun& run, tf::AsyncOpKernel::DoneCallback done);

  // Keeps what the request of a member has made, its first output, for a member that follows it.
  void Keep(int member, const tf::Tensor* made);

  // A request of it, the op `label`, has finished. Returns what calls TensorFlow back, of all but the last null; the
  // last one's object is gone.
  //
  // If one fails TensorFlow would cancel the step, and with it the others, but does not know yet: so this cancels
  // them.
  tf::AsyncOpKernel::DoneCallback Leave(const tf::Status& status, const char* label);

 private:
  ~Fused() = default;

  void Know(const std::vector<Queued>& queued);
  // Begins the members that follow; from then on another thread may finish the last one.
  tf::Status Follow();

  tf::OpKernelContext* const context_;
  const bool deregisters_;
  const tf::CancellationToken cancellation_;
  const FusedRun run_;
  const tf::AsyncOpKernel::DoneCallback done_;
  std::vector<tf::Tensor> made_;  // of each member that begins with the run, while others are to follow
  std::mutex mutex_;
  std::vector<int64_t> ids_;  // of the requests
  size_t left_ = 0;
  tf::Status status_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_FUSED_H
