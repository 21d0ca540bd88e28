// The lane on several ranks: lookups and gradients that all ranks have run before are prepared, announced, decided and
// run here, as executor.py, together.py and launch's coordinator do it, with the same classes and in messages that mean
// the same (brief.h). A rank may at any time do its part in Python instead, and the others not know: groups are the
// same.
//
// Messages to rank 0, and its words, go by way of other ranks in a large job (launch/tree.py): a rank on the way passes
// them on here, whatever they are, before it acts on a word itself.
//
// What is unusual is Python's, and is told it as events, in order: what this holds, prepared and announced, when it has
// waited for long, when anything but the word on it comes, or when Python asks; messages of other ranks; what a group
// leaves; what has failed.
//
// For the executor's thread only.
#ifndef SOK1X_GROUPS_LANE_RANKS_H
#define SOK1X_GROUPS_LANE_RANKS_H

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "exchanges.h"
#include "lane_op.h"
#include "lookup_run.h"
#include "meeting.h"
#include "post.h"
#include "relay.h"

namespace sok1x {

// What Python has said for now. Kept in step with bridge/lane_ranks.py.
struct Standing {
  int64_t rank, ranks;
  int64_t announces;         // 1: requests may be announced here
  int64_t decides;           // 1: rank 0's leader in Python has nothing that waits
  int64_t spin_us;           // how long to look all the time for an answer
  int64_t told;              // 1: Python has been told what to run next, before anything that comes now
  int64_t pending;           // out: how many groups have been decided that come before what Python decides
  int64_t short_headers;     // 1: counts of keys are not in what is announced (launch/world.py)
  int64_t local;             // where exchanges go by hosts, ranks of a host; else 0
};

// What is Python's. Kept in step with bridge/lane_ranks.py.
enum EventKind { kNone, kHeld, kMessage, kLeft, kFailed, kSend };
struct EventInfo {
  int64_t kind;
  int64_t count;               // of requests
  const RequestInfo* requests;
  const int64_t* numbers;      // [count]: held: their tickets; else the decisions'
  const int64_t* headers;      // of those that are left, [count, N, width]
  int64_t width;
  int64_t source;              // of a message: its rank; 0 on rank 0 itself: what the leader says; to be sent: to whom
  const char* data;            // a message; why requests have failed
  int64_t bytes;
  int64_t code;                // a status; -1: Python knows why
};

constexpr int kPythonKnows = -100;  // in place of a status: what has failed has told Python why

class LaneRanks {
 public:
  typedef void (*Watcher)(int64_t alike, int64_t members, int64_t left);

  // parent: the next rank on the way to rank 0, below 0 on that itself. hops: [N], by way of which rank each one is
  // heard that is heard by way of this one; below 0 for all others.
  void Begin(const Ways* ways, Direct* host, Standing* standing, int parent, const int64_t* hops);
  void SetGpu(Direct* gpu) { exchanges_.SetGpu(gpu); }
  bool begun() const { return standing_ != nullptr; }

  // Of a turn of the lane: what is to be Python's since the last one. inbox: null where MPI cannot be called.
  void Turn(const Inbox* inbox, bool allowed);
  bool announces() const {
    return begun() && allowed_ && standing_->announces && events_.empty() && post_.there() && !post_.broken() &&
           (meeting_ == nullptr || standing_->decides);
  }
  int64_t spin_us() const { return standing_->spin_us; }
  // Whether it waits for words, or for what ranks below say.
  bool holds() const { return !held_.empty() || relays(); }
  // For how long it may wait: microseconds, no more than so many.
  int64_t Patience(int64_t most) const;
  // How long it has: microseconds since it announced last, or heard anything.
  int64_t quiet() const;

  // Prepares requests of one kind, one session.run, in the order of their places, and announces them. False, and
  // nothing has been done, where they are Python's.
  bool Announce(const std::vector<const RequestInfo*>& members, const std::vector<const LaneOp*>& ops, int64_t alike,
                bool training, const GroupSteps* steps);
  // As Lane::Watch.
  void Watch(Watcher watcher) { watcher_ = watcher; }

