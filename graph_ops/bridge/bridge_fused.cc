// See bridge_fused.h.
#include "bridge_fused.h"

#include "bridge_queue.h"

namespace sok1x {

tf::Status OfOp(tf::OpKernelContext* context, const tf::Status& status, const char* label) {
  if (context->op_kernel().name() == label) return status;
  return tf::Status(status.code(), tf::strings::StrCat(MessageOf(status), "\n\t [[{{node ", label, "}}]]"));
}

Fused::Fused(const std::vector<Queued>& queued, tf::AsyncOpKernel::DoneCallback done)
    : context_(queued[0].request->context),
      cancellable_(queued[0].request->cancellable),
      cancellation_(queued[0].request->cancellation),
      done_(std::move(done)),
      left_(queued.size()) {
  for (const Queued& each : queued) {
    each.request->fused = this;
    ids_.push_back(each.info.id);
  }
}

tf::AsyncOpKernel::DoneCallback Fused::Leave(const tf::Status& status, const char* label) {
  std::vector<int64_t> cancelled;
  bool last;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last = --left_ == 0;
    if (!status.ok() && (status_.ok() || tf::errors::IsCancelled(status_))) {
      if (!last) cancelled.swap(ids_);
      status_ = OfOp(context_, status, label);
    }
  }
  if (!last) {  // from here on another thread may finish the last one
    for (int64_t id : cancelled) Queue::Get()->Cancel(id);
    return nullptr;
  }
  if (cancellable_) context_->cancellation_manager()->DeregisterCallback(cancellation_);
  if (!status_.ok()) context_->SetStatus(status_);
  tf::AsyncOpKernel::DoneCallback done = done_;
  delete this;
  return done;
}

}  // namespace sok1x
