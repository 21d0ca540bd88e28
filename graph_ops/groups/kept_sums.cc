// See kept_sums.h.
#include "kept_sums.h"

#include <mutex>
#include <unordered_map>

#include "tensorflow/core/framework/allocation_description.pb.h"

#include "../bridge/bridge_calls.h"

namespace sok1x {

namespace {

// What is still to be summed, and what has been, then without `steps`: by where the sums go.
class All {
 public:
  static All* Get() {
    static All* all = new All;  // never destroyed: tensors may outlive static destruction
    return all;
  }
  void Put(const void* sums, const KeptSums::Waiting& waiting) {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_[sums] = waiting;
    ++kept_;
  }
  // Of what has been given out without being summed.
  void PutMade(const void* sums) {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_[sums].steps = nullptr;
  }
  bool Find(const void* sums, KeptSums::Waiting* waiting) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = waiting_.find(sums);
    if (found == waiting_.end() || found->second.steps == nullptr) return false;
    *waiting = found->second;
    return true;
  }
  bool Known(const void* sums) {
    std::lock_guard<std::mutex> lock(mutex_);
    return waiting_.count(sums) > 0;
  }
  void Drop(const void* sums) {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.erase(sums);
  }
  int64_t kept() {
    std::lock_guard<std::mutex> lock(mutex_);
    return kept_;
  }
  int64_t waiting() {
    std::lock_guard<std::mutex> lock(mutex_);
    return waiting_.size();
  }

 private:
  std::mutex mutex_;  // the executor's thread puts, and any thread may be the last to have a tensor
  std::unordered_map<const void*, KeptSums::Waiting> waiting_;
  int64_t kept_ = 0;
};

class Buffer : public tf::TensorBuffer {
 public:
  Buffer(const tf::Tensor& sums, const std::vector<tf::Tensor>& needs, const std::shared_ptr<void>& memory)
      : tf::TensorBuffer(const_cast<char*>(sums.tensor_data().data())), sums_(sums), needs_(needs), memory_(memory) {}
  ~Buffer() override { All::Get()->Drop(data()); }
  size_t size() const override { return sums_.TotalBytes(); }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(size());
    proto->set_allocator_name("sok1x_kept_sums");
    proto->set_ptr(reinterpret_cast<uintptr_t>(data()));
  }

 private:
  const tf::Tensor sums_;
  const std::vector<tf::Tensor> needs_;
  const std::shared_ptr<void> memory_;
};

}  // namespace

tf::Tensor KeptSums::Keep(const tf::Tensor& sums, const Waiting& waiting, const std::vector<tf::Tensor>& needs,
                          const std::shared_ptr<void>& memory) {
  auto* const buffer = new Buffer(sums, needs, memory);
  All::Get()->Put(buffer->data(), waiting);
  const tf::Tensor kept(sums.dtype(), sums.shape(), buffer);
  buffer->Unref();
  return kept;
}

void KeptSums::Note(Request* request) {
  tf::Tensor* const sums = request->device_outputs > 0 ? request->Output(0) : nullptr;
  if (sums == nullptr || sums->NumElements() == 0 || All::Get()->Known(sums->tensor_data().data())) return;
  auto* const buffer = new Buffer(*sums, {}, nullptr);
  All::Get()->PutMade(buffer->data());
  *sums = tf::Tensor(sums->dtype(), sums->shape(), buffer);
  buffer->Unref();
}

bool KeptSums::IsCopy(const Request& step) {
  return step.keeps_sums && !step.inputs.empty() && step.inputs[0].elements > 0 &&
         !All::Get()->Known(step.inputs[0].data);
}

bool KeptSums::At(const void* sums, SumMember* member) {
  Waiting waiting;
  if (!All::Get()->Find(sums, &waiting)) return false;
  *member = waiting.member;
  return true;
}

int KeptSums::Settle(Request* request) {
  Waiting waiting;
  if (IsCopy(*request)) return kCopied;
  if (request->inputs.empty() || !All::Get()->Find(request->inputs[0].data, &waiting)) return 0;
  GroupWork work = {waiting.device, [](void* owner, i64 nbytes) -> void* {
    void* data = nullptr;
    return TakeTemporary(static_cast<Request*>(owner), nbytes, &data) == 0 ? data : nullptr;
  }, request};
  const int code = waiting.steps->segment_sum(&work, &waiting.member, 1);
  if (code == 0) All::Get()->PutMade(request->inputs[0].data);
  return code;
}

int64_t KeptSums::kept() { return All::Get()->kept(); }
int64_t KeptSums::waiting() { return All::Get()->waiting(); }

}  // namespace sok1x

extern "C" {

int sok1x_kept_sums_settle(void* request) { return sok1x::KeptSums::Settle(static_cast<sok1x::Request*>(request)); }
int64_t sok1x_kept_sums_kept() { return sok1x::KeptSums::kept(); }
int64_t sok1x_kept_sums_waiting() { return sok1x::KeptSums::waiting(); }

}  // extern "C"
