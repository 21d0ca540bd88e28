// See bridge_runner.h.
#include "bridge_runner.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "tensorflow/core/platform/env.h"

namespace sok1x {
namespace {

typedef std::function<void(std::function<void()>)> Runner;

// Gives the runner something to run.
bool Try(const Runner& runner) {
  const std::shared_ptr<std::atomic<bool>> here(new std::atomic<bool>(false));
  const std::thread::id caller = std::this_thread::get_id();
  runner([here, caller] { here->store(std::this_thread::get_id() == caller); });
  return here->load();
}

// Whether a runner runs at once what it is given. To try it costs as much as to wake a thread, so that is done once for
// each type of runner: TensorFlow has one that goes to pools, of whatever threads, and another that does not.
bool RunsAtOnce(const Runner& runner) {
  static std::mutex mutex;
  static std::unordered_map<std::type_index, bool> known;
  const std::type_index type(runner.target_type());
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = known.find(type);
  return found != known.end() ? found->second : known.emplace(type, Try(runner)).first->second;
}

}  // namespace

tf::AsyncOpKernel::DoneCallback OutsideExecutor(tf::OpKernelContext* context, tf::AsyncOpKernel::DoneCallback done) {
  if (context->runner() == nullptr || !*context->runner() || !RunsAtOnce(*context->runner())) return done;
  return [done] { tf::Env::Default()->SchedClosure(done); };
}

}  // namespace sok1x
