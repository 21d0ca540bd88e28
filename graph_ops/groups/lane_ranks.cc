// See lane_ranks.h: how groups are decided, and handed over to Python. How they are announced is in
// lane_ranks_announce.cc, how they run in lane_ranks_run.cc, how messages go and come in lane_ranks_messages.cc.
#include "lane_ranks.h"

#include <algorithm>

#include "../bridge/bridge_clock.h"

namespace sok1x {

namespace {

// After which what is held is Python's, which keeps the clocks (launch/leader.py: _WHOLE_SECONDS); microseconds.
constexpr int64_t kHoldsAtMost = 50000;

}  // namespace

int64_t LaneRanks::Now() { return MonotonicMicroseconds(); }

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
