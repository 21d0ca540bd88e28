// See bridge_request.h and bridge_group.h: how a request ends, and all of a group, and how TensorFlow is told.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "../groups/kept_sums.h"
#include "bridge_fused.h"
#include "bridge_group.h"
#include "bridge_pins.h"

namespace sok1x {

namespace {

// What TensorFlow is to be called back with, each with the context of its op, which lives until then.
typedef std::vector<std::pair<tf::OpKernelContext*, tf::AsyncOpKernel::DoneCallback>> Calls;

// Makes the calls begin to end - 1. Each wakes threads of TensorFlow's for what comes next, which costs some 10 us, on
// virtual machines 50: so the threads of the step's runner share them out among themselves.
void MakeCalls(const std::shared_ptr<Calls>& calls, size_t begin, size_t end) {
  const size_t share = 4;
  while (end - begin > share) {
    const size_t middle = begin + (end - begin) / 2, last = end;
    (*(*calls)[middle].first->runner())([calls, middle, last] { MakeCalls(calls, middle, last); });
    end = middle;
  }
  for (size_t i = begin; i < end; ++i) (*calls)[i].second();
}

}  // namespace

void Request::Finish(const tf::Status& status) {
  if (group != nullptr) group->BeforeFinish();
  if (held.empty()) LetTensorFlowFollow();
  Unlock();
  if (group != nullptr) group->Leave(this);
  const tf::AsyncOpKernel::DoneCallback call = Conclude(status);
  if (call != nullptr) call();
}

tf::AsyncOpKernel::DoneCallback Request::Conclude(const tf::Status& given) {
  const tf::Status status = given.ok() && cuda_error != 0
      ? tf::errors::Internal("sok1x: CUDA could not order the streams (driver error ", cuda_error, ")") : given;
  if (status.ok()) Pins::Keep(this);
  if (status.ok() && keeps_sums) KeptSums::Note(this);
  if (fused == nullptr) {
    if (cancellable) context->cancellation_manager()->DeregisterCallback(cancellation);
    if (!status.ok()) context->SetStatus(OfOp(context, status, label));
  }
  if (Timeline::On()) {
    Timeline::Get()->Add(stamps, last, label, function, context->step_id() + 1, reinterpret_cast<intptr_t>(this),
                         static_cast<int32_t>(status.code()));
  }
  if (stream == nullptr) {
    for (const tf::Tensor& block : temporaries) Scratch::Get()->Give(block);
  }
  temporaries.clear();
  variables.clear();
  if (fused != nullptr && status.ok() && device_outputs > 0) fused->Keep(place, Output(0));
  tf::AsyncOpKernel::DoneCallback call = fused == nullptr ? std::move(done) : fused->Leave(status, label);
  delete this;
  return call;
}

void Group::Finish() {
  Unlock();
  for (Request* request : members_) {
    if (request != nullptr) request->Unlock();
  }
  LetTensorFlowFollow();
  GiveBlocks();
  const std::shared_ptr<Calls> calls(new Calls);
  for (Request*& request : members_) {
    if (request != nullptr) {
      tf::OpKernelContext* const context = request->context;
      tf::AsyncOpKernel::DoneCallback call = request->Conclude(tf::Status());
      if (call != nullptr) calls->emplace_back(context, std::move(call));
    }
    request = nullptr;
  }
  left_ = 0;
  if (calls->size() < 4) {
    for (auto& call : *calls) call.second();
  } else {  // this thread has other things to do
    (*calls->front().first->runner())([calls] { MakeCalls(calls, 0, calls->size()); });
  }
}

Group::Blocks::~Blocks() {
  if (!on_host_) return;
  for (const tf::Tensor& block : blocks_) Scratch::Get()->Give(block);
}

void Group::GiveBlocks() {
  Blocks(std::move(blocks_), on_host_);
  blocks_.clear();
  kept_.clear();
  lent_blocks_.reset();
}

void Group::BeforeFinish() {
  if (left_ == 1) Unlock();
}

void Group::Leave(Request* request) {
  Remove(request);
  if (left_ > 0 || (lent_ && open_)) return;
  GiveBlocks();
  if (!open_) delete this;
}

void Group::Forget(Request* request) {
  LetTensorFlowFollow();  // before its allocator has our memory back: whoever is the last may not be here then
  lent_ = true;
  Remove(request);
  if (left_ == 0 && !open_) {
    GiveBlocks();
    delete this;
  }
}

void Group::Remove(Request* request) {
  *std::find(members_.begin(), members_.end(), request) = nullptr;
  request->group = nullptr;
  --left_;
}

void Group::Close() {
  Unlock();
  LetTensorFlowFollow();
  open_ = false;
  if (left_ > 0) return;
  GiveBlocks();
  delete this;
}

}  // namespace sok1x
