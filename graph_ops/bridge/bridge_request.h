// What the two sides of the bridge share: tensors and requests as Python sees them, and the request itself.
#ifndef SOK1X_BRIDGE_REQUEST_H
#define SOK1X_BRIDGE_REQUEST_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/lib/gtl/inlined_vector.h"
#include "tensorflow/core/public/version.h"

#include "bridge_cuda.h"
#include "bridge_request_pool.h"
#include "bridge_scratch.h"
#include "bridge_timeline.h"

namespace sok1x {

namespace tf = ::tensorflow;

#if TF_MAJOR_VERSION == 1
typedef tf::error::Code Code;
typedef tf::string Text;
inline std::string MessageOf(const tf::Status& status) { return status.error_message(); }
#else
typedef absl::StatusCode Code;
typedef std::string Text;
inline std::string MessageOf(const tf::Status& status) { return std::string(status.message()); }
#endif
typedef tf::mutex VarMutex;

// TensorFlow's status codes.
constexpr int kResourceExhausted = 8, kInvalidArgument = 3, kInternal = 13;

constexpr int kMaxRank = 8;

// What Python sees of a tensor. Kept in step with bridge.py's TensorInfo.
struct TensorInfo {
  void* data;
  int64_t elements;
  int64_t dims[kMaxRank];
  int32_t dtype;
  int32_t rank;
};

// What Python sees of a request. Kept in step with bridge.py's RequestInfo.
struct RequestInfo {
  void* request;
  const char* function;
  const char* config;
  const char* name;
  const TensorInfo* inputs;
  int64_t id;      // of this request: never used again
  int64_t kernel;  // of the node in its session
  int64_t step;    // of the session's run; above 0
  uint64_t session;
  uint64_t signature;  // of what this run of the session is made of: bridge_signature.cc
  uint64_t frame;     // of a loop, 0 outside of loops; the same on all ranks whose loops have the same names
  int64_t iteration;  // of that loop
  void* stream;        // TensorFlow's CUstream, or null on the CPU
  int64_t needs_rows;  // as of the request
  int32_t input_count;  // those in host memory included
  int32_t host_input_count;
  int32_t resource_count;
  int32_t device_output_count;  // outputs in host memory come after these
  int32_t grown;                // as of the request
};

inline bool Describe(const tf::Tensor& tensor, TensorInfo* info) {
  if (tensor.dims() > kMaxRank) return false;
  info->data = const_cast<char*>(tensor.tensor_data().data());
  info->elements = tensor.NumElements();
  info->dtype = static_cast<int32_t>(tensor.dtype());
  info->rank = tensor.dims();
  for (int i = 0; i < tensor.dims(); ++i) info->dims[i] = tensor.dim_size(i);
  return true;
}

class Fused;
class Group;

// An op's share of its kernel's inputs and outputs, of which it may not be the only one: resources, device and host
// inputs, device and host outputs. Inputs are in this order.
enum Span { kResources, kDeviceInputs, kHostInputs, kDeviceOutputs, kHostOutputs, kSpans };

// One run of one op, from ComputeAsync until sok1x_finish.
struct Request {
  static void* operator new(size_t bytes) { return RequestPool::Get()->Take(bytes); }
  static void operator delete(void* block) { RequestPool::Get()->Give(block); }

