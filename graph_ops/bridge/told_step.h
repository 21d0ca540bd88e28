// What a graph's tables have been told in a session: the last run that trained by the global step, and that step.
#ifndef SOK1X_BRIDGE_TOLD_STEP_H
#define SOK1X_BRIDGE_TOLD_STEP_H

#include <cstdint>
#include <mutex>

namespace sok1x {

// A run is told while lookups of it insert rows in other threads: they see both numbers of one telling.
class ToldStep {
 public:
  void Get(int64_t* run, int64_t* step) const {
    std::lock_guard<std::mutex> lock(mutex_);
    *run = run_;
    *step = step_;
  }

  void Set(int64_t run, int64_t step) {
    std::lock_guard<std::mutex> lock(mutex_);
    run_ = run;
    step_ = step;
  }

 private:
  mutable std::mutex mutex_;
  int64_t run_ = 0;
  int64_t step_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_TOLD_STEP_H
