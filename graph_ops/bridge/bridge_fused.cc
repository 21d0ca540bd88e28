// See bridge_fused.h.
#include "bridge_fused.h"

#include "bridge_queue.h"

namespace sok1x {

tf::Status OfOp(tf::OpKernelContext* context, const tf::Status& status, const char* label) {
  if (context->op_kernel().name() == label) return status;
  return tf::Status(status.code(), tf::strings::StrCat(MessageOf(status), "\n\t [[{{node ", label, "}}]]"));
}

tf::Status BeginMembers(tf::OpKernelContext* context, uint64_t session, std::vector<Member>* members, size_t first,
                        const std::vector<tf::Tensor>& made, std::vector<Queued>* queued) {
  for (size_t i = 0; i < queued->size(); ++i) {
    Member& member = (*members)[first + i];
    const tf::Tensor* const given = member.follows() < 0 ? nullptr : &made[member.follows()];
    const tf::Status status = member.Begin(context, session, given, &(*queued)[i]);
    if (!status.ok()) return OfOp(context, status, member.label());
    (*queued)[i].request->place = static_cast<int>(first + i);
  }
  return tf::Status();
}

std::vector<int64_t> IdsOf(const std::vector<Queued>& queued) {
  std::vector<int64_t> ids;
  for (const Queued& each : queued) ids.push_back(each.info.id);
  return ids;
}

bool Cancellable::Next(const std::vector<int64_t>& ids) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (cancelled_) return false;
  Queue::Get()->Coming(ids);
  ids_ = ids;
  return true;
}

void Cancellable::Cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  for (int64_t id : ids_) Queue::Get()->Cancel(id);
}

Fused::Fused(const std::vector<Queued>& queued, const FusedRun& run, tf::AsyncOpKernel::DoneCallback done)
    : context_(queued[0].request->context),
      deregisters_(queued[0].request->cancellable),
      cancellation_(queued[0].request->cancellation),
      run_(run),
      done_(std::move(done)) {
  if (run_.members->size() > queued.size()) made_.resize(queued.size());
  Know(queued);
}

void Fused::Know(const std::vector<Queued>& queued) {
  ids_ = IdsOf(queued);
  left_ = queued.size();
  for (const Queued& each : queued) each.request->fused = this;
}

void Fused::Keep(int member, const tf::Tensor* made) {
  if (made != nullptr && static_cast<size_t>(member) < made_.size()) made_[member] = *made;
}

tf::Status Fused::Follow() {
  std::vector<tf::Tensor> made;
  made.swap(made_);  // so that nothing follows once more
  std::vector<Queued> queued(run_.members->size() - made.size());
  tf::Status status = BeginMembers(context_, run_.session, run_.members, made.size(), made, &queued);
  if (status.ok() && run_.cancellable != nullptr && !run_.cancellable->Next(IdsOf(queued))) {
    status = tf::errors::Cancelled("sok1x: the step was cancelled before op '", queued[0].request->label, "' began");
  }
  if (!status.ok()) {
    for (const Queued& begun : queued) delete begun.request;
    return status;
  }
  Know(queued);
  Queue::Get()->Push(queued);
  return status;
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
  if (status_.ok() && !made_.empty()) {
    const tf::Status followed = Follow();
    if (followed.ok()) return nullptr;
    status_ = followed;
  }
  if (deregisters_) context_->cancellation_manager()->DeregisterCallback(cancellation_);
  if (!status_.ok()) context_->SetStatus(status_);
  tf::AsyncOpKernel::DoneCallback done = done_;
  delete this;
  return done;
}

}  // namespace sok1x
