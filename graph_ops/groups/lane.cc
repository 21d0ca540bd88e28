// See lane.h: which requests run together, and when. How they run is in lane_run.cc.
#include "lane.h"

#include <algorithm>

#include "../bridge/bridge_clock.h"
#include "../bridge/bridge_pins.h"
#include "ahead.h"

namespace sok1x {

namespace {

// What Queue::PopMany returns for requests, and for a session that is gone.
constexpr int kRequests = 1, kSessionEnded = 3;

// Where a session.run is about to bring more requests that run together with those that have come, as the one before it
// did: how long to look for the next of them, and for all, in microseconds.
constexpr int64_t kGatherNext = 150, kGatherAll = 600;
// How long a sum of dense gradients on a GPU looks for gradients of lookups.
constexpr int64_t kAwaitsGradients = 400;
// How long it goes on by itself where there are other ranks: Python keeps the clocks. Microseconds.
constexpr int64_t kTurn = 5000;

// Whether an op that makes rows distinct has row numbers, of several ranks: operations/distinct_rows.py.
bool HasNumbers(const Request& request) { return request.inputs[1].elements == 0 && request.inputs[2].elements > 0; }

// What an op that trains or not by its last host input is told; -1 where that is no single flag.
int Told(const Request& request) {
  const TensorInfo& given = request.inputs.back();
  return given.elements == 1 && given.dtype == tf::DT_BOOL ? *static_cast<const bool*>(given.data) : -1;
}

}  // namespace

Lane* Lane::Get() {
  static Lane* lane = new Lane;  // never destroyed, as the queue
  return lane;
}

void Lane::Learn(const RequestInfo& request, const LaneOp* op, int64_t alike) {
  known_[request.kernel] = {op, alike};
  Expects(&request, 1);  // the request by which it has been learned
}

void Lane::Forget(int64_t kernel) {
  if (ranks_.holds()) ranks_.HandOver();  // of ops that are known here
  known_.erase(kernel);
}

bool Lane::Expects(const RequestInfo* infos, int count) {
  bool more = false;
  for (int i = 0; i < count; ++i) {
    const auto known = known_.find(infos[i].kernel);
    if (known == known_.end() || known->second.alike == 0 || IsSum(infos[i])) continue;  // a sum runs by itself
    const LaneOp* const op = known->second.op;
    more = expected_.More(infos[i], known->second.alike);
    if (op != nullptr && op->kind == kLaneBackward) expected_.Gradient(infos[i]);
  }
  return more;
}

bool Lane::IsSum(const RequestInfo& info) const {
  const auto known = known_.find(info.kernel);
  return known != known_.end() && known->second.op != nullptr && known->second.op->kind == kLaneSums;
}

void Lane::Gather(RequestInfo* infos, int capacity, int* count) {
  const int64_t until = MonotonicMicroseconds() + kGatherAll;
  int looked_at = 0;
  while (Expects(infos + looked_at, *count - looked_at) && *count < capacity && MonotonicMicroseconds() < until) {
    looked_at = *count;
    *count += Queue::Get()->More(kGatherNext, infos + *count, capacity - *count);
    if (*count == looked_at) return;
  }
}

int Lane::Take(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, int64_t lane_us,
               RequestInfo* infos, int capacity, int* count) {
  if (ranks_.begun()) return TakeAmongRanks(spin_us, wait_us, inbox, pause_us, lane_us, infos, capacity, count);
  int kind = kRequests;
  for (*count = 0; kind == kRequests && *count == 0; spin_us = lane_us) {
    kind = Queue::Get()->PopMany(spin_us, wait_us, inbox, pause_us, infos, capacity, count);
    if (kind == kSessionEnded) Ahead::Get()->Clear();
    if (kind != kRequests) return kind;
    Gather(infos, capacity, count);
    if (lane_us >= 0 && allowed_.load()) *count = RunAll(infos, capacity, *count);
    if (wait_us >= 0 || Queue::Get()->TakeWake()) break;  // other ranks may have something to say, or another thread
  }
  return kind;
}

int Lane::TakeAmongRanks(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, int64_t lane_us,
                         RequestInfo* infos, int capacity, int* count) {
  const int kind = TurnAmongRanks(spin_us, wait_us, inbox, pause_us, lane_us, infos, capacity, count);
  ranks_.EndTurn();
  return kind;
}

int Lane::TurnAmongRanks(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, int64_t lane_us,
                         RequestInfo* infos, int capacity, int* count) {
  const int64_t until = MonotonicMicroseconds() + kTurn;
  const bool allowed = lane_us >= 0 && allowed_.load();
  *count = 0;
  ranks_.Turn(inbox, allowed);
  bool longer = false;
  ranks_.Listen(&longer);  // what Python has received, and what has been decided before that was Python's
  for (int kind = 0; !ranks_.HasEvents(); spin_us = lane_us) {
    if (ranks_.holds()) {  // launch/pauses.py: waiting_pause
      const int64_t quiet = ranks_.quiet();
      kind = Queue::Get()->PopMany(ranks_.spin_us() - quiet, ranks_.Patience(kTurn), inbox, quiet < 1000 ? 1 : 50,
                                   infos, capacity, count);
    } else {
      kind = Queue::Get()->PopMany(spin_us, wait_us, inbox, pause_us, infos, capacity, count);
    }
    if (kind == kSessionEnded) Ahead::Get()->Clear();
    if (kind > kRequests) {  // what has been cancelled may be held here, and so may be a session's
      ranks_.HandOver();
      return kind;
    }
    if (kind == kRequests) {
      Gather(infos, capacity, count);
      if (allowed && allowed_.load()) *count = RunAll(infos, capacity, *count);  // it may have been stopped meanwhile
    }
    const bool heard = ranks_.Listen(&longer);
    ranks_.Age();
    if (*count > 0 || longer || MonotonicMicroseconds() >= until) return kind;
    if (kind == 0 && !heard && !ranks_.holds()) return 0;
  }
  return 0;
}

// When dense gradients have been summed TensorFlow launches the steps of all dense variables at once, by as many
// threads, beside which each call of a GPU's driver takes many times as long here. So gradients of lookups go first,
// those that are about to come, too.
int Lane::RunAll(RequestInfo* infos, int capacity, int count) {
  const auto other = [this](const RequestInfo& info) { return !IsSum(info); };
  RequestInfo* const end = infos + count;
  const std::vector<RequestInfo> sums(std::stable_partition(infos, end, other), end);
  int left = RunTeams(infos, count - sums.size());
  if (sums.empty()) return left;
  const int64_t until = MonotonicMicroseconds() + kAwaitsGradients;
  for (const RequestInfo& sum : sums) {
    const LaneOp& op = OpOf(&sum);
    if (left > 0 || op.context == nullptr || !Announces(op, *static_cast<Request*>(sum.request))) continue;
    if (!expected_.AwaitsGradients(sum)) continue;
    while (left == 0 && expected_.LacksGradients(sum)) {  // what is left waits for Python
      const int room = capacity - sums.size();
      int more = Queue::Get()->More(until - MonotonicMicroseconds(), infos, room);
      if (more == 0) break;
      Gather(infos, room, &more);
      left = RunTeams(infos, more);
    }
    expected_.Awaited(sum);
  }
  std::copy(sums.begin(), sums.end(), infos + left);
  return left + RunTeams(infos + left, sums.size());
}

int Lane::RunTeams(RequestInfo* infos, int count) {
  std::vector<RequestInfo> others;
  std::vector<uint8_t> left;
  std::vector<Team> teams = Sort(infos, count);
  // Other ranks wait for what is announced; in one order, as far as it comes together.
  const auto announced = std::stable_partition(teams.begin(), teams.end(),
                                               [](const Team& team) { return Communicates(team.op); });
  std::stable_sort(teams.begin(), announced, [this](const Team& a, const Team& b) {
    return OpOf(a.members[0]).place < OpOf(b.members[0]).place;
  });
  for (const Team& team : teams) {
    left.assign(team.members.size(), 1);
    if (Communicates(team.op)) {
      if (Announce(team)) continue;
    } else if (team.op != nullptr) {
      Run(team, &left);
    }
    for (size_t t = 0; t < left.size(); ++t) {
      if (!left[t]) continue;
      others.push_back(*team.members[t]);
      others.back().needs_rows = static_cast<Request*>(others.back().request)->needs_rows;
    }
  }
  std::copy(others.begin(), others.end(), infos);
  return others.size();
}

bool Lane::NotesTime(const LaneOp& op) {
  const int64_t now = MomentNow();
  const Pins* const pins = Pins::Get();
  return now >= op.counted[kDue] || now - pins->ended() >= kPause || op.counted[kStamped] < pins->paused();
}

std::vector<Lane::Team> Lane::Sort(RequestInfo* infos, int count) {
  std::vector<Team> teams;
  for (int i = 0; i < count; ++i) {
    RequestInfo* info = &infos[i];
    const Request& request = *static_cast<Request*>(info->request);
    const auto known = known_.find(info->kernel);
    const LaneOp* op = known == known_.end() ? nullptr : known->second.op;
    if (op != nullptr && op->label != nullptr) info->name = op->label;  // as Python's Call has it
    int training = 0;
    if (op != nullptr && op->kind == kLaneForward) training = op->training < 0 ? Told(request) : op->training;
    // Of several ranks a lookup may have left the rows themselves, or nothing: then they are only stamped.
    if (training < 0 || (op != nullptr && op->kind == kLaneDistinct &&
                         ((!op->alone && !HasNumbers(request)) || NotesTime(*op)))) {
      op = nullptr;
      training = 0;
    }
    const bool announced = Communicates(op);
    if (announced && !Announces(*op, request)) op = nullptr;
    const int64_t by = announced && op != nullptr ? ExchangeOf(*op, request, training != 0) : kAll2All;
    const auto same = [&](const Team& team) {
      const RequestInfo& other = *team.members[0];
      if (announced && (other.session != info->session || other.signature != info->signature ||
                        other.step != info->step)) {
        return false;
      }
      return op != nullptr && team.op != nullptr && team.op->team == op->team && team.training == (training != 0) &&
             team.by == by && op->kind != kLaneSums &&
             // They move a table's clock on once, and each run stamps rows with a step of its own.
             (op->kind != kLaneDistinct || team.members[0]->step == info->step);
    };
    auto team = std::find_if(teams.begin(), teams.end(), same);
    if (team == teams.end()) team = teams.insert(team, {op, training != 0, by, {}});
    team->members.push_back(info);
  }
  for (Team& team : teams) {  // in one order each time, and on all ranks
    if (Communicates(team.op)) {
      std::stable_sort(team.members.begin(), team.members.end(), [this](const RequestInfo* a, const RequestInfo* b) {
        return OpOf(a).place < OpOf(b).place;
      });
    } else {
      std::sort(team.members.begin(), team.members.end(),
                [](const RequestInfo* a, const RequestInfo* b) { return a->kernel < b->kernel; });
    }
  }
  return teams;
}

bool Lane::Announces(const LaneOp& op, const Request& request) const {
  if (!op.met || !ranks_.announces()) return false;
  if (op.kind != kLaneBackward || op.facts.by_bag == 0) return true;
  const TensorInfo& route = request.inputs.back();
  return route.elements > 0;
}

int64_t Lane::ExchangeOf(const LaneOp& op, const Request& request, bool training) {
  if (op.facts.by_bag == 0) return kAll2All;
  if (op.kind == kLaneBackward) return *static_cast<const int64_t*>(request.inputs.back().data);
  if (op.facts.exchange == kReduceScatter) return kReduceScatter;
  return op.facts.exchange == kChooses && training ? op.went : kAll2All;
}

bool Lane::Announce(const Team& team) {
  std::vector<const RequestInfo*> members(team.members.begin(), team.members.end());
  std::vector<const LaneOp*> ops;
  for (const RequestInfo* member : members) ops.push_back(&OpOf(member));
  if (ops.size() == 1 && !ops[0]->one) return false;
  return ranks_.Announce(members, ops, known_.at(members[0]->kernel).alike, team.training, steps_);
}

}  // namespace sok1x
