// How far a graph's global step is, told to its tables by a run that trains none of them, or after a restore: an op of
// its own, which is done at once, without the executor. What stamps a lookup's gradient does the same (stores/clock.py:
// tell). In a function, TensorFlow says neither the session nor the run: an op outside says it, whose output goes in.
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/hash/hash.h"
#include "told_step.h"

namespace sok1x {
namespace {

namespace tf = ::tensorflow;

// What the tables of a plan have been told in a session.
struct Told {
  ToldStep step;
  bool lent = false;  // others know where it is
};

// By the plan's name, which no other process has, and the session.
class Plans {
 public:
  static Plans* Get() {
    static auto* const plans = new Plans;
    return plans;
  }

  void Hear(const std::string& plan) {
    std::lock_guard<std::mutex> lock(mutex_);
    hearing_.insert(plan);
  }

  ToldStep* Lend(const std::string& plan, uint64_t session) {
    std::lock_guard<std::mutex> lock(mutex_);
    Told* const told = Of(plan, session);
    told->lent = true;
    return &told->step;
  }

  void Tell(const std::string& plan, uint64_t session, int64_t run, int64_t step) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (hearing_.count(plan) == 0) return;  // its graph is gone, another process's, or does not hear
    Of(plan, session)->step.Set(run, step);
  }

  void Forget(const std::string& plan) {
    std::lock_guard<std::mutex> lock(mutex_);
    hearing_.erase(plan);
    auto& sessions = told_[plan];
    for (auto each = sessions.begin(); each != sessions.end();) {
      each = each->second->lent ? std::next(each) : sessions.erase(each);
    }
    if (sessions.empty()) told_.erase(plan);
  }

  void End(uint64_t session) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto plan = told_.begin(); plan != told_.end();) {
      plan->second.erase(session);
      plan = plan->second.empty() ? told_.erase(plan) : std::next(plan);
    }
  }

 private:
  Told* Of(const std::string& plan, uint64_t session) {
    auto& told = told_[plan][session];
    if (told == nullptr) told.reset(new Told);
    return told.get();
  }

  std::mutex mutex_;
  std::set<std::string> hearing_;
  std::map<std::string, std::map<uint64_t, std::unique_ptr<Told>>> told_;
};

// A run of a session, as its ops outside of functions know it.
struct Run {
  explicit Run(const tf::OpKernelContext* context)
      : session(tf::Hash64(context->session_handle())), number(context->step_id() + 1) {}

  uint64_t session;
  int64_t number;
};

class ThisRunOp : public tf::OpKernel {
 public:
  explicit ThisRunOp(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {}

  void Compute(tf::OpKernelContext* context) override {
    tf::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({2}), &output));
    const Run run(context);
    auto values = output->flat<tf::int64>();
    values(0) = static_cast<tf::int64>(run.session);
    values(1) = run.number;
  }
};

class TellStepOp : public tf::OpKernel {
 public:
  explicit TellStepOp(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("plan", &plan_));
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& step = context->input(0);
    if (step.NumElements() != 1) return;  // what trains no table does not fail by us
    Run run(context);
    if (context->num_inputs() > 1) {
      const auto outside = context->input(1).flat<tf::int64>();
      run.session = static_cast<uint64_t>(outside(0));
      run.number = outside(1);
    }
    Plans::Get()->Tell(plan_, run.session, run.number, static_cast<int64_t>(step.flat<tf::int64>()(0)) + 1);
  }

 private:
  std::string plan_;
};

REGISTER_OP("Sok1xTellStep")
    .Input("global_step: int64")
    .Input("outside: N * int64")
    .Attr("plan: string")
    .Attr("N: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Tells the tables of its graph the global step, before that moves. outside: in a function, Sok1xThisRun's.");

REGISTER_OP("Sok1xThisRun")
    .Output("run: int64")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Vector(2));
      return tf::Status();
    })
    .Doc("The session and the run, to be told to functions, which do not know them.");

REGISTER_KERNEL_BUILDER(Name("Sok1xTellStep").Device(tf::DEVICE_CPU), TellStepOp);
REGISTER_KERNEL_BUILDER(Name("Sok1xThisRun").Device(tf::DEVICE_CPU), ThisRunOp);

}  // namespace
}  // namespace sok1x

// From now on a plan's tables hear what is told.
extern "C" void sok1x_hear_steps(const char* plan) { sok1x::Plans::Get()->Hear(plan); }

// Of a plan in a session, which stays until `sok1x_end_steps`.
extern "C" sok1x::ToldStep* sok1x_steps_of(const char* plan, uint64_t session) {
  return sok1x::Plans::Get()->Lend(plan, session);
}

// out: int64 [2], the run and the step.
extern "C" void sok1x_told_step(const sok1x::ToldStep* told, int64_t* out) { told->Get(out, out + 1); }

extern "C" void sok1x_tell_step(sok1x::ToldStep* told, int64_t run, int64_t step) { told->Set(run, step); }

extern "C" void sok1x_forget_steps(const char* plan) { sok1x::Plans::Get()->Forget(plan); }

extern "C" void sok1x_end_steps(uint64_t session) { sok1x::Plans::Get()->End(session); }
