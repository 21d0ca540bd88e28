// One run of a fused node: TensorFlow is called back when the last of its requests has finished.
#ifndef SOK1X_BRIDGE_FUSED_H
#define SOK1X_BRIDGE_FUSED_H

#include <mutex>
#include <vector>

#include "bridge_request.h"

namespace sok1x {

// A status with which the op `label` has failed: as TensorFlow names such an op, where the node that runs has another
// name. A second one, which TensorFlow adds, is this node.
tf::Status OfOp(tf::OpKernelContext* context, const tf::Status& status, const char* label);

class Fused {
 public:
  // Of the requests in `queued`, which know it from now on.
  Fused(const std::vector<Queued>& queued, tf::AsyncOpKernel::DoneCallback done);

  // A request of it, the op `label`, has finished. Returns what calls TensorFlow back, of all but the last null; the
  // last one's object is gone.
  //
  // If one fails TensorFlow would cancel the step, and with it the others, but does not know yet: so this cancels
  // them.
  tf::AsyncOpKernel::DoneCallback Leave(const tf::Status& status, const char* label);

 private:
  ~Fused() = default;

  tf::OpKernelContext* const context_;
  const bool cancellable_;
  const tf::CancellationToken cancellation_;
  const tf::AsyncOpKernel::DoneCallback done_;
  std::mutex mutex_;
  std::vector<int64_t> ids_;  // of the requests
  size_t left_;
  tf::Status status_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_FUSED_H
