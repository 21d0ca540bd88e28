// The lane: what of a step needs no Python. The executor's thread takes requests out of the queue here; those whose ops
// it has learned (lane.py) it runs at once, or announces them to the other ranks (lane_ranks.h), in groups, as
// executor.py and together.py do, with the same classes; all others, and those that a group leaves, it gives to Python.
//
// For the executor's thread only.
#ifndef SOK1X_GROUPS_LANE_H
#define SOK1X_GROUPS_LANE_H

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "../bridge/bridge_queue.h"
#include "expected.h"
#include "lane_op.h"
#include "lane_ranks.h"
#include "lookup_run.h"

namespace sok1x {

class Lane {
 public:
  static Lane* Get();

  void Begin(const GroupSteps* steps) { steps_ = steps; }

  // Learns what the kernel of a request is. op: null where its requests are Python's. alike: the number of its
  // operation where requests of it may run together, else 0.
  void Learn(const RequestInfo& request, const LaneOp* op, int64_t alike);
  void Forget(int64_t kernel);

  // As Queue::PopMany; of requests only those that are Python's, perhaps none: others have run, and lane_us is how long
  // it then looks all the time for what comes next. Below 0: all requests are Python's.
  int Take(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, int64_t lane_us, RequestInfo* infos,
           int capacity, int* count);

  // Whether it runs anything, from now on: not for who wants to see all of it from Python. Any thread.
  void Allow(bool allowed) { allowed_.store(allowed); }

  // To be called when a group has run, with the number of its operation, how many members it has and how many of them
  // it has left; and when it has been answered, with zeros. Null: nothing is.
  typedef void (*Watcher)(int64_t alike, int64_t members, int64_t left);
  void Watch(Watcher watcher) {
    watcher_ = watcher;
    ranks_.Watch(watcher);
  }

  // What it does with other ranks, where there are any.
  LaneRanks* ranks() { return &ranks_; }

 private:
  const LaneOp& OpOf(const RequestInfo* member) const { return *known_.at(member->kernel).op; }

  struct Known {
    const LaneOp* op;
    int64_t alike;
  };
  // Requests that run together.
  struct Team {
    const LaneOp* op;  // the first one's
    bool training;
    int64_t by;        // the number of the exchange by which their bags go, as far as it is known
    std::vector<RequestInfo*> members;
  };

  int TakeAmongRanks(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, int64_t lane_us,
                     RequestInfo* infos, int capacity, int* count);
  int TurnAmongRanks(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, int64_t lane_us,
                     RequestInfo* infos, int capacity, int* count);
  bool Expects(const RequestInfo* infos, int count);
  bool IsSum(const RequestInfo& info) const;
  void Gather(RequestInfo* infos, int capacity, int* count);
  // Runs what it can of requests; returns how many are left for Python, the first of `infos` then. Others may come
  // meanwhile, and have room for so many in all.
  int RunAll(RequestInfo* infos, int capacity, int count);
  int RunTeams(RequestInfo* infos, int count);
  std::vector<Team> Sort(RequestInfo* infos, int count);
  // Whether Python is to note the time before the rows of an op are stamped (stores/step_times.py).
  bool NotesTime(const LaneOp& op);
  // Whether other ranks must run it too.
  static bool Communicates(const LaneOp* op) { return op != nullptr && op->ranks > 1; }
  // By which exchange bags go, as a gradient says it and a lookup is to be told, or did the last time.
  static int64_t ExchangeOf(const LaneOp& op, const Request& request, bool training);
  // Whether it may be announced here.
  bool Announces(const LaneOp& op, const Request& request) const;
  bool Announce(const Team& team);
  // left: [T], which of the team's members are Python's after all.
  void Run(const Team& team, std::vector<uint8_t>* left);
  // These return a status, and fill `error` if it is not 0.
  int Look(const Team& team, Group* group, uint8_t* left, std::string* error);
  int Update(const Team& team, Group* group, uint8_t* left, std::string* error);
  int Forward(const Team& team, LookupRun* run, uint8_t* left);
  int Distinct(const Team& team, LookupRun* run, uint8_t* left);

  const GroupSteps* steps_ = nullptr;
  std::unordered_map<int64_t, Known> known_;  // by kernel
  std::vector<LookupFacts> facts_;  // of the team that runs: tens of kilobytes, for which malloc takes long
  std::map<std::vector<int64_t>, int64_t> scratch_;  // kernels that have run together -> bytes that their last run took
  Expected expected_;
  int64_t changing_ = 0;  // the last run that is known as one that changes tables
  Watcher watcher_ = nullptr;
  LaneRanks ranks_;
  std::atomic<bool> allowed_{true};
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LANE_H
