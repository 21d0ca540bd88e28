// A rank's part in a tree (launch/tree.py) by which many ranks' bundles come to rank 0: it hears the ranks below it,
// and makes few messages of what they and itself have to say. Nothing depends on what waits here for its like, which
// rank 0 could not decide before either: whatever else is said sends all of it on, in the order in which it came.
#ifndef SOK1X_GROUPS_RELAY_H
#define SOK1X_GROUPS_RELAY_H

#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "brief.h"

namespace sok1x {

// First bytes of what travels in a tree, as in launch/envelopes.py: messages of several ranks, on their way to rank 0;
// a word for one rank; a rank that is gone; a failure, told without the tree.
constexpr uint8_t kUp = 0xf3, kToOne = 0xf4, kParted = 0xf5, kAlarm = 0xf6;

// Messages of ranks as one, and the other way round. A BriefMerged, which says whose it is, comes with rank -1.
typedef std::vector<std::pair<int, std::string>> Messages;
std::string Up(const Messages& messages);
bool ReadUp(const std::string& data, Messages* messages);
// The word for one rank, and for which.
bool ReadToOne(const std::string& data, int* rank, std::string* word);

class Relay {
 public:
  // Microseconds that a bundle waits for those of other ranks at most.
  static constexpr int64_t kWaits = 500;

  // below: which ranks [N] are heard by way of this one, itself among them.
  explicit Relay(std::vector<bool> below);

  // Takes what a rank below has sent. known: what each rank has said of ops, to which this adds. Returns whether to
  // send on what there is.
  bool Hear(int source, const std::string& data, std::vector<KnownOps>* known, int64_t now);
  // Takes a bundle of a rank. Returns that too.
  bool Add(Rising rising, int64_t now);
  // Takes anything else, after which all is to be sent on.
  void Add(int rank, std::string data, int64_t now);

  // Takes out all that waits, as messages to the next rank on the way; those that fit are no longer than `bytes`.
  std::vector<std::string> Take(size_t bytes);
  bool empty() const { return waiting_.empty(); }
  // When the oldest of it came.
  int64_t oldest() const { return oldest_; }
  // A word to run something has come.
  void Answered();

 private:
  struct Waiting {
    Rising rising;     // of a bundle
    std::string data;  // or else another message
  };
  // Bundles of the same ops and runs, one a rank.
  struct Team {
    Bundle like;
    std::vector<bool> has;
    int missing;
    bool late;  // some have been sent on without the others
  };

  const std::vector<bool> below_;
  int ranks_ = 0;  // of them
  std::vector<Waiting> waiting_;
  std::list<Team> teams_;  // those that miss somebody
  int64_t oldest_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_RELAY_H
