// What there is one of in a process. None is ever destroyed: TensorFlow's threads may outlive static destruction.
#include "bridge_alone.h"
#include "bridge_queue.h"
#include "bridge_sessions.h"

namespace sok1x {

std::atomic<bool>* Alone() {
  static auto* alone = new std::atomic<bool>(false);
  return alone;
}

Queue* Queue::Get() {
  static Queue* queue = new Queue;
  return queue;
}

Scratch* Scratch::Get() {
  static Scratch* scratch = new Scratch;
  return scratch;
}

Sessions* Sessions::Get() {
  static Sessions* sessions = new Sessions;
  return sessions;
}

void Sessions::Enter(uint64_t session) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++kernels_[session];
}

void Sessions::Leave(uint64_t session, bool variables_end) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--kernels_[session] > 0) return;
    kernels_.erase(session);
  }
  Queue::Get()->EndSession(session, variables_end);
}

}  // namespace sok1x

extern "C" void sok1x_alone(int alone) { sok1x::Alone()->store(alone != 0); }
