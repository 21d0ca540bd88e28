// How far a graph's global step is, told to its tables by a run that trains none of them, or after a restore: an op of
// its own, which is done at once, without the executor. What stamps a lookup's gradient does the same (stores/clock.py:
// tell).
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

namespace sok1x {
namespace {

namespace tf = ::tensorflow;

// What the tables of a plan have been told in a session: the last run that trained by the global step, and that step.
struct Told {
  int64_t values[2] = {0, 0};
  bool lent = false;  // others know where it is
};

// By the plan's name, which no other process has, and the session, 0 for what functions tell, which do not know theirs.
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

  int64_t* Lend(const std::string& plan, uint64_t session) {
    std::lock_guard<std::mutex> lock(mutex_);
    Told* const told = Of(plan, session);
    told->lent = true;
    return told->values;
  }

  void Tell(const std::string& plan, uint64_t session, int64_t run, int64_t step) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (hearing_.count(plan) == 0) return;  // its graph is gone, another process's, or does not hear
    Write(Of(plan, session), run, step);
    if (session != 0) return;
    // Of all sessions, that of the function and others. One that is further keeps its step: rows that have too late a
    // one are dumped again, those that have too early a one never.
    for (auto& each : told_[plan]) {
      if (step >= __atomic_load_n(each.second->values + 1, __ATOMIC_ACQUIRE)) Write(each.second.get(), run, step);
    }
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
    auto& sessions = told_[plan];
    auto& told = sessions[session];
    if (told == nullptr) {
      const auto functions = sessions.find(0);
      told.reset(new Told);
      if (session != 0 && functions != sessions.end()) {
        Write(told.get(), functions->second->values[0], functions->second->values[1]);
      }
    }
    return told.get();
  }

  static void Write(Told* told, int64_t run, int64_t step) {
    // An insertion may read both meanwhile, the run first: it gets this step, or a later one.
    __atomic_store_n(told->values + 1, step, __ATOMIC_RELEASE);
    __atomic_store_n(told->values, run, __ATOMIC_RELEASE);
  }

  std::mutex mutex_;
  std::set<std::string> hearing_;
  std::map<std::string, std::map<uint64_t, std::unique_ptr<Told>>> told_;
};

class TellStepOp : public tf::OpKernel {
 public:
  explicit TellStepOp(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("plan", &plan_));
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& step = context->input(0);
    if (step.NumElements() != 1) return;  // what trains no table does not fail by us
    const std::string handle(context->session_handle());
    Plans::Get()->Tell(plan_, handle.empty() ? 0 : tf::Hash64(handle), static_cast<int64_t>(context->step_id()) + 1,
                       static_cast<int64_t>(step.flat<tf::int64>()(0)) + 1);
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

// From now on a plan's tables hear what is told.
extern "C" void sok1x_hear_steps(const char* plan) { sok1x::Plans::Get()->Hear(plan); }

// int64 [2], of a plan in a session, which stays until `sok1x_end_steps`.
extern "C" int64_t* sok1x_steps_of(const char* plan, uint64_t session) {
  return sok1x::Plans::Get()->Lend(plan, session);
}

extern "C" void sok1x_forget_steps(const char* plan) { sok1x::Plans::Get()->Forget(plan); }

extern "C" void sok1x_end_steps(uint64_t session) { sok1x::Plans::Get()->End(session); }
