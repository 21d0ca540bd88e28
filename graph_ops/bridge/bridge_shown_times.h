// What the clock has shown when, so that a time that somebody has read from it becomes a moment (bridge_clock.h).
// The clock may be set, back too, by a person, NTP, or a virtual machine that is resumed: then a time may be that of
// several moments, and is taken for the earliest that it can be.
//
// Between two settings the clock and the moments go alike. So there is a span for each setting: from the last moment at
// which the one before was seen to the first at which the next was; in between either may have been.
#ifndef SOK1X_BRIDGE_SHOWN_TIMES_H
#define SOK1X_BRIDGE_SHOWN_TIMES_H

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>

namespace sok1x {

// All times and moments are in microseconds; not for several threads at once.
class ShownTimes {
 public:
  // Hears that the clock was seen to show `time` at some moment from `before` to `after`.
  void Hear(int64_t before, int64_t time, int64_t after) {
    const int64_t least = time - after - 1, most = time + 1 - before;  // by which the clock is ahead of the moments
    if (!spans_.empty() && most + kSlack >= spans_.back().least && least <= spans_.back().most + kSlack) {
      Span* const span = &spans_.back();
      span->end = after;
      if (most < span->most && most > span->least) span->most = most;
      if (least > span->least && least < span->most) span->least = least;
      return;
    }
    const int64_t begin = spans_.empty() ? std::numeric_limits<int64_t>::min() : spans_.back().end;
    if (!spans_.empty()) spans_.back().end = after;
    spans_.push_back({begin, after, least, most});
    if (spans_.size() < kMost) return;
    std::deque<Span> fewer;
    for (size_t i = 0; i < kMost; i += i < kMost / 2 ? 2 : 1) {
      fewer.push_back(spans_[i]);
      if (i >= kMost / 2) continue;
      fewer.back().end = spans_[i + 1].end;
      fewer.back().least = std::min(fewer.back().least, spans_[i + 1].least);
      fewer.back().most = std::max(fewer.back().most, spans_[i + 1].most);
    }
    spans_.swap(fewer);
  }

  // The earliest moment at which the clock may have shown a time, or one later; the last that was heard of where none.
  int64_t Earliest(int64_t time) const {
    int64_t found = spans_.back().end;
    for (const Span& span : spans_) {
      if (time - span.most <= span.end) found = std::min(found, std::max(span.begin, time - span.most));
    }
    return found;
  }

 private:
  static constexpr int64_t kSlack = 10;  // who sets a clock by less, or reads two more apart, is not seen
  static constexpr size_t kMost = 1024;
  struct Span {
    int64_t begin, end, least, most;
  };
  std::deque<Span> spans_;  // never empty once one was heard
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_SHOWN_TIMES_H
