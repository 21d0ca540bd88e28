// The queue of requests, from TensorFlow's threads to the executor's.
#ifndef SOK1X_BRIDGE_QUEUE_H
#define SOK1X_BRIDGE_QUEUE_H

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include "bridge_clock.h"
#include "bridge_request.h"

namespace sok1x {

// How the executor sees, while it waits for requests, that another rank has sent something, and how C++ sends and
// receives (groups/post.h): MPI's functions and what they are to be called with. Kept in step with launch/inbox.py's
// Inbox. comm and byte are what the MPI library calls such, pointers or ints.
struct Inbox {
  int (*probe)(int source, int tag, void* comm, int* flag, void* status);
  void* comm;
  void* status;
  int32_t source, tag;
  int (*recv)(void* data, int count, void* type, int source, int tag, void* comm, void* status);
  int (*isend)(const void* data, int count, void* type, int target, int tag, void* comm, void** request);
  int (*test)(void** request, int* flag, void* status);
  int (*get_count)(const void* status, void* type, int* count);
  void* byte;         // the type
  int64_t source_at;  // where in a status the sender is

  // Also where MPI has an error to tell, which who then receives is told.
  bool Something() const {
    int flag = 0;
    return probe(source, tag, comm, &flag, status) != 0 || flag != 0;
  }
};

// The queue between TensorFlow's threads and the executor. Closed until an executor opens it; a request that meets a
// closed queue fails at once with the reason, so that nothing ever waits for a thread that is not there.
class Queue {
 public:
  static Queue* Get();

  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
  }

  // In a process that was forked from one that had an executor, what forked.py says of that; else null. It has none,
  // and a lock that another thread held then is never given back here: to be asked before any is taken.
  static std::atomic<const char*>* Forked() {
    static std::atomic<const char*> words{nullptr};
    return &words;
  }

