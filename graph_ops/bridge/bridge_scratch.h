// Temporary memory that the next step can use again.
//
// TensorFlow's CPU allocator maps large blocks anew each time, and touching fresh pages costs more than most kernels:
// a step's temporaries, a few MB each, would take a millisecond or two of page faults. So blocks go back to this pool
// when a request finishes. It keeps at most kKeptBytes; the block that has waited longest goes first. A group takes one
// block for all its ops, tens of MB: where the blocks of a step's groups do not fit together, none is there when it is
// wanted again.
//
// They are on large pages where Linux gives such: what another rank copies out of them is pinned page by page.
#ifndef SOK1X_BRIDGE_SCRATCH_H
#define SOK1X_BRIDGE_SCRATCH_H

#include <cstdint>
#include <deque>
#include <mutex>

#include "../../cuda_kernels/host_pages.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok1x {

class Scratch {
 public:
  static constexpr int64_t kKeptBytes = 128 << 20;
  static constexpr int64_t kLeastBytes = 64 << 10;  // smaller blocks come cheap from the allocator

  static Scratch* Get();

  // A block of at least `bytes` bytes.
  tensorflow::Status Take(tensorflow::OpKernelContext* context, int64_t bytes, tensorflow::Tensor* block) {
    if (bytes >= kLeastBytes) {
      std::lock_guard<std::mutex> lock(mutex_);
      auto best = free_.end();
      for (auto it = free_.begin(); it != free_.end(); ++it) {
        const int64_t size = it->NumElements();
        if (size >= bytes && size <= 2 * bytes && (best == free_.end() || size < best->NumElements())) best = it;
      }
      if (best != free_.end()) {
        *block = *best;
        kept_ -= best->NumElements();
        free_.erase(best);
        return tensorflow::Status();
      }
      bytes += bytes / 8;  // the next batch may be a little larger
    }
    const tensorflow::Status status =
        context->allocate_temp(tensorflow::DT_UINT8, tensorflow::TensorShape({bytes}), block);
    if (status.ok()) ask_for_huge_pages(const_cast<char*>(block->tensor_data().data()), bytes);
    return status;
  }

  void Give(const tensorflow::Tensor& block) {
    if (block.NumElements() < kLeastBytes || block.NumElements() > kKeptBytes) return;
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(block);
    kept_ += block.NumElements();
    while (kept_ > kKeptBytes) {
      kept_ -= free_.front().NumElements();
      free_.pop_front();
    }
  }

 private:
  std::mutex mutex_;
  std::deque<tensorflow::Tensor> free_;  // the one that has waited longest first
  int64_t kept_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_SCRATCH_H
