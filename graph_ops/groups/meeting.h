// Rank 0's part of the order of collectives for bundles of sessions that it knows: what launch/leader.py does with
// them, without Python. As long as Python's leader has nothing that waits, it need not know of a bundle that meets its
// like here; of all else it hears, in the order in which it came.
//
// Which sessions belong together it has said when it decided something of them: `Agree`. Ops it knows already, or a
// rank would not announce them here. What might be paired with other company (bundles that share some of their
// members), and steps that have been given up, are Python's, together with all that waits here.
#ifndef SOK1X_GROUPS_MEETING_H
#define SOK1X_GROUPS_MEETING_H

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brief.h"

namespace sok1x {

// Whether two bundles have ops in common.
bool Overlap(const Ops& one, const Ops& other);

class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks), given_up_(ranks, 0) {}

  // Numbers of decisions, which Python's leader counts from 1, and tickets, which Python does: C++'s begin here.
  static constexpr int64_t kFirst = int64_t{1} << 40;

  enum Outcome { kWaits, kDecided, kPython };

  // Takes a bundle of a rank. kDecided: `word` is what to tell all ranks, with the `tickets` [N] of each, and in the
  // word that of rank 0; kPython: all that waits is Python's, this bundle last: `TakeAll`.
  Outcome Add(int rank, Bundle bundle, int64_t now, Word* word, std::vector<int64_t>* tickets);

  // What waits, in the order in which it came, with the ranks.
  std::vector<std::pair<int, Bundle>> TakeAll();
  bool empty() const { return waiting_.empty(); }
  // When the oldest of it came.
  int64_t oldest() const { return waiting_.front().came; }

  // These sessions and kinds of session.run [N], of each rank, belong together.
  void Agree(const int64_t* contexts, const uint64_t* signatures);
  // Sessions may be bound in another way from now on. What waits is to be taken out before.
  void Forget();
  // A rank's steps up to this one have been given up: Python answers what they announce.
  void GiveUp(int rank, int64_t step);

  // What a decision was: its op's name and each rank's step. False where that is not known, or has been asked before.
  bool Undo(int64_t number, std::string* name, std::vector<int64_t>* steps);
  // The op of the last decision, "" for none; and when it was.
  const std::string& last() const { return last_; }
  int64_t last_at() const { return last_at_; }

 private:
  typedef std::tuple<int, int64_t, uint64_t> Key;  // a rank, its session, the kind
  struct Waiting {
    int rank;
    Bundle bundle;
    int64_t came;
  };
  typedef std::list<Waiting>::iterator Place;
  // Bundles of the same ops and runs that wait, of sessions that belong together: of each rank, in order.
  struct Team {
    int sessions;  // the number of those that belong together
    int64_t waiting, missing;  // how many bundles; how many ranks have none
    std::vector<std::deque<Place>> of_ranks;
  };
  struct Past {
    int64_t first;
    std::string names;
    int64_t count;
    std::vector<int64_t> steps;
  };

  // The team of a bundle; null where it has ops in common with another's.
  Team* TeamOf(int sessions, const Bundle& bundle);
  void Decide(Team* team, int64_t now, Word* word, std::vector<int64_t>* tickets);

  const int ranks_;
  std::vector<int64_t> given_up_;
  std::list<Waiting> waiting_;
  std::list<Team> teams_;  // those in which something waits, and few besides
  std::map<Key, int> known_;
  int sessions_ = 0;
  std::deque<Past> past_;
  std::set<int64_t> undone_;
  int64_t next_ = kFirst;
  std::string last_;
  int64_t last_at_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_MEETING_H
