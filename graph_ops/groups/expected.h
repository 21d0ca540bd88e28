// How many requests that could run together a session.run is going to bring, judged by the one before; and whether
// gradients of lookups are yet to come.
#ifndef SOK1X_GROUPS_EXPECTED_H
#define SOK1X_GROUPS_EXPECTED_H

#include <cstdint>
#include <map>
#include <tuple>

#include "../bridge/bridge_request.h"

namespace sok1x {

class Expected {
 public:
  // Takes a request in. alike: the number of its operation. Returns whether the run before this one had more of its
  // like.
  bool More(const RequestInfo& request, int64_t alike) {
    const Key key = KeyOf(request, alike);
    auto found = counts_.find(key);
    if (found == counts_.end()) {
      if (counts_.size() >= kMost) counts_.clear();  // of sessions long closed, of loops
      found = counts_.insert({key, {request.step, 0, 0, 0, 0}}).first;
    }
    Count& count = found->second;
    if (count.step != request.step) count = {request.step, 0, count.now, count.in_vain, count.rests};
    return ++count.now < count.before;
  }

  // Takes a lookup's gradient in.
  void Gradient(const RequestInfo& request) { More(request, kGradients); }

  // Whether gradients are yet to come in the request's run.
  bool LacksGradients(const RequestInfo& request) const {
    const auto found = counts_.find(KeyOf(request, kGradients));
    if (found == counts_.end()) return false;
    const Count& count = found->second;
    return count.step == request.step ? count.now < count.before : count.now > 0;
  }

  // Whether they are to be waited for: not for a while where that has been in vain. Then `Awaited` says how it went.
  bool AwaitsGradients(const RequestInfo& request) {
    if (!LacksGradients(request)) return false;
    int64_t& rests = counts_.find(KeyOf(request, kGradients))->second.rests;
    if (rests == 0) return true;
    --rests;
    return false;
  }
  void Awaited(const RequestInfo& request) {
    const auto found = counts_.find(KeyOf(request, kGradients));
    if (found == counts_.end()) return;  // cleared meanwhile
    Count& count = found->second;
    count.in_vain = LacksGradients(request) ? count.in_vain + 1 : 0;
    if (count.in_vain < kPatience) return;
    count.in_vain = 0;
    count.rests = kRests;
  }

 private:
  static constexpr size_t kMost = 1000;
  static constexpr int64_t kGradients = -1;  // in place of an operation's number
  static constexpr int64_t kPatience = 4, kRests = 60;  // how often in a row to wait in vain, and then not
  typedef std::tuple<int64_t, uint64_t, uint64_t, uint64_t, int64_t> Key;
  struct Count {
    int64_t step;
    int64_t now, before;  // how many so far in this run, and in the run before
    int64_t in_vain, rests;  // of gradients
  };

  static Key KeyOf(const RequestInfo& request, int64_t alike) {
    return Key(alike, request.session, request.signature, request.frame, request.iteration);
  }

  std::map<Key, Count> counts_;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_EXPECTED_H
