// What the calls for one request and those for several share: memory from TensorFlow's allocator, write access.
#ifndef SOK1X_BRIDGE_CALLS_H
#define SOK1X_BRIDGE_CALLS_H

#include <cstring>

#include "tensorflow/core/common_runtime/dma_helper.h"

#include "bridge_request.h"

namespace sok1x {

// In place of a status code: the request's group holds locks. Kept in step with bridge.py's GROUP_HOLDS.
constexpr int kGroupHolds = 1000;

inline int Report(const tf::Status& status) { return static_cast<int>(status.code()); }

inline tf::Status StatusOf(int code, const char* message) {
  return code == 0 ? tf::Status() : tf::Status(static_cast<Code>(code), message);
}

// INTERNAL: an output has been allocated in another shape.
constexpr int kOtherShape = 13;

// Output `index`, without the order of streams that must follow. An op's group and its own `run` may both ask for it:
// there is one.
inline int Allocate(Request* request, int index, int rank, const int64_t* dims, void** data) {
  tf::TensorShape shape;
  for (int i = 0; i < rank; ++i) shape.AddDim(dims[i]);
  tf::Tensor* tensor = request->Output(index);
  if (tensor == nullptr) {
    const tf::Status status = request->AllocateOutput(index, shape, &tensor);
    if (!status.ok()) return Report(status);
  } else if (tensor->shape() != shape) {
    return kOtherShape;
  }
  *data = const_cast<char*>(tensor->tensor_data().data());
  return 0;
}

// Scratch memory, without the order of streams that must follow.
inline int AllocateTemporary(Request* request, int64_t bytes, tf::Tensor* block, void** data) {
  const tf::Status status = request->stream == nullptr
                                ? Scratch::Get()->Take(request->context, bytes, block)
                                : request->context->allocate_temp(tf::DT_UINT8, tf::TensorShape({bytes}), block);
  if (!status.ok()) return Report(status);
  *data = const_cast<char*>(block->tensor_data().data());
  return 0;
}

// Scratch memory until the request has finished.
inline int TakeTemporary(Request* request, int64_t bytes, void** data) {
  tf::Tensor block;
  const int code = AllocateTemporary(request, bytes, &block, data);
  if (code != 0) return code;
  request->FollowTensorFlow();
  request->temporaries.push_back(block);
  return 0;
}

// Whether a variable has a value. Assigned by what XLA has compiled, it does not say so in TensorFlow 1.15; one without
// a value has the shape [0] there, which no variable of a table has.
inline bool HasValue(tf::Var* variable) {
  const tf::Tensor& tensor = *variable->tensor();
  return variable->is_initialized || tensor.dims() != 1 || tensor.NumElements() > 0;
}

// Rows of the request's variable `index`, -1 where it has no value. Nothing of the request's is locked.
inline int64_t RowsOf(const Request& request, int64_t index) {
  tf::Var* const variable = request.variables[index].get();
  if (variable == nullptr) return -1;
  tf::tf_shared_lock lock(*variable->mu());
  const tf::Tensor& tensor = *variable->tensor();
  return HasValue(variable) && tensor.dims() > 0 ? tensor.dim_size(0) : -1;
}

// The sparse-update rule of TensorFlow's own optimizers: the first in-place write switches the variable to
// copy-on-read; if a reader still shares the buffer at that moment, the variable gets its own copy first.
inline tf::Status MakeWritable(Request* request, tf::Var* variable) {
  tf::OpKernelContext* context = request->context;
  if (variable->copy_on_read_mode.load()) return tf::Status();
  tf::Tensor* tensor = variable->tensor();
  const tf::TensorBuffer* buffer = tf::DMAHelper::buffer(tensor);
  if (buffer != nullptr && !buffer->RefCountIsOne()) {
    tf::Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
    const tf::StringPiece from = tensor->tensor_data();
    char* to = const_cast<char*>(copy.tensor_data().data());
    if (request->stream == nullptr) {
      std::memcpy(to, from.data(), from.size());
    } else {
      request->FollowTensorFlow();
      request->Note(Cuda::Get()->Copy(to, from.data(), from.size(), request->own_stream));
    }
    *tensor = copy;
  }
  variable->copy_on_read_mode.store(true);
  return tf::Status();
}

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_CALLS_H
