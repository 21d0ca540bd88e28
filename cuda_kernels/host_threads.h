// A thread pool that splits the items of a loop over the host's cores, for kernels that last microseconds.
//
// The caller works too, and waits only for the helpers that have taken a chunk: a helper that the system is
// slow to wake costs nothing. Helpers spin for a moment before they sleep, because kernels come in bursts.
// Which thread runs a chunk is left to chance, so a kernel's result must not depend on it.
#ifndef SOK1X_HOST_THREADS_H
#define SOK1X_HOST_THREADS_H

#include <pthread.h>
#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace sok1x {

static const int kMostThreads = 256;  // as in host.py
static const int64_t kLeastBytes = 32 << 10;  // under this a hand-over costs more than the work
static const int kSpinMicroseconds = 40;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Polls `ready` for kSpinMicroseconds at most; tells whether it came true.
template <class Ready>
bool spin_until(Ready ready) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(kSpinMicroseconds));
  return false;
}

class ThreadPool {
 public:
  typedef void (*Body)(const void* context, int64_t begin, int64_t end);

  static ThreadPool& get() { return *instance(); }

  void set_threads(int threads) { threads_ = std::max(1, std::min(threads, kMostThreads)); }
  int threads() const { return threads_; }

  // Calls body(context, begin, end) over [0, n) in pieces of `chunk` items; returns when all are done.
  void run(int64_t n, int64_t chunk, Body body, const void* context) {
    if (n <= 0) return;
    const int64_t chunks = (n + chunk - 1) / chunk;
    const int helpers = static_cast<int>(std::min<int64_t>(threads_, chunks)) - 1;
    // A second caller, or a loop inside a loop, finds the pool busy and works alone.
    if (helpers < 1 || busy_.exchange(true, std::memory_order_acquire)) {
      body(context, 0, n);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (started_ < helpers && start_one()) {
      }
      body_ = body;
      context_ = context;
      n_ = n;
      chunk_ = chunk;
      next_.store(0, std::memory_order_relaxed);
      places_ = helpers;
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleeping_.load() > 0) wake_.notify_all();
    work();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      places_ = 0;  // who comes now comes too late
    }
    auto done = [this] { return active_.load(std::memory_order_acquire) == 0; };
    if (!spin_until(done)) {
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, done);
    }
    busy_.store(false, std::memory_order_release);
  }

 private:
  // Never destroyed: its threads may still run while the process exits.
  static ThreadPool*& instance() {
    static ThreadPool* pool = create();
    return pool;
  }
  static ThreadPool* create() {
    pthread_atfork(nullptr, nullptr, [] {
      // Threads do not survive a fork: the child starts its own.
      const int threads = instance()->threads();
      instance() = new ThreadPool();
      instance()->set_threads(threads);
    });
    return new ThreadPool();
  }

  // False where the system gives no more threads: those that there are do the work.
  bool start_one() {
    try {
      std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++started_;
    return true;
  }

  void work() {
    for (;;) {
      const int64_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (begin >= n_) return;
      body_(context_, begin, std::min(begin + chunk_, n_));
    }
  }

  void help() {
    uint64_t seen = 0;
    for (;;) {
      auto called = [this, &seen] { return generation_.load(std::memory_order_acquire) != seen; };
      const bool hot = spin_until(called);
      std::unique_lock<std::mutex> lock(mutex_);
      if (!hot) {
        ++sleeping_;
        wake_.wait(lock, called);
        --sleeping_;
      }
      seen = generation_.load(std::memory_order_relaxed);
      if (places_ == 0) continue;
      --places_;
      ++active_;
      lock.unlock();
      work();
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }

  std::atomic<int> threads_{1};
  std::atomic<bool> busy_{false};
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> sleeping_{0}, active_{0};
  std::atomic<int64_t> next_{0};
  int started_ = 0, places_ = 0;
  Body body_ = nullptr;
  const void* context_ = nullptr;
  int64_t n_ = 0, chunk_ = 1;
};

// Items a thread takes at a time: enough to be worth it, few enough that a slow thread does not hold up all.
inline int64_t chunk_size(int64_t n, int64_t bytes_per_item) {
  const int64_t least = std::max<int64_t>(1, kLeastBytes / std::max<int64_t>(1, bytes_per_item));
  return std::max(least, n / (8 * ThreadPool::get().threads()) + 1);
}

template <class F>
void parallel_chunks(int64_t n, int64_t chunk, const F& body) {
  ThreadPool::get().run(
      n, chunk,
      [](const void* context, int64_t begin, int64_t end) {
        const F local = *static_cast<const F*>(context);  // a copy: its fields live in registers
        local(begin, end);
      },
      &body);
}

// What the SOK_PARALLEL_ macros of common.cuh become.
struct ChunkLoop {
  int64_t n, bytes;
  template <class F>
  void operator=(const F& body) const {
    parallel_chunks(n, chunk_size(n, bytes), body);
  }
};

struct ItemLoop {
  int64_t n, bytes;
  template <class F>
  void operator=(const F& body) const {
    parallel_chunks(n, chunk_size(n, bytes), [body](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }
};

}  // namespace sok1x

#endif  // SOK1X_HOST_THREADS_H
