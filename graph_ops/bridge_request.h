// What the two sides of the bridge share: tensors and requests as Python sees them, and the request itself.
#ifndef SOK1X_BRIDGE_REQUEST_H
#define SOK1X_BRIDGE_REQUEST_H

#include <cstdint>
#include <memory>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/public/version.h"

#include "bridge_scratch.h"

namespace sok1x {

namespace tf = ::tensorflow;

#if TF_MAJOR_VERSION == 1
typedef tf::error::Code Code;
typedef tf::mutex VarMutex;
#else
typedef absl::StatusCode Code;
typedef tf::mutex VarMutex;
#endif

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
  int32_t input_count;
  int32_t resource_count;
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

// One run of one op, from ComputeAsync until sok1x_finish.
struct Request {
  tf::OpKernelContext* context;
  tf::AsyncOpKernel::DoneCallback done;
  std::vector<TensorInfo> inputs;
  std::vector<tf::core::RefCountPtr<tf::Var>> variables;
  std::vector<TensorInfo> variable_infos;
  std::vector<VarMutex*> held;  // the variables' mutexes that are locked now, in order of address
  bool exclusive = false;
  bool cancellable = false;  // a callback is registered under `cancellation`
  tf::CancellationToken cancellation = 0;
  std::vector<tf::Tensor> temporaries;  // blocks from Scratch

  void Unlock() {
    for (auto it = held.rbegin(); it != held.rend(); ++it) {
      if (exclusive) {
        (*it)->unlock();
      } else {
        (*it)->unlock_shared();
      }
    }
    held.clear();
  }

  void Finish(const tf::Status& status) {
    Unlock();
    if (cancellable) context->cancellation_manager()->DeregisterCallback(cancellation);
    if (!status.ok()) context->SetStatus(status);
    for (const tf::Tensor& block : temporaries) Scratch::Get()->Give(block);
    temporaries.clear();
    variables.clear();
    tf::AsyncOpKernel::DoneCallback call = std::move(done);
    delete this;
    call();
  }
};

struct Queued {
  Request* request;
  RequestInfo info;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_REQUEST_H
