// Tensors that travel between devices as one: an op that lays them into one buffer, and one that takes it apart again.
// bridge_packing.cc says when. Parts share the buffer, and begin where memory of TensorFlow's allocators would.
#include <cstring>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

#include "bridge_parts.h"

namespace sok1x {
namespace {

namespace tf = ::tensorflow;

// Parts begin at multiples of so many numbers, 256 bytes.
constexpr int64_t kAlignment = 32;

int64_t Rounded(int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

class PackOp : public tf::OpKernel {
 public:
  explicit PackOp(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {}

  void Compute(tf::OpKernelContext* context) override {
    int64_t total = 0, numbers = 0;
    for (int i = 0; i < context->num_inputs(); ++i) {
      total += Rounded(context->input(i).NumElements());
      numbers += 1 + context->input(i).dims();
    }
    tf::Tensor *packed = nullptr, *shapes = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({total}), &packed));
    OP_REQUIRES_OK(context, context->allocate_output(1, tf::TensorShape({numbers}), &shapes));
    auto* to = packed->flat<tf::int64>().data();
    auto* shape = shapes->flat<tf::int64>().data();
    for (int i = 0; i < context->num_inputs(); ++i) {
      const tf::Tensor& from = context->input(i);
      *shape++ = from.dims();
      for (int dim = 0; dim < from.dims(); ++dim) *shape++ = from.dim_size(dim);
      const int64_t count = from.NumElements();
      if (count > 0) std::memcpy(to, from.tensor_data().data(), count * sizeof(*to));
      std::memset(to + count, 0, (Rounded(count) - count) * sizeof(*to));
      to += Rounded(count);
    }
  }
};

class PartsOp : public tf::OpKernel {
 public:
  explicit PartsOp(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {}

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& packed = context->input(0);
    const auto shapes = context->input(1).flat<tf::int64>();
    int64_t at = 0, begin = 0;
    for (int i = 0; i < context->num_outputs(); ++i) {
      tf::TensorShape shape;
      const bool known = at < shapes.size() && shapes(at) >= 0 && at + shapes(at) < shapes.size();
      for (int64_t dim = 0; known && dim < shapes(at); ++dim) shape.AddDim(shapes(at + 1 + dim));
      const int64_t end = begin + shape.num_elements();
      OP_REQUIRES(context, known && end <= packed.NumElements(),
                  tf::errors::Internal("sok1x: tensors that travelled together do not fit what they travelled in"));
      tf::Tensor part;
      OP_REQUIRES(context, part.CopyFrom(packed.Slice(begin, end), shape),
                  tf::errors::Internal("sok1x: a tensor that travelled with others has another shape"));
      context->set_output(i, part);
      at += 1 + shapes(at);
      begin += Rounded(end - begin);
    }
  }
};

#define SOK1X_REGISTER_PACK(name)                      \
  REGISTER_OP(name)                                    \
      .Input("tensors: N * int64")                     \
      .Output("packed: int64")                         \
      .Output("shapes: int64")                         \
      .Attr("N: int >= 1")                             \
      .SetShapeFn(tf::shape_inference::UnknownShape)   \
      .Doc("Tensors in host memory, one after the other; and of each the number of its dimensions, and these.")
#define SOK1X_REGISTER_PARTS(name)                     \
  REGISTER_OP(name)                                    \
      .Input("packed: int64")                          \
      .Input("shapes: int64")                          \
      .Output("tensors: N * int64")                    \
      .Attr("N: int >= 1")                             \
      .SetShapeFn(tf::shape_inference::UnknownShape)   \
      .Doc("The tensors that Sok1xPack was given, in the memory of `packed`.")

SOK1X_REGISTER_PACK("Sok1xPack");
SOK1X_REGISTER_PARTS("Sok1xParts");
SOK1X_REGISTER_PARTS("Sok1xHostParts");

REGISTER_KERNEL_BUILDER(Name(kPack).Device(tf::DEVICE_CPU), PackOp);
REGISTER_KERNEL_BUILDER(
    Name(kPack).Device(tf::DEVICE_GPU).HostMemory("tensors").HostMemory("packed").HostMemory("shapes"), PackOp);
REGISTER_KERNEL_BUILDER(Name(kParts).Device(tf::DEVICE_CPU), PartsOp);
REGISTER_KERNEL_BUILDER(Name(kParts).Device(tf::DEVICE_GPU).HostMemory("shapes"), PartsOp);
REGISTER_KERNEL_BUILDER(Name(kHostParts).Device(tf::DEVICE_CPU), PartsOp);
REGISTER_KERNEL_BUILDER(
    Name(kHostParts).Device(tf::DEVICE_GPU).HostMemory("packed").HostMemory("shapes").HostMemory("tensors"), PartsOp);

}  // namespace
}  // namespace sok1x