  void Close(int code, const std::string& reason) {
    std::deque<Queued> left;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_ = false;
      close_status_ = tf::Status(static_cast<Code>(code), reason);
      left.swap(queue_);
      refused_ += left.size();
      cancelled_.clear();
      ended_.clear();
      size_.store(0, std::memory_order_release);
    }
    ready_.notify_all();
    for (Queued& queued : left) queued.request->Finish(close_status_);
  }

  // How many requests have met a closed queue, or were in it when it closed.
  int64_t Refused() {
    std::lock_guard<std::mutex> lock(mutex_);
    return refused_;
  }

  // Requests that may be cancelled from now on, though they come later, or not at all: see Push and NotComing.
  void Coming(const std::vector<int64_t>& ids) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t id : ids) coming_[id] = false;
  }

  void NotComing(const std::vector<int64_t>& ids) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t id : ids) coming_.erase(id);
  }

  // TensorFlow has given up the step of request `id`. The request may have finished meanwhile: hence not its pointer.
  // Of one that is still coming it is told behind it.
  void Cancel(int64_t id) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto coming = coming_.find(id);
      if (coming != coming_.end()) {
        coming->second = true;
        return;
      }
      cancelled_.push_back(id);
      size_.fetch_add(1, std::memory_order_release);
    }
    ready_.notify_one();
  }

  // The last kernel of a session is gone, and the session with it; variables_end: and its variables.
  void EndSession(uint64_t session, bool variables_end) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!open_) return;
      ended_.emplace_back(session, variables_end);
      size_.fetch_add(1, std::memory_order_release);
    }
    ready_.notify_one();
  }

  // All at once: who takes requests finds them together.
  void Push(const std::vector<Queued>& queued) {
    tf::Status refused;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (open_) {
        queue_.insert(queue_.end(), queued.begin(), queued.end());
        size_.fetch_add(queued.size(), std::memory_order_release);
      } else {
        refused = close_status_;
        refused_ += queued.size();
      }
      for (const Queued& each : queued) Came(each.info.id);
    }
    if (refused.ok()) {
      ready_.notify_one();
    } else {
      for (const Queued& each : queued) each.request->Finish(refused);
    }
  }

  // A request that was taken, and that nothing has been done for but that its table has got more rows.
  void PushAgain(RequestInfo info) {
    auto* const request = static_cast<Request*>(info.request);
    request->needs_rows = info.needs_rows = 0;
    request->grown = true;
    info.grown = 1;
    Push({{request, info}});
  }

  void Wake() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      woken_ = true;
    }
    ready_.notify_all();
  }

  // Takes as many requests as are there, up to `capacity` (1), the id of a cancelled one (2) or a session that is gone
  // (3); 0 after wait_us microseconds (negative: no limit), a Wake, or when there is something in the inbox (null:
  // none). *count: how many entries of infos are filled. Looks all the time for spin_us first: a thread that sleeps
  // costs about 50 us to wake, and a step's next op often comes sooner. Then it sleeps, and looks into the inbox each
  // pause_us.
  int PopMany(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, RequestInfo* infos, int capacity,
              int* count) {
    *count = 0;
    auto there = [this] { return size_.load(std::memory_order_acquire) != 0; };
    if (spin_us > 0 && !there()) {
      const int64_t end = MonotonicMicroseconds() + spin_us;
      do {
        if (inbox != nullptr && inbox->Something()) return Take(infos, capacity, count);
      } while (!there() && MonotonicMicroseconds() < end);
    }
    {
      std::unique_lock<std::mutex> lock(mutex_);
      auto something = [this] { return !queue_.empty() || !cancelled_.empty() || !ended_.empty() || woken_; };
      if (wait_us < 0) {
        ready_.wait(lock, something);
      } else if (inbox == nullptr) {
        ready_.wait_for(lock, std::chrono::microseconds(wait_us), something);
      } else {
        const int64_t end = MonotonicMicroseconds() + wait_us;
        const std::chrono::microseconds pause(pause_us);
        while (!something() && MonotonicMicroseconds() < end) {
          lock.unlock();  // TensorFlow's threads need not wait for MPI
          const bool message = inbox->Something();
          lock.lock();
          if (message) break;
          ready_.wait_for(lock, pause, something);
        }
      }
    }
    return Take(infos, capacity, count);
  }

  // Whether there has been a Wake that nobody has heard of yet.
  bool TakeWake() {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool woken = woken_;
    woken_ = false;
    return woken;
  }

  // Takes requests alone, as many as are there, up to `capacity`; looks for the first of them for spin_us.
  int More(int64_t spin_us, RequestInfo* infos, int capacity) {
    const int64_t end = MonotonicMicroseconds() + spin_us;
    for (;;) {
      if (size_.load(std::memory_order_acquire) != 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        int count = 0;
        TakeRequests(infos, capacity, &count);
        // What else there is comes before requests of later.
        if (count > 0 || !cancelled_.empty() || !ended_.empty()) return count;
      }
      if (MonotonicMicroseconds() >= end) return 0;
    }
  }

 private:
  void TakeRequests(RequestInfo* infos, int capacity, int* count) {
    for (; *count < capacity && !queue_.empty(); ++*count) {
      infos[*count] = queue_.front().info;
      queue_.pop_front();
    }
    size_.store(queue_.size() + cancelled_.size() + ended_.size(), std::memory_order_release);
  }

  // A request that was coming is in the queue, or has been refused.
  void Came(int64_t id) {
    const auto coming = coming_.find(id);
    if (coming == coming_.end()) return;
    if (coming->second && open_) {
      cancelled_.push_back(id);
      size_.fetch_add(1, std::memory_order_release);
    }
    coming_.erase(coming);
  }

  // A Wake stays until it is told by a 0, or by TakeWake: who is given requests may run them and come again at once.
  int Take(RequestInfo* infos, int capacity, int* count) {
    std::lock_guard<std::mutex> lock(mutex_);
    int taken = 0;
    if (!queue_.empty()) {
      TakeRequests(infos, capacity, count);
      taken = 1;
    } else if (!cancelled_.empty()) {  // after the queue, so that a request is always known before its cancellation
      infos->id = cancelled_.front();
      cancelled_.pop_front();
      *count = 1;
      taken = 2;
    } else if (!ended_.empty()) {
      infos->session = ended_.front().first;
      infos->step = ended_.front().second;
      ended_.pop_front();
      *count = 1;
      taken = 3;
    } else {
      woken_ = false;
    }
    size_.store(queue_.size() + cancelled_.size() + ended_.size(), std::memory_order_release);
    return taken;
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Queued> queue_;
  std::unordered_map<int64_t, bool> coming_;  // whether they have been cancelled
  std::deque<int64_t> cancelled_;
  std::deque<std::pair<uint64_t, bool>> ended_;
  std::atomic<size_t> size_{0};
  int64_t refused_ = 0;
  bool open_ = false;
  bool woken_ = false;
  tf::Status close_status_ = tf::Status(
      static_cast<Code>(9), "sok1x's executor is not running in this process");
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_QUEUE_H
