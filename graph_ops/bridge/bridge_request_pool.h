// Memory for requests. A request has more than a kilobyte, which malloc has no quick lists for: it brings all its
// small blocks in order first. And one thread makes requests and another deletes them, hundreds in a step.
#ifndef SOK1X_BRIDGE_REQUEST_POOL_H
#define SOK1X_BRIDGE_REQUEST_POOL_H

#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace sok1x {

// Blocks of one size. It keeps those that have come back, at most kKept.
class RequestPool {
 public:
  static constexpr size_t kKept = 2048;

  static RequestPool* Get() {
    static RequestPool* pool = new RequestPool;  // never destroyed: requests may outlive static destruction
    return pool;
  }

  void* Take(size_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        void* const block = free_.back();
        free_.pop_back();
        return block;
      }
    }
    return ::operator new(bytes);
  }

  void Give(void* block) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (free_.size() < kKept) {
        free_.push_back(block);
        return;
      }
    }
    ::operator delete(block);
  }

 private:
  RequestPool() { free_.reserve(kKept); }

  std::mutex mutex_;
  std::vector<void*> free_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_REQUEST_POOL_H
