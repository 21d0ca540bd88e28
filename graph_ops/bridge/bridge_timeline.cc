// See bridge_timeline.h.
#include "bridge_timeline.h"

#include <algorithm>
#include <cstring>

#include "bridge_request.h"

namespace sok1x {

namespace {

template <size_t kSize>
void CopyText(const char* from, char (&to)[kSize]) {
  const size_t length = std::min(std::strlen(from), kSize - 1);
  std::memcpy(to, from, length);
  to[length] = 0;
}

}  // namespace

std::atomic<bool> Timeline::on_{false};
std::atomic<int64_t> Timeline::noted_{0};

Timeline* Timeline::Get() {
  static Timeline* timeline = new Timeline;  // never destroyed, as the queue
  return timeline;
}

void Timeline::Begin(int64_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  ring_.resize(capacity);
  first_ = size_ = lost_ = 0;
  on_.store(capacity > 0);
}

void Timeline::Add(const int64_t* stamps, int32_t last, const char* name, const char* function, int64_t step,
                   int64_t id, int32_t code) {
  const int64_t done = Now();
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t capacity = ring_.size();
  if (size_ >= capacity) {
    ++lost_;
    return;
  }
  TimelineRecord& record = ring_[(first_ + size_++) % capacity];
  std::copy(stamps, stamps + kStampCount, record.stamps);
  record.done = done;
  record.step = step;
  record.id = id;
  record.last = last;
  record.code = code;
  CopyText(name, record.name);
  CopyText(function, record.function);
}

int64_t Timeline::Take(TimelineRecord* records, int64_t count, int64_t* lost) {
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t taken = 0;
  for (; taken < count && size_ > 0; ++taken, --size_) {
    records[taken] = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
  }
  *lost = lost_;
  lost_ = 0;
  return taken;
}

}  // namespace sok1x

extern "C" {

int sok1x_timeline_record_bytes() { return sizeof(sok1x::TimelineRecord); }

void sok1x_timeline_begin(int64_t capacity) { sok1x::Timeline::Get()->Begin(capacity); }

int64_t sok1x_timeline_take(sok1x::TimelineRecord* records, int64_t count, int64_t* lost) {
  return sok1x::Timeline::Get()->Take(records, count, lost);
}

int64_t sok1x_timeline_noted() { return sok1x::Timeline::noted(); }

// The request has come to `stamp` now; last: the rank that was last, where that is known now, else -1.
void sok1x_timeline_stamp(void* handle, int stamp, int last) {
  auto* request = static_cast<sok1x::Request*>(handle);
  request->Come(static_cast<sok1x::Stamp>(stamp));
  if (last >= 0) request->last = last;
}

// When it was ready.
int64_t sok1x_timeline_ready(void* handle) { return static_cast<sok1x::Request*>(handle)->stamps[sok1x::kStampReady]; }

}  // extern "C"
