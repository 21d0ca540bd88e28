// Clocks that do not enter the kernel. TensorFlow 1.15's library has a std::chrono of its own, which all of its process
// gets and which does, for a third of a microsecond on a virtual machine; a step of 100 tables asks hundreds of times.
#ifndef SOK1X_BRIDGE_CLOCK_H
#define SOK1X_BRIDGE_CLOCK_H

#include <time.h>

#include <cstdint>

namespace sok1x {

inline int64_t NanosecondsOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

// Of the clock that never goes back, as time.monotonic() of Python and std::chrono::steady_clock have it.
inline int64_t MonotonicNanoseconds() { return NanosecondsOf(CLOCK_MONOTONIC); }
inline int64_t MonotonicMicroseconds() { return MonotonicNanoseconds() / 1000; }

// Since 1970, by a clock that is set now and then, and may go back.
inline int64_t MicrosecondsNow() { return NanosecondsOf(CLOCK_REALTIME) / 1000; }

// Since 1970 as that clock showed it when it was asked first, by the one that never goes back.
inline int64_t MomentNow() {
  static const int64_t began = MicrosecondsNow() - MonotonicMicroseconds();
  return began + MonotonicMicroseconds();
}

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_CLOCK_H
