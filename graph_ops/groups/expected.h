// How many requests that could run together a session.run is going to bring, judged by the one before.
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
    const Key key(alike, request.session, request.signature, request.frame, request.iteration);
    auto found = counts_.find(key);
    if (found == counts_.end()) {
      if (counts_.size() >= kMost) counts_.clear();  // of sessions long closed, of loops
      found = counts_.insert({key, {request.step, 0, 0}}).first;
    }
    Count& count = found->second;
    if (count.step != request.step) count = {request.step, 0, count.now};
    return ++count.now < count.before;
  }

 private:
  static constexpr size_t kMost = 1000;
  typedef std::tuple<int64_t, uint64_t, uint64_t, uint64_t, int64_t> Key;
  struct Count {
    int64_t step;
    int64_t now, before;  // how many so far in this run, and in the run before
  };
  std::map<Key, Count> counts_;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_EXPECTED_H
