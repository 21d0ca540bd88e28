// A stream as asynchronous as CUDA's: a thread that runs what was enqueued, in order.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

class Stream {
 public:
  Stream() { std::thread([this] { Work(); }).detach(); }
  void Enqueue(std::function<void()> task) {
    std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    ++enqueued_;
    changed_.notify_all();
  }
  int64_t Enqueued() {
    std::lock_guard<std::mutex> lock(mutex_);
    return enqueued_;
  }
  bool Reached(int64_t mark) {
    std::lock_guard<std::mutex> lock(mutex_);
    return done_ >= mark;
  }
  void Wait(int64_t mark) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= mark; });
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !tasks_.empty(); });
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  int64_t enqueued_ = 0, done_ = 0;
};
