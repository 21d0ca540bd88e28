// See lane.h: how requests run together that no other rank has a part in.
#include <algorithm>

#include "../bridge/bridge_calls.h"
#include "../bridge/bridge_clock.h"
#include "../bridge/bridge_pins.h"
#include "../bridge/known_distinct.h"
#include "lane.h"

namespace sok1x {

int EnterContext(const LaneOp& op, std::string* error) {
  const int code = op.context == nullptr ? 0 : Cuda::Get()->Enter(op.context);
  if (code == 0) return 0;
  *error = "CUDA could not use the GPU's context (driver error " + std::to_string(code) + ")";
  return kInternal;
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
    request->Come(kStampAgreed);
  }
  group->Expect(scratch);
  std::string error;
  int code = EnterContext(first, &error);
  if (code == 0) {
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
  facts_.clear();
  for (const RequestInfo* member : team.members) facts_.push_back(OpOf(member).facts);
  LookupRun run(group, facts_.data(), steps_, static_cast<GroupDevice*>(team.op->device));
  const int code = team.op->kind == kLaneForward    ? Forward(team, &run, left)
                   : team.op->kind == kLaneDistinct ? Distinct(team, &run, left)
                   : team.op->kind == kLaneWeights  ? run.WeightsGradient(left)
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
  *error = std::to_string(facts.size()) + " steps of '" + team.members[0]->name + "' that run together " +
           (code == GROUP_NO_MEMORY ? "got no scratch memory; use a smaller batch, or leave TensorFlow more memory"
            : code == GROUP_TOO_MANY ? "have more than 2**31 - 1 gradients in all; use a smaller batch"
                                     : "failed with CUDA's error " + std::to_string(code));
  return StatusOf(code);
}

int Lane::Forward(const Team& team, LookupRun* run, uint8_t* left) {
  const int count = team.members.size();
  std::vector<int64_t> fresh(count);
  const int code = run->ForwardAlone(team.training, left, fresh.data());
  for (const RequestInfo* member : team.members) static_cast<Request*>(member->request)->Come(kStampKeys);
  if (code != 0 || std::none_of(fresh.begin(), fresh.end(), [](int64_t n) { return n > 0; })) return code;
  std::vector<NewRows> rows(count);
  for (int t = 0; t < count; ++t) rows[t] = StepOfNew(OpOf(team.members[t]), team.members[t]->step);
  return run->ForwardInsert(rows.data(), left);
}

int Lane::Distinct(const Team& team, LookupRun* run, uint8_t* left) {
  const int count = team.members.size();
  const bool global_step = team.op->facts.global_step != 0;
  std::vector<int64_t> ahead(count), at_least(count), rows(count), counts(count);
  const bool known = changing_ == team.members[0]->step;  // all are of one run
  changing_ = team.members[0]->step;
  for (int t = 0; t < count; ++t) {
    auto* const request = static_cast<Request*>(team.members[t]->request);
    if (!Pins::EndsWithStep(request->context) || (!known && t == 0)) {
      const tf::Status ignored = Pins::Get()->Look(request, nullptr);  // times near it are not noted then
    }
    // stores/clock.py: moves_ahead.
    int64_t* const counted = OpOf(team.members[t]).counted;
    ahead[t] = global_step || counted[kRun] == team.members[t]->step ? 0 : 1;
    counted[kRun] = team.members[t]->step;
    counted[kStamped] = MomentNow();
  }
  const int code = run->Distinct(team.op->alone, ahead.data(), at_least.data(), rows.data(), counts.data(), left);
  if (code != 0) return code;
  for (int t = 0; t < count && team.op->alone; ++t) {
    if (left[t]) continue;
    int64_t* const figures = OpOf(team.members[t]).figures;
    figures[kFigureKeys] += team.members[t]->inputs[0].elements;
    figures[kFigureDistinct] += counts[t];
  }
  ToldStep* const graph = OpOf(team.members[0]).graph;
  if (global_step && graph != nullptr) graph->Set(team.members[0]->step, at_least[count - 1]);
  for (int t = 0; t < count; ++t) {
    const LaneOp& op = OpOf(team.members[t]);
    if (op.note) KnownDistinct::Get()->Note(op.table, team.members[t]->step, rows[t], counts[t]);
  }
  return 0;
}

}  // namespace sok1x
