// When an op's run came to what, for SOK1X_TIMELINE (timeline.py): a request carries its stamps, and when it ends they
// go into a buffer of fixed size, which Python takes them out of. While it is off, nothing is noted.
#ifndef SOK1X_BRIDGE_TIMELINE_H
#define SOK1X_BRIDGE_TIMELINE_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "bridge_clock.h"

namespace sok1x {

// When its inputs were there; when it was begun with, on several ranks the word of rank 0 being there; when the keys
// that other ranks ask for were there; and the rows, or gradients, that they give. Kept in step with timeline.py.
enum Stamp { kStampReady, kStampAgreed, kStampKeys, kStampRows, kStampCount };

// What is known of a run when it has ended. Kept in step with timeline.py's Record.
struct TimelineRecord {
  int64_t stamps[kStampCount];  // microseconds since 1970, by the clock of TensorFlow's own statistics; 0: not come to
  int64_t done;
  int64_t step, id;
  int32_t last;  // the rank that was the last to be ready; -1: not known
  int32_t code;  // its status
  char name[160], function[64];
};

class Timeline {
 public:
  static Timeline* Get();
  static bool On() { return on_.load(std::memory_order_relaxed); }
  static int64_t Now() {
    noted_.fetch_add(1, std::memory_order_relaxed);
    return MicrosecondsNow();
  }
  // How often anything has been noted in this process.
  static int64_t noted() { return noted_.load(); }

  // From now on at most `capacity` records wait to be taken out; what comes besides is counted alone.
  void Begin(int64_t capacity);
  void Add(const int64_t* stamps, int32_t last, const char* name, const char* function, int64_t step, int64_t id,
           int32_t code);
  // Takes out the oldest, up to `count`; returns how many. lost: how many there was no room for since the last call.
  int64_t Take(TimelineRecord* records, int64_t count, int64_t* lost);

 private:
  static std::atomic<bool> on_;
  static std::atomic<int64_t> noted_;
  std::mutex mutex_;
  std::vector<TimelineRecord> ring_;
  int64_t first_ = 0, size_ = 0, lost_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_TIMELINE_H
