// See lane_ranks.h: how groups are prepared and announced.
#include <algorithm>

#include "../bridge/bridge_calls.h"
#include "choice.h"
#include "lane_ranks.h"

namespace sok1x {

namespace {

bool Initialized(const RequestInfo* member) {
  auto* request = static_cast<Request*>(member->request);
  if (request->group != nullptr && request->group->holds()) return false;
  for (const auto& variable : request->variables) {
    if (variable.get() == nullptr) return false;
    tf::tf_shared_lock lock(*variable->mu());
    if (!HasValue(variable.get())) return false;
  }
  return true;
}

template <typename Type>
void AddBytes(std::string* data, Type value) {
  data->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

bool LaneRanks::Announce(const std::vector<const RequestInfo*>& members, const std::vector<const LaneOp*>& ops,
                         int64_t alike, bool training, const GroupSteps* steps) {
  const LaneOp& first = *ops[0];
  if (!std::all_of(members.begin(), members.end(), Initialized)) return false;
  if (first.context != nullptr && Cuda::Get()->Enter(first.context) != 0) return false;
  held_.emplace_back();
  Held& held = held_.back();
  std::vector<void*> requests;
  std::vector<int64_t> kernels;
  for (size_t t = 0; t < members.size(); ++t) {
    held.members.push_back(*members[t]);
    held.facts.push_back(ops[t]->facts);
    requests.push_back(members[t]->request);
    kernels.push_back(members[t]->kernel);
  }
  if (scratch_.size() >= kTeamsRemembered && held_.size() == 1) scratch_.clear();  // of sessions long closed
  held.ops = ops;
  held.alike = alike;
  held.by = kAll2All;
  if (first.kind == kLaneBackward && first.facts.by_bag != 0) {  // equal of all: lane.cc
    held.by = *static_cast<const int64_t*>(static_cast<Request*>(members[0]->request)->inputs.back().data);
  }
  held.step = members[0]->step;
  held.since = Now();
  held.expected = &scratch_[kernels];
  held.group = new Group(requests.data(), requests.size());
  for (Request* request : held.group->members()) {
    request->own_stream = first.stream;
    request->event = first.event;
  }
  held.group->Expect(*held.expected);
  const bool sums = first.kind == kLaneSums;
  if (!sums) {
    held.run.reset(new LookupRun(held.group, held.facts.data(), steps, static_cast<GroupDevice*>(first.device)));
  }
  if (!(sums ? PrepareSums(&held) : Prepare(&held, training))) {  // Python says what is wrong, or does it all by itself
    held.group->Unlock();
    held_.pop_back();
    return false;
  }
  int64_t ready = 0;  // one for all, so that ranks' headers are alike but for it
  for (int t = 0; t < held.size() && Timeline::On(); ++t) {
    ready = std::max(ready, static_cast<Request*>(held.members[t].request)->stamps[kStampReady]);
  }
  for (int t = 0; t < held.size(); ++t) held.headers[t * held.width] |= ready << 1;  // as together.py does
  held.ticket = ticket_;
  ticket_ += held.size();
  Say(held);
  active_ = Now();
  return true;
}

bool LaneRanks::Prepare(Held* held, bool training) {
  const LaneOp& first = *held->ops[0];
  const int count = held->size();
  const bool short_route = first.kind == kLaneForward || held->by == kReduceScatter;
  const int counted = short_route ? ranks() : first.facts.counted(ranks());
  const bool by_bag = first.facts.by_bag != 0;
  std::vector<uint8_t> marks(count);
  int64_t& width = held->whole_width;
  if (first.kind == kLaneForward) {
    width = counted + (by_bag ? 5 : 2);
    held->whole.resize(count * width);
    held->begins.resize(count * ranks());
    const bool pairs = by_bag && (first.facts.exchange == kChooses && training ? first.went : first.facts.exchange) ==
                                     kReduceScatter;  // of all: lane.cc
    if (held->run->Prepare(ranks(), training, pairs, width, held->whole.data(), held->begins.data(), &held->sent,
                           marks.data()) != 0 ||
        std::count(marks.begin(), marks.end(), 0) != count) {
      return false;
    }
  } else {
    width = counted + (by_bag ? 4 : 3);
    held->whole.assign(count * width, 1);
    for (int t = 0; t < count; ++t) held->whole[t * width] = first.context != nullptr;
    if (held->run->BackwardHeaders(width, held->whole.data(), marks.data()) != 0 ||
        std::count(marks.begin(), marks.end(), 0) != 0) {
      return false;
    }
  }
  held->width = width;
  held->headers = held->whole;
  if (!standing_->short_headers) return true;
  Shorten(held, counted, training);
  return true;
}

void LaneRanks::Shorten(Held* held, int counted, bool training) {
  const bool forward = held->ops[0]->kind == kLaneForward, wishes = forward && held->facts[0].by_bag != 0;
  const int64_t width = held->whole_width;
  // Counts are last; of a gradient its lookup's number comes behind them. Of a lookup by bag three sizes come before
  // them, which are told as one number: exchanges/lookup.py.
  const int behind = forward ? 0 : 1, sizes = wishes ? 3 : 0;
  const int kept = width - counted - behind - sizes;
  held->width = kept + behind + wishes;
  held->headers.clear();
  for (int t = 0; t < held->size(); ++t) {
    const int64_t* const from = &held->whole[t * width];
    held->headers.insert(held->headers.end(), from, from + kept);
    if (wishes) {
      const int64_t* const size = from + kept;  // bags, keys, distinct
      const int64_t exchange = held->facts[t].exchange;
      const bool wish = exchange == kChooses && training &&
                        Surplus(held->facts[t], ranks(), size[0], size[1], size[2]) > 0;
      held->headers.push_back(exchange == kSettled ? kNoChoice : wish);
    }
    held->headers.insert(held->headers.end(), from + width - behind, from + width);
  }
}

void LaneRanks::Say(const Held& held) {
  Bundle bundle;
  Ops ops;
  std::vector<int64_t> runs;
  ops.context = held.ops[0]->session;
  ops.signature = held.members[0].signature;
  ops.count = held.size();
  std::vector<int64_t> kernels(1, static_cast<int64_t>(ops.signature));
  for (int t = 0; t < held.size(); ++t) {
    const RequestInfo& member = held.members[t];
    const LaneOp& op = *held.ops[t];
    kernels.push_back(member.kernel);
    int64_t tie = 0;
    if (op.tied) {
      const TensorInfo& saved = member.inputs[member.input_count - member.host_input_count];
      tie = saved.elements > 0 ? static_cast<const int64_t*>(saved.data)[saved.elements - 1] : 0;
    }
    runs.push_back(tie);
    runs.push_back(op.loops > 1 ? static_cast<int64_t>(member.frame) : 0);
    runs.push_back(op.loops > 0 ? member.iteration : 0);
  }
  const auto said = said_.find(kernels);
  const bool known = said != said_.end();
  if (!known && said_.size() >= kTeamsRemembered) {  // of sessions long closed
    said_.clear();
    ops_[rank()].clear();
  }
  const int64_t number = known ? said->second : static_cast<int64_t>(said_.size());
  if (known) {
    bundle.ops = ops_[rank()][number];
  } else {
    for (int t = 0; t < held.size(); ++t) {
      AddBytes(&ops.places, held.ops[t]->place);
      AddBytes(&ops.places, held.ops[t]->digest);
      if (t > 0) ops.names += '\0';
      ops.names += held.members[t].name;
    }
    bundle.ops = std::make_shared<Ops>(ops);
    said_[kernels] = number;
    ops_[rank()].push_back(bundle.ops);
  }
  bundle.ticket = held.ticket;
  bundle.step = held.step;
  bundle.width = held.width;
  bundle.runs = Shared(std::move(runs));
  bundle.headers = Shared(held.headers);
  if (rank() == 0) return Add(0, std::move(bundle));
  if (relay_ == nullptr) return Send(parent_, BriefBundle(bundle, number, known));
  if (!known) {
    relay_->Add(rank(), BriefBundle(bundle, number, false), Now());
    Rise();
  } else if (relay_->Add({rank(), number, std::move(bundle)}, Now())) {
    Rise();
  }
}

}  // namespace sok1x
