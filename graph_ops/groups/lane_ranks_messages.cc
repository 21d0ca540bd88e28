// See lane_ranks.h: messages between this rank and rank 0, and those of other ranks on their way.
#include "lane_ranks.h"

#include <algorithm>

namespace sok1x {

namespace {

// How long a word may take to be under way before this rank acts on it (launch/coordinator.py: _SENT_SECONDS).
constexpr int64_t kSentAtMost = 10000000;
// Bytes of messages that go as one.
constexpr size_t kTogether = Post::kLongest - 100;

uint8_t KindOf(const std::string& data) { return data.empty() ? 0xff : static_cast<uint8_t>(data[0]); }

}  // namespace

void LaneRanks::Ship() {
  bool down = false;
  for (int r = 0; r < ranks(); ++r) {
    std::vector<std::string>& messages = unsent_[r];
    if (messages.empty()) continue;
    size_t bytes = 0;
    for (const std::string& message : messages) bytes += message.size();
    // What MPI sends at once each, it might not together: see `Early`.
    if (messages.size() > 1 && bytes < kTogether) messages.assign(1, BriefSeveral(messages));
    for (const std::string& message : messages) SendNow(r, message);
    messages.clear();
    down = down || r != parent_;
  }
  // Not what goes up: who should receive that may wait for this rank meanwhile.
  if (down && post_.there()) post_.Flush(kSentAtMost);
}

void LaneRanks::SendNow(int rank, const std::string& data) {
  if (post_.there() && !post_.broken()) return post_.Send(rank, data, rank != parent_);
  Event event;
  event.kind = kSend;
  event.source = rank;
  event.data = data;
  events_.push_back(std::move(event));
}

void LaneRanks::Rise() {
  if (!relays()) return;
  for (std::string& one : relay_->Take(Post::kLongest)) Send(parent_, std::move(one));
}

void LaneRanks::EndTurn() {
  Rise();
  Ship();
}

int64_t LaneRanks::Patience(int64_t most) const {
  return relays() ? std::max<int64_t>(1, std::min(most, relay_->oldest() + Relay::kWaits - Now())) : most;
}

void LaneRanks::Take(int source, const std::string& data) {
  const uint8_t kind = KindOf(data);
  std::vector<std::string> several;
  Messages messages;
  if (kind == kAlarm || kind == kParted) return Message(source, data);
  if (kind == kBriefSeveral && ReadBriefSeveral(data, &several)) {
    for (auto one = several.rbegin(); one != several.rend(); ++one) arrived_.emplace_front(source, *one);
  } else if (parent_ < 0 && kind == kUp && ReadUp(data, &messages)) {
    for (auto one = messages.rbegin(); one != messages.rend(); ++one) arrived_.emplace_front(one->first, one->second);
  } else if (parent_ < 0) {
    TakeOwn(source, data);
  } else if (source == parent_) {
    PassDown(data);
  } else if (relay_ != nullptr) {
    PassUp(source, data);
  } else {
    Message(source, data);
  }
}

void LaneRanks::PassUp(int source, const std::string& data) {
  if (relay_->Hear(source, data, &ops_, Now()) || !allowed_ || !post_.there()) Rise();
}

void LaneRanks::PassDown(const std::string& data) {
  int target;
  std::string word;
  if (KindOf(data) == kToOne && ReadToOne(data, &target, &word)) {
    if (target == rank()) return TakeOwn(0, word);
    if (target >= 0 && target < ranks() && hops_[target] >= 0) Send(hops_[target], data);
    return;
  }
  for (int child : children_) Send(child, data);
  TakeOwn(0, data);
}

void LaneRanks::TakeOwn(int source, const std::string& data) {
  const uint8_t kind = KindOf(data);
  Bundle bundle;
  Word word;
  std::vector<int64_t> tickets;
  if (meeting_ != nullptr && kind == kBriefBundle && source >= 0 && ReadBriefBundle(data, &ops_[source], &bundle)) {
    return AddOrTell(source, std::move(bundle));
  }
  std::vector<Rising> bundles;
  if (meeting_ != nullptr && kind == kBriefMerged && ReadBriefMerged(data, ops_, &bundles)) {
    for (Rising& one : bundles) AddOrTell(one.rank, std::move(one.bundle));
    return;
  }
  if (relay_ != nullptr && (kind == kBriefRun || kind == kPlainRun)) relay_->Answered();
  if (kind == kBriefRun && meeting_ == nullptr && ReadBriefRun(data, rank(), &word)) {
    return TakeWord(word, PlainRun(word));
  }
  if (kind == kPlainRun && meeting_ == nullptr) {
    if (ReadPlainRun(data, rank(), &word, &tickets)) return TakeWord(word, data);
    const auto python = [](int64_t ticket) { return ticket < Meeting::kFirst; };
    if (!tickets.empty() && std::all_of(tickets.begin(), tickets.end(), python)) return Message(source, data);
  }
  HandOver();
  Message(source, data);
}

void LaneRanks::Message(int source, std::string data) {
  Event event;
  event.kind = kMessage;
  event.source = source;
  event.data = std::move(data);
  events_.push_back(std::move(event));
}

Messages LaneRanks::Plain(int source, const std::string& data) {
  const uint8_t kind = KindOf(data);
  Bundle bundle;
  Word word;
  std::vector<std::string> several;
  std::vector<Rising> bundles;
  Messages plain;
  int target;
  std::string told;
  if (kind == kBriefSeveral && ReadBriefSeveral(data, &several)) {
    for (const std::string& one : several) {
      for (auto& each : Plain(source, one)) plain.push_back(std::move(each));
    }
    return plain;
  }
  if (kind == kToOne && ReadToOne(data, &target, &told)) return target == rank() ? Plain(source, told) : plain;
  if (kind == kBriefMerged && ReadBriefMerged(data, ops_, &bundles)) {
    for (const Rising& one : bundles) plain.emplace_back(one.rank, PlainBundle(one.bundle));
    return plain;
  }
  if (kind == kBriefBundle && source >= 0 && ReadBriefBundle(data, &ops_[source], &bundle)) {
    return {{source, PlainBundle(bundle)}};
  }
  if (kind == kBriefRun && ReadBriefRun(data, rank(), &word)) return {{source, PlainRun(word)}};
  return {{source, data}};
}

}  // namespace sok1x
