// What is there of a dense feature [B, n], of which some values say that there is none: one op for what by stock ops is
// a comparison, a search for what is there, a gathering, a shape, and for ragged ids a count of each row.
#include <algorithm>
#include <cstdint>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok1x {
namespace {

namespace tf = ::tensorflow;

template <typename T>
class PresentValuesOp : public tf::OpKernel {
 public:
  explicit PresentValuesOp(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {}

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& feature = context->input(0);
    const tf::Tensor& missing = context->input(1);
    OP_REQUIRES(context, feature.dims() == 2 && missing.NumElements() == 1,
                tf::errors::InvalidArgument("sok1x: got a feature of shape ", feature.shape().DebugString(),
                                            ", expected [B, n]"));
    const int64_t rows = feature.dim_size(0), columns = feature.dim_size(1);
    const T* from = feature.flat<T>().data();
    const T none = missing.flat<T>()(0);
    tf::Tensor *splits = nullptr, *shape = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(2, tf::TensorShape({2}), &shape));
    OP_REQUIRES_OK(context, context->allocate_output(3, tf::TensorShape({rows + 1}), &splits));
    shape->flat<tf::int64>()(0) = rows;
    shape->flat<tf::int64>()(1) = columns;
    auto* split = splits->flat<tf::int64>().data();
    int64_t count = 0;
    for (int64_t row = 0; row < rows; ++row) {
      split[row] = count;
      for (int64_t column = 0; column < columns; ++column) count += from[row * columns + column] != none;
    }
    split[rows] = count;
    if (context->output_required(0)) {
      tf::Tensor* indices = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({count, 2}), &indices));
      auto* to = indices->flat<tf::int64>().data();
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          if (from[row * columns + column] == none) continue;
          *to++ = row;
          *to++ = column;
        }
      }
    }
    if (count == feature.NumElements()) {  // as mostly: the same memory
      tf::Tensor values;
      CHECK(values.CopyFrom(feature, tf::TensorShape({count})));  // which fails for another count alone
      context->set_output(1, values);
      return;
    }
    tf::Tensor* values = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(1, tf::TensorShape({count}), &values));
    std::copy_if(from, from + feature.NumElements(), values->flat<T>().data(),
                 [&none](const T& value) { return value != none; });
  }
};

REGISTER_OP("Sok1xPresentValues")
    .Input("feature: T")
    .Input("missing: T")
    .Output("indices: int64")
    .Output("values: T")
    .Output("dense_shape: int64")
    .Output("row_splits: int64")
    .Attr("T: {string, int32, int64}")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      tf::shape_inference::ShapeHandle feature;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &feature));
      tf::shape_inference::DimensionHandle splits;
      TF_RETURN_IF_ERROR(c->Add(c->Dim(feature, 0), 1, &splits));
      c->set_output(0, c->Matrix(c->UnknownDim(), 2));
      c->set_output(1, c->Vector(c->UnknownDim()));
      c->set_output(2, c->Vector(2));
      c->set_output(3, c->Vector(splits));
      return tf::Status();
    })
    .Doc("The values of a matrix that are not `missing`, as a SparseTensor's, and where its rows begin among them.");

#define SOK1X_REGISTER_PRESENT_VALUES(type) \
  REGISTER_KERNEL_BUILDER(                  \
      Name("Sok1xPresentValues").Device(tf::DEVICE_CPU).TypeConstraint<type>("T"), PresentValuesOp<type>)

SOK1X_REGISTER_PRESENT_VALUES(tf::tstring);
SOK1X_REGISTER_PRESENT_VALUES(tf::int32);
SOK1X_REGISTER_PRESENT_VALUES(tf::int64);

}  // namespace
}  // namespace sok1x