  // Sends what has been announced, takes in what other ranks have sent, and runs what has been decided. Returns whether
  // there was anything; `longer`: what comes next is for Python to receive.
  bool Listen(bool* longer);
  // A message that Python has received. It is looked at with the next `Listen`.
  void Hear(int source, const std::string& data) { arrived_.emplace_back(source, data); }

  // Sends on all that waits for ranks below: nothing waits between turns.
  void EndTurn();

  // What has waited for too long is Python's; and all of it, at once.
  void Age();
  void HandOver();

  // Both, and what has been heard besides: nothing is announced here any more. To be called until it returns false,
  // each time when the events have been taken.
  bool Stop();

  // The next event; valid until the next call.
  bool Next(EventInfo* info);
  bool HasEvents() const { return !events_.empty(); }

  // The messages that one is without briefness, with the ranks that have said them.
  Messages Plain(int source, const std::string& data);

  Meeting* meeting() { return meeting_.get(); }

 private:
  // A group that has been announced.
  struct Held {
    std::vector<RequestInfo> members;
    std::vector<const LaneOp*> ops;
    std::vector<LookupFacts> facts;
    Group* group;
    std::unique_ptr<LookupRun> run;
    int64_t ticket, step, width, whole_width, sent, since;
    std::vector<int64_t> headers, begins;  // as announced [T, width], [T, N]
    std::vector<int64_t> whole;            // with all counts [T, whole_width]
    int64_t* expected;
    int64_t alike;
    int64_t by;  // of bags, the number of the exchange by which they go; of lookups, once that is decided

    int size() const { return static_cast<int>(members.size()); }
    ~Held() {
      *expected = group->pieces_bytes();
      run.reset();
      group->Close();
    }
  };
  struct Event {
    int64_t kind = kNone, width = 0, source = 0, code = 0;
    std::vector<RequestInfo> requests;
    std::vector<int64_t> numbers, headers;
    std::string data;
  };

