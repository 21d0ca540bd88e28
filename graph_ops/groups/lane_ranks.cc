// See lane_ranks.h: how groups are announced and decided. How they run is in lane_ranks_run.cc, how messages
// go and come in lane_ranks_messages.cc.
#include "lane_ranks.h"

#include <algorithm>
#include <chrono>

#include "../bridge/bridge_calls.h"
#include "choice.h"

namespace sok1x {

namespace {

// After which what is held is Python's, which keeps the clocks (launch/leader.py: _WHOLE_SECONDS); microseconds.
constexpr int64_t kHoldsAtMost = 50000;
constexpr size_t kTeamsRemembered = 1000;

bool Initialized(const RequestInfo* member) {
  auto* request = static_cast<Request*>(member->request);
  if (request->group != nullptr && request->group->holds()) return false;
  for (const auto& variable : request->variables) {
    if (variable.get() == nullptr) return false;
    tf::tf_shared_lock lock(*variable->mu());
    if (!variable->is_initialized) return false;
  }
  return true;
}

template <typename Type>
void AddBytes(std::string* data, Type value) {
  data->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

int64_t LaneRanks::Now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t LaneRanks::quiet() const { return Now() - active_; }

void LaneRanks::Begin(const Ways* ways, Direct* host, Standing* standing, int parent, const int64_t* hops) {
  exchanges_.Begin(ways, host);
  standing_ = standing;
  parent_ = parent;
  hops_.assign(hops, hops + ranks());
  std::vector<bool> below(ranks());
  for (int r = 0; r < ranks(); ++r) {
    below[r] = hops_[r] >= 0;
    if (r != rank() && hops_[r] == r) children_.push_back(r);
  }
  if (rank() == 0) meeting_.reset(new Meeting(ranks()));
  if (parent_ >= 0 && !children_.empty()) relay_.reset(new Relay(below));
  ops_.resize(ranks());
  unsent_.resize(ranks());
  pointers_.resize(3);
  gives_.resize(ranks());
  takes_.resize(ranks());
}

void LaneRanks::Turn(const Inbox* inbox, bool allowed) {
  post_.Use(inbox);
  exchanges_.Allow(inbox != nullptr);
  allowed_ = allowed;
  const bool meets = meeting_ != nullptr && !meeting_->empty();
  if (!allowed || post_.broken() || (meets && !standing_->decides)) HandOver();
}

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
  held.run.reset(new LookupRun(held.group, held.facts.data(), steps, static_cast<GroupDevice*>(first.device)));
  if (!Prepare(&held, training)) {  // it says what is wrong, or does it all by itself, in Python
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
      held->headers.push_back(held->facts[t].exchange == kChooses && training &&
                              Surplus(held->facts[t], ranks(), size[0], size[1], size[2]) > 0);
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
  const bool room = said_.size() < kTeamsRemembered;
  const int64_t number = known ? said->second : room ? static_cast<int64_t>(said_.size()) : -1;
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
    if (room) {
      said_[kernels] = number;
      ops_[rank()].push_back(bundle.ops);
    }
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

void LaneRanks::Add(int rank, Bundle bundle) {
  Word word;
  std::vector<int64_t> tickets;
  const Meeting::Outcome met = meeting_->Add(rank, std::move(bundle), Now(), &word, &tickets);
  if (met == Meeting::kPython) return HandOver();
  if (met == Meeting::kWaits) return;
  const std::string brief = BriefRun(word, tickets);
  for (int child : children_) Send(child, brief);
  TakeWord(word, "");
}

void LaneRanks::AddOrTell(int rank, Bundle bundle) {
  if (decides()) return Add(rank, std::move(bundle));
  HandOver();  // what waits here comes before it
  Message(rank, PlainBundle(bundle));
}

bool LaneRanks::Listen(bool* longer) {
  bool any = false;
  *longer = false;
  int source;
  std::string data;
  const bool takes = !standing_->told;
  // What is decided runs in the order in which it was: what is Python's, before what comes after.
  for (; events_.empty(); any = true) {
    if (takes && !arrived_.empty() && !Early(arrived_.front())) {
      const std::pair<int, std::string> one = arrived_.front();
      arrived_.pop_front();
      Take(one.first, one.second);
    } else if (!decided_.empty()) {
      Ship();
      if (!events_.empty()) break;  // Python is to send first
      const std::pair<Held*, Word> next = std::move(decided_.front());
      decided_.pop_front();
      Run(next.first, next.second);
      held_.remove_if([&](const Held& one) { return &one == next.first; });
    } else if (takes && post_.there() && !post_.broken() && post_.Receive(&source, &data, longer)) {
      arrived_.emplace_back(source, data);
    } else {
      break;
    }
  }
  Ship();
  if (any) active_ = Now();
  standing_->pending = decided_.size();
  return any;
}

void LaneRanks::TakeWord(const Word& word, const std::string& plain) {
  for (Held& held : held_) {
    const auto same = [&](const std::pair<Held*, Word>& one) { return one.first == &held; };
    if (held.ticket != word.ticket || std::any_of(decided_.begin(), decided_.end(), same)) continue;
    if (!Usual(&held, word)) break;
    decided_.emplace_back(&held, word);
    return;
  }
  if (word.ticket >= Meeting::kFirst) HandOver();
  Message(0, plain.empty() ? PlainRun(word) : plain);
}

void LaneRanks::Age() {
  if (relays() && Now() - relay_->oldest() >= Relay::kWaits) EndTurn();
  const bool late = !held_.empty() && Now() - held_.front().since > kHoldsAtMost;
  if (late || (meeting_ != nullptr && !meeting_->empty() && Now() - meeting_->oldest() > kHoldsAtMost)) HandOver();
}

void LaneRanks::HandOver() {
  Rise();
  for (auto one = held_.begin(); one != held_.end();) {
    const Held* held = &*one;
    const auto same = [=](const std::pair<Held*, Word>& decided) { return decided.first == held; };
    if (std::any_of(decided_.begin(), decided_.end(), same)) {  // it is not waiting any more
      ++one;
      continue;
    }
    Event event;
    event.kind = kHeld;
    event.requests = one->members;
    for (int t = 0; t < one->size(); ++t) event.numbers.push_back(one->ticket + t);
    events_.push_back(std::move(event));
    one = held_.erase(one);
  }
  if (meeting_ == nullptr) return;
  for (const auto& waiting : meeting_->TakeAll()) Message(waiting.first, PlainBundle(waiting.second));
}

bool LaneRanks::Stop() {
  bool longer;
  Turn(nullptr, false);
  Listen(&longer);
  HandOver();
  return !decided_.empty() || !arrived_.empty() || !events_.empty();
}

bool LaneRanks::Next(EventInfo* info) {
  *info = EventInfo();
  if (events_.empty()) return false;
  told_ = std::move(events_.front());
  events_.pop_front();
  info->kind = told_.kind;
  info->count = told_.requests.size();
  info->requests = told_.requests.data();
  info->numbers = told_.numbers.data();
  info->headers = told_.headers.data();
  info->width = told_.width;
  info->source = told_.source;
  info->data = told_.data.data();
  info->bytes = told_.data.size();
  info->code = told_.code;
  return true;
}

}  // namespace sok1x
