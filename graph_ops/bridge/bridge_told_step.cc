// How far a graph's global step is, told to its tables by a run that trains none of them, or after a restore: an op of
// its own, which is done at once, without the executor. What stamps a lookup's gradient does the same (stores/clock.py:
// tell).
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok1x {
namespace {

namespace tf = ::tensorflow;

std::mutex mutex;

// `Plan.step` of bridge/plan.py, by the plan's name, which no other process has.
std::map<std::string, int64_t*>* Steps() {
  static auto* const steps = new std::map<std::string, int64_t*>;
  return steps;
}

class TellStepOp : public tf::OpKernel {
 public:
  explicit TellStepOp(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("plan", &plan_));
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& step = context->input(0);
    if (step.NumElements() != 1) return;  // what trains no table does not fail by us
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = Steps()->find(plan_);
    if (found == Steps()->end()) return;  // its graph is gone, another process's, or does not hear
    // An insertion may read both meanwhile, the run first: it gets this step, or a later one.
    __atomic_store_n(found->second + 1, static_cast<int64_t>(step.flat<tf::int64>()(0)) + 1, __ATOMIC_RELEASE);
    __atomic_store_n(found->second, static_cast<int64_t>(context->step_id()) + 1, __ATOMIC_RELEASE);
  }

 private:
  std::string plan_;
};

REGISTER_OP("Sok1xTellStep")
    .Input("global_step: int64")
    .Attr("plan: string")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Tells the tables of its graph the global step, before that moves.");

REGISTER_KERNEL_BUILDER(Name("Sok1xTellStep").Device(tf::DEVICE_CPU), TellStepOp);

}  // namespace
}  // namespace sok1x

// step: int64 [2], which stays until `sok1x_forget_steps`.
extern "C" void sok1x_note_steps(const char* plan, int64_t* step) {
  std::lock_guard<std::mutex> lock(sok1x::mutex);
  (*sok1x::Steps())[plan] = step;
}

extern "C" void sok1x_forget_steps(const char* plan) {
  std::lock_guard<std::mutex> lock(sok1x::mutex);
  sok1x::Steps()->erase(plan);
}