  tf::OpKernelContext* context;
  tf::AsyncOpKernel::DoneCallback done;
  const char* label;       // the op's name
  const char* function;    // the operation's
  const Text* names = nullptr;  // of the variables, where they are no inputs
  int first[kSpans];       // where the op's inputs begin among those of its kernel
  int device_inputs, device_outputs;
  const int* places;  // of outputs, those in host memory last, where they are among the kernel's; -1: nobody reads it
  const tf::DataType* output_types;
  tf::gtl::InlinedVector<std::pair<int, tf::Tensor>, 7> unread;  // outputs that the kernel does not have, by number
  Fused* fused = nullptr;  // of requests of which TensorFlow knows as one
  int place = 0;           // which of its kernel's ops
  bool follows = false;    // another op of its kernel, whose first output its first input is
  tf::Tensor given;        // then that
  // Without memory of their own for as many as most have: one thread makes requests and another one deletes them.
  tf::gtl::InlinedVector<TensorInfo, 7> inputs;
  tf::gtl::InlinedVector<tf::core::RefCountPtr<tf::Var>, 6> variables;
  std::vector<VarMutex*> held;  // the variables' mutexes that are locked now, in order of address
  bool exclusive = false;
  bool cancellable = false;  // a callback is registered under `cancellation`
  tf::CancellationToken cancellation = 0;
  std::vector<tf::Tensor> temporaries;  // blocks from Scratch
  tf::Tensor larger;  // a buffer that a variable is about to get: bridge_grow.cc
  void* stream = nullptr;      // TensorFlow's, on a GPU
  void* own_stream = nullptr;  // ours, once the executor has begun with the request
  void* event = nullptr;
  int cuda_error = 0;
  int64_t stamps[kStampCount] = {};  // while the timeline is on
  int32_t last = -1;             // the rank that was the last to be ready
  Group* group = nullptr;  // of requests that run as one (bridge_group.h), until the request finishes
  bool keeps_sums = false;  // a gradient that one optimizer's step alone reads, or that step: groups/kept_sums.h
  int64_t needs_rows = 0;  // of a lookup for whose new keys its table has no rows, as its group has seen: how many with
                           // them; else 0
  bool grown = false;      // its table has got rows for it, and C++ is to run it once more: Queue::PushAgain
  // Of one that runs eagerly: bridge_pins.h.
  std::vector<std::shared_ptr<tf::core::RefCounted>> pins;

  // Input i of the op, those in host memory last and without resources.
  const tf::Tensor& Input(int i) const {
    if (follows && i == 0) return given;
    return context->input(i < device_inputs ? first[kDeviceInputs] + i : first[kHostInputs] + i - device_inputs);
  }

  // Output i, or null where there is none yet.
  tf::Tensor* Output(int i) {
    if (places[i] >= 0) return context->mutable_output(places[i]);
    for (auto& each : unread) {
      if (each.first == i) return &each.second;
    }
    return nullptr;
  }
  // Makes an output, of which there is none yet.
  tf::Status AllocateOutput(int i, const tf::TensorShape& shape, tf::Tensor** tensor) {
    if (places[i] >= 0) return context->allocate_output(places[i], shape, tensor);
    tf::AllocatorAttributes memory;
    memory.set_on_host(i >= device_outputs);
    unread.emplace_back(i, tf::Tensor());
    const tf::Status status = context->allocate_temp(output_types[i], shape, &unread.back().second, memory);
    if (status.ok()) {
      *tensor = &unread.back().second;
    } else {
      unread.pop_back();
    }
    return status;
  }
  void SetOutput(int i, const tf::Tensor& tensor) {
    if (places[i] >= 0) {
      context->set_output(places[i], tensor);
    } else {
      unread.emplace_back(i, tensor);
    }
  }

  // What TensorFlow's stream holds now comes before what ours is given from now on. To be called after every
  // allocation: TensorFlow frees memory when the work that uses it has been enqueued, not when it is done.
  void FollowTensorFlow() {
    if (own_stream != nullptr) Note(Cuda::Get()->Follow(event, stream, own_stream));
  }
  // And the other way round.
  void LetTensorFlowFollow() {
    if (own_stream != nullptr) Note(Cuda::Get()->Follow(event, own_stream, stream));
  }
  void Note(int error) {
    if (error != 0 && cuda_error == 0) cuda_error = error;
  }

  void Unlock() {
    if (!held.empty()) LetTensorFlowFollow();
    for (auto it = held.rbegin(); it != held.rend(); ++it) {
      if (exclusive) {
        (*it)->unlock();
      } else {
        (*it)->unlock_shared();
      }
    }
    held.clear();
  }

  // It has come to a stamp of the timeline's.
  void Come(Stamp stamp) {
    if (Timeline::On()) stamps[stamp] = Timeline::Now();
  }

  // Ends the op. The request is gone afterwards.
  void Finish(const tf::Status& status);

  // The last part of Finish, after the streams have been ordered: what is left is to call what it returns, null where
  // others that it was fused with have not finished.
  tf::AsyncOpKernel::DoneCallback Conclude(const tf::Status& status);
};

struct Queued {
  Request* request;
  RequestInfo info;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_REQUEST_H
