// relay.h as the tests see it: C functions, called through ctypes.
#include "relay.h"

namespace {

struct Opened {
  sok1x::Relay relay;
  std::vector<sok1x::KnownOps> known;
};

Opened* Of(void* relay) { return static_cast<Opened*>(relay); }

typedef void (*Tell)(int rank, const char* data, int64_t bytes);

}  // namespace

extern "C" {

// below: [ranks], whether each is heard by way of the relay.
void* sok1x_relay_open(int ranks, const uint8_t* below) {
  return new Opened{sok1x::Relay(std::vector<bool>(below, below + ranks)), std::vector<sok1x::KnownOps>(ranks)};
}

void sok1x_relay_close(void* relay) { delete Of(relay); }

// Whether to take out what there is. now: microseconds.
int sok1x_relay_hear(void* relay, int source, const char* data, int64_t bytes, int64_t now) {
  return Of(relay)->relay.Hear(source, std::string(data, bytes), &Of(relay)->known, now);
}

// Has `tell` called with each message to the next rank on the way, and 0.
void sok1x_relay_take(void* relay, int64_t bytes, Tell tell) {
  for (const std::string& one : Of(relay)->relay.Take(bytes)) tell(0, one.data(), one.size());
}

void sok1x_relay_answered(void* relay) { Of(relay)->relay.Answered(); }

// What a message says, as rank 0 reads it which has heard what the relay has: plain bundles, and whatever else, with
// the ranks.
int sok1x_relay_read(void* relay, int source, const char* data, int64_t bytes, Tell tell) {
  sok1x::Messages messages;
  const std::string all(data, bytes);
  if (static_cast<uint8_t>(data[0]) != sok1x::kUp) {
    messages.emplace_back(source, all);
  } else if (!sok1x::ReadUp(all, &messages)) {
    return -1;
  }
  for (const auto& one : messages) {
    std::vector<sok1x::Rising> bundles;
    if (one.first < 0) {
      if (!sok1x::ReadBriefMerged(one.second, Of(relay)->known, &bundles)) return -1;
    } else if (static_cast<uint8_t>(one.second[0]) == sok1x::kBriefBundle) {
      bundles.resize(1);
      bundles[0].rank = one.first;
      if (!sok1x::ReadBriefBundle(one.second, &Of(relay)->known[one.first], &bundles[0].bundle)) return -1;
    } else {
      tell(one.first, one.second.data(), one.second.size());
    }
    for (const sok1x::Rising& each : bundles) {
      const std::string plain = sok1x::PlainBundle(each.bundle);
      tell(each.rank, plain.data(), plain.size());
    }
  }
  return 0;
}

}  // extern "C"