  static int64_t Now();
  // Whether what meets may be decided here.
  bool decides() const { return allowed_ && standing_->decides && events_.empty() && post_.there(); }
  int ranks() const { return static_cast<int>(standing_->ranks); }
  int rank() const { return static_cast<int>(standing_->rank); }
  bool Prepare(Held* held, bool training);
  bool PrepareSums(Held* held);
  // What is told of its headers where those are short.
  void Shorten(Held* held, int counted, bool training);
  void Say(const Held& held);
  void Send(int rank, std::string data) { unsent_[rank].push_back(std::move(data)); }
  // Sends what is to be sent, as one message to each.
  void Ship();
  // Now, or by Python where that has MPI.
  void SendNow(int rank, const std::string& data);
  void Add(int rank, Bundle bundle);
  // As `Add`, or for Python's leader where that has something that waits.
  void AddOrTell(int rank, Bundle bundle);
  // Passes on what ranks below have said, and what rank 0 says.
  bool relays() const { return relay_ != nullptr && !relay_->empty(); }
  void PassUp(int source, const std::string& data);
  void PassDown(const std::string& data);
  void Rise();
  void Take(int source, const std::string& data);
  // A word of rank 0 for this rank, or what it is to hear as rank 0.
  void TakeOwn(int source, const std::string& data);
  // A long word goes on when what was decided before it has run here: ranks below may be in that, and not receive.
  bool Early(const std::pair<int, std::string>& one) const {
    return relay_ != nullptr && one.first == parent_ && one.second.size() > Post::kLongest && !decided_.empty();
  }
  void TakeWord(const Word& word, const std::string& plain);
  void Message(int source, std::string data);
  // Whether a group of Python's would run it as it is, at once; and by which exchange.
  bool Usual(Held* held, const Word& word) const;
  // By which exchange a lookup of bags goes, of which the word has headers: what choice.py says; below 0 where it is
  // open.
  int64_t ExchangeOf(const Held& held, int t, const Word& word) const;
  void Run(Held* held, const Word& word);
  int Forward(Held* held, const Word& word, std::vector<uint8_t>* left);
  int Backward(Held* held, const Word& word, std::vector<uint8_t>* left);
  // The same of bags that go by reduce_scatter: lane_ranks_sums.cc.
  int ForwardSums(Held* held, const Word& word, std::vector<uint8_t>* left);
  int BackwardSums(Held* held, const Word& word, std::vector<uint8_t>* left);
  // Of dense tensors: lane_ranks_dense.cc.
  int Sums(Held* held, std::vector<uint8_t>* left);
  int SumOnHost(const char* op, const std::vector<Summed>& arrays, int64_t total, bool doubles, bool average,
                char* buffer);
  // Counts what keys with their bags move, from what PairsCount and PairsAsk are given; and sums, or gradients.
  void CountPairs(const Held& held, const int64_t* given, const int64_t* taken) const;
  void CountSums(const Held& held, int t, const int64_t* bags, bool gathers) const;
  // Exchanges what the run has said; fork: null, or what the run has marked.
  int Exchange(const Held& held, Among among, bool own_there = false, const Fork* fork = nullptr);
  // Whether rows that this rank would send itself, or their gradients, are put where they are to be at once.
  bool KeepsOwn(const Held& held) const {
    return !held.facts[0].by_hosts() && exchanges_.KnowsOwn(held.ops[0]->context != nullptr);
  }
  void Come(const Held& held, Stamp stamp);
  // Counts an exchange, and how long this rank has waited for it: stores/figures.py.
  void Met(const Held& held, const Word& word) const;
  // Counts lookups' batches. given: [T, N], keys that this rank asks each for.
  void CountBatches(const Held& held, const int64_t* given) const;
  // Counts what rows of a member, or gradients, move. given, taken: [N], keys that this rank asks each for, and each
  // this one.
  void CountAsked(const Held& held, int t, const int64_t* given, const int64_t* taken) const;
  // Of a member, as its embeddings travel, or its gradient.
  static int64_t RowBytes(const Held& held, int t, bool gradient);
  // The counts [rows, N] that other ranks have for this one, from those that this one has for them.
  int TakeCounts(const Held& held, int rows, const int64_t* given, Among among, int64_t* taken);
  // Keys of decided lookups, [T, N]: how many this rank has for each, and each for this one.
  int CountKeys(const Held& held, const Word& word, std::vector<int64_t>* given, std::vector<int64_t>* taken);
  // By hosts, lane_ranks_hosts.cc: exchanges them inside the host, given and taken as above; out: all of these as
  // ForwardAsk takes them, of what owners are asked for.
  int AskNear(Held* held, std::vector<int64_t>* given, std::vector<int64_t>* taken, std::vector<int64_t>* sent,
              std::vector<int64_t>* begins);
  int SumNear(Held* held);
  int Insert(Held* held, const std::vector<uint8_t>& left);
  // Agrees on which members are left, `asked`, and inserts new keys, before which the answer must have come; where it
  // has not, `asked` stays true.
  int Settle(Held* held, const std::vector<int64_t>& fresh, bool* asked, std::vector<uint8_t>* left);

  Exchanges exchanges_;
  Standing* standing_ = nullptr;
  Post post_;
  std::unique_ptr<Meeting> meeting_;             // on rank 0
  int parent_ = -1;
  std::vector<int64_t> hops_;
  std::vector<int> children_;
  std::unique_ptr<Relay> relay_;                 // on a rank that is on other ranks' way to rank 0
  std::vector<KnownOps> ops_;                    // what this rank has said of ops, and each that is heard by way of it
  std::map<std::vector<int64_t>, int64_t> said_; // kernels -> the number of what has been said of them
  std::map<std::vector<int64_t>, int64_t> scratch_;
  std::list<Held> held_;
  std::deque<std::pair<Held*, Word>> decided_;
  std::deque<std::pair<int, std::string>> arrived_;
  std::vector<std::vector<std::string>> unsent_;  // for each rank
  std::deque<Event> events_;
  Event told_;                                   // the last that was taken
  int64_t ticket_ = Meeting::kFirst;
  int64_t active_ = 0;
  bool allowed_ = false;
  Watcher watcher_ = nullptr;
  std::vector<int64_t> pointers_, gives_, takes_;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LANE_RANKS_H
