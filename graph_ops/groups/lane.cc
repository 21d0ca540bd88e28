// See lane.h.
#include "lane.h"

#include <algorithm>
#include <chrono>

#include "../bridge/bridge_calls.h"
#include "../bridge/known_distinct.h"

namespace sok1x {

namespace {

// What Queue::PopMany returns for requests.
constexpr int kRequests = 1;

// Where a session.run is about to bring more requests that run together with those that have come, as the one before it
// did: how long to look for the next of them, and for all, in microseconds.
constexpr int64_t kGatherNext = 150, kGatherAll = 600;

constexpr size_t kTeamsRemembered = 1000;

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
  if (alike != 0) expected_.More(request, alike);  // the request by which it has been learned
}

void Lane::Forget(int64_t kernel) { known_.erase(kernel); }

bool Lane::Expects(const RequestInfo* infos, int count) {
  bool more = false;
  for (int i = 0; i < count; ++i) {
    const auto known = known_.find(infos[i].kernel);
    if (known != known_.end() && known->second.alike != 0) more = expected_.More(infos[i], known->second.alike);
  }
  return more;
}

void Lane::Gather(RequestInfo* infos, int capacity, int* count) {
  typedef std::chrono::steady_clock Clock;
  const auto until = Clock::now() + std::chrono::microseconds(kGatherAll);
  int looked_at = 0;
  while (Expects(infos + looked_at, *count - looked_at) && *count < capacity && Clock::now() < until) {
    looked_at = *count;
    *count += Queue::Get()->More(kGatherNext, infos + *count, capacity - *count);
    if (*count == looked_at) return;
  }
}

int Lane::Take(int64_t spin_us, int64_t wait_us, const Inbox* inbox, int64_t pause_us, int64_t lane_us,
               RequestInfo* infos, int capacity, int* count) {
  int kind = kRequests;
  for (*count = 0; kind == kRequests && *count == 0; spin_us = lane_us) {
    kind = Queue::Get()->PopMany(spin_us, wait_us, inbox, pause_us, infos, capacity, count);
    if (kind != kRequests) return kind;
    Gather(infos, capacity, count);
    if (lane_us >= 0 && allowed_.load()) *count = RunAll(infos, *count);
    if (wait_us >= 0) break;  // other ranks may have something to say
  }
  return kind;
}

int Lane::RunAll(RequestInfo* infos, int count) {
  std::vector<RequestInfo> others;
  std::vector<uint8_t> left;
  for (const Team& team : Sort(infos, count)) {
    left.assign(team.members.size(), 1);
    if (team.op != nullptr) Run(team, &left);
    for (size_t t = 0; t < left.size(); ++t) {
      if (left[t]) others.push_back(*team.members[t]);
    }
  }
  std::copy(others.begin(), others.end(), infos);
  return others.size();
}

std::vector<Lane::Team> Lane::Sort(RequestInfo* infos, int count) const {
  std::vector<Team> teams;
  for (int i = 0; i < count; ++i) {
    RequestInfo* info = &infos[i];
    const Request& request = *static_cast<Request*>(info->request);
    const auto known = known_.find(info->kernel);
    const LaneOp* op = known == known_.end() ? nullptr : known->second.op;
    int training = 0;
    if (op != nullptr && op->kind == kLaneForward) training = op->training < 0 ? Told(request) : op->training;
    // Of several ranks a lookup may have left the rows themselves, or nothing: then they are only stamped.
    if (training < 0 || (op != nullptr && op->kind == kLaneDistinct && !op->alone && !HasNumbers(request))) {
      op = nullptr;
      training = 0;
    }
    const auto same = [&](const Team& team) {
      return op != nullptr && team.op != nullptr && team.op->team == op->team && team.training == (training != 0) &&
             // They move a table's clock on once, and each run stamps rows with a step of its own.
             (op->kind != kLaneDistinct || team.members[0]->step == info->step);
    };
    auto team = std::find_if(teams.begin(), teams.end(), same);
    if (team == teams.end()) team = teams.insert(team, {op, training != 0, {}});
    team->members.push_back(info);
  }
  for (Team& team : teams) {  // in one order each time
    std::sort(team.members.begin(), team.members.end(),
              [](const RequestInfo* a, const RequestInfo* b) { return a->kernel < b->kernel; });
  }
  return teams;
}

void Lane::Run(const Team& team, std::vector<uint8_t>* left) {
  const LaneOp& first = *team.op;
  std::vector<void*> requests;
  std::vector<int64_t> kernels;
  for (const RequestInfo* member : team.members) {
    requests.push_back(member->request);
    kernels.push_back(member->kernel);
  }
  if (scratch_.size() >= kTeamsRemembered) scratch_.clear();  // of sessions long closed
  int64_t& scratch = scratch_[kernels];
  auto* group = new Group(requests.data(), requests.size());
  for (Request* request : group->members()) {
    request->own_stream = first.stream;
    request->event = first.event;
  }
  group->Expect(scratch);
  std::string error;
  int code = first.context == nullptr ? 0 : Cuda::Get()->Enter(first.context);
  if (code != 0) {
    error = "CUDA could not use the GPU's context (driver error " + std::to_string(code) + ")";
    code = kInternal;
  } else {
    code = first.kind == kLaneUpdate ? Update(team, group, left->data(), &error)
                                     : Look(team, group, left->data(), &error);
  }
  if (code != 0) std::fill(left->begin(), left->end(), 0);
  if (watcher_ != nullptr) {
    watcher_(known_.at(kernels[0]).alike, kernels.size(), std::count(left->begin(), left->end(), 1));
  }
  if (code == 0 && std::find(left->begin(), left->end(), 1) == left->end()) {
    group->Finish();
  } else {
    group->Unlock();
    for (size_t t = 0; t < requests.size(); ++t) {
      if (!(*left)[t]) static_cast<Request*>(requests[t])->Finish(StatusOf(code, error.c_str()));
    }
  }
  scratch = group->pieces_bytes();
  group->Close();
  if (watcher_ != nullptr) watcher_(0, 0, 0);
}

int Lane::Look(const Team& team, Group* group, uint8_t* left, std::string* error) {
  std::vector<LookupFacts> facts;
  for (const RequestInfo* member : team.members) facts.push_back(OpOf(member).facts);
  LookupRun run(group, facts.data(), steps_, static_cast<GroupDevice*>(team.op->device));
  const int code = team.op->kind == kLaneForward    ? Forward(team, &run, left)
                   : team.op->kind == kLaneDistinct ? Distinct(team, &run, left)
                                                    : run.BackwardAlone(left);
  if (code != 0) {
    *error = (run.failed() < 0 ? "" : std::string("op '") + team.members[run.failed()]->name + "': ") + run.error();
  }
  return code;
}

int Lane::Update(const Team& team, Group* group, uint8_t* left, std::string* error) {
  std::vector<UpdateFacts> facts;
  for (size_t t = 0; t < team.members.size(); ++t) {
    const RequestInfo& member = *team.members[t];
    const TensorInfo& rows = member.inputs[1];
    facts.push_back(OpOf(&member).update);
    left[t] = rows.elements > 0 && !KnownDistinct::Get()->Noted(OpOf(&member).table, member.step,
                                                               reinterpret_cast<int64_t>(rows.data), rows.elements);
  }
  group->Begin(team.op->stream, team.op->event);
  const int code = MoveRows(group, facts.data(), *team.op->kernel, team.op->host_inputs, left);
  if (code == 0) return 0;
  *error = std::to_string(facts.size()) + " steps of '" + team.members[0]->name +
           "' that run together failed with error " + std::to_string(code);
  return kInternal;
}

int Lane::Forward(const Team& team, LookupRun* run, uint8_t* left) {
  const int count = team.members.size();
  std::vector<int64_t> fresh(count);
  const int code = run->ForwardAlone(team.training, left, fresh.data());
  if (code != 0 || std::find_if(fresh.begin(), fresh.end(), [](int64_t n) { return n > 0; }) == fresh.end()) return code;
  std::vector<NewRows> rows(count);
  for (int t = 0; t < count; ++t) {
    const LaneOp& op = OpOf(team.members[t]);
    const int64_t step = team.members[t]->step;
    // stores/clock.py: step_of_new.
    rows[t].ahead = *op.counted == step ? 0 : 1;
    rows[t].at_least = op.graph == nullptr ? 1 : op.graph[0] == step ? op.graph[1] : op.graph[1] + 1;
  }
  return run->ForwardInsert(rows.data(), left);
}

int Lane::Distinct(const Team& team, LookupRun* run, uint8_t* left) {
  const int count = team.members.size();
  const bool global_step = team.op->facts.global_step != 0;
  std::vector<int64_t> ahead(count), at_least(count), rows(count), counts(count);
  for (int t = 0; t < count; ++t) {
    // stores/clock.py: moves_ahead.
    int64_t* const counted = OpOf(team.members[t]).counted;
    ahead[t] = global_step || *counted == team.members[t]->step ? 0 : 1;
    *counted = team.members[t]->step;
  }
  const int code = run->Distinct(team.op->alone, ahead.data(), at_least.data(), rows.data(), counts.data(), left);
  if (code != 0) return code;
  int64_t* const graph = OpOf(team.members[0]).graph;
  if (global_step && graph != nullptr) {
    graph[0] = team.members[0]->step;
    graph[1] = at_least[count - 1];
  }
  for (int t = 0; t < count; ++t) {
    const LaneOp& op = OpOf(team.members[t]);
    if (op.note) KnownDistinct::Get()->Note(op.table, team.members[t]->step, rows[t], counts[t]);
  }
  return 0;
}

}  // namespace sok1x
