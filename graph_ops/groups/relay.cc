// See relay.h.
#include "relay.h"

#include <algorithm>
#include <cstring>

#include "meeting.h"

namespace sok1x {

namespace {

constexpr size_t kEntryBytes = 8, kMostTeams = 100;

void AddNumber(std::string* data, int32_t number) { data->append(reinterpret_cast<const char*>(&number), 4); }

uint8_t KindOf(const std::string& data) { return data.empty() ? 0xff : static_cast<uint8_t>(data[0]); }

bool Same(const Bundle& one, const Bundle& other) {
  return (one.ops == other.ops || one.ops->places == other.ops->places) && Equal(one.runs, other.runs);
}

}  // namespace

constexpr int64_t Relay::kWaits;

std::string Up(const Messages& messages) {
  std::string data(1, static_cast<char>(kUp));
  for (const auto& one : messages) {
    AddNumber(&data, one.first);
    AddNumber(&data, one.second.size());
    data += one.second;
  }
  return data;
}

bool ReadUp(const std::string& data, Messages* messages) {
  for (size_t at = 1; at < data.size();) {
    int32_t rank, bytes;
    if (data.size() - at < kEntryBytes) return false;
    std::memcpy(&rank, data.data() + at, 4);
    std::memcpy(&bytes, data.data() + at + 4, 4);
    at += kEntryBytes;
    if (bytes < 0 || data.size() - at < static_cast<size_t>(bytes)) return false;
    messages->emplace_back(rank, data.substr(at, bytes));
    at += bytes;
  }
  return true;
}

bool ReadToOne(const std::string& data, int* rank, std::string* word) {
  if (data.size() < 5) return false;
  int32_t number;
  std::memcpy(&number, data.data() + 1, 4);
  *rank = number;
  *word = data.substr(5);
  return true;
}

Relay::Relay(std::vector<bool> below)
    : below_(std::move(below)), ranks_(std::count(below_.begin(), below_.end(), true)) {}

bool Relay::Hear(int source, const std::string& data, std::vector<KnownOps>* known, int64_t now) {
  Messages messages;
  bool goes = false;
  if (KindOf(data) != kUp || !ReadUp(data, &messages)) messages.assign(1, {source, data});
  for (auto& one : messages) {
    std::vector<Rising> bundles;
    int64_t number = -1;
    bool said = false, brief = false;
    const uint8_t kind = KindOf(one.second);
    if (one.first < 0) {
      brief = kind == kBriefMerged && ReadBriefMerged(one.second, *known, &bundles);
    } else if (kind == kBriefBundle && one.first < static_cast<int>(known->size())) {
      Bundle bundle;
      brief = ReadBriefBundle(one.second, &(*known)[one.first], &bundle, &number, &said) && said;
      if (brief) bundles.push_back({one.first, number, std::move(bundle)});
    }
    if (!brief) {
      Add(one.first, std::move(one.second), now);
      goes = true;
      continue;
    }
    for (Rising& rising : bundles) goes = Add(std::move(rising), now) || goes;
  }
  return goes;
}

bool Relay::Add(Rising rising, int64_t now) {
  const int rank = rising.rank;
  const Bundle& bundle = rising.bundle;
  Team* team = nullptr;
  bool goes = false;
  for (Team& one : teams_) {
    if (Same(one.like, bundle)) {
      if (team == nullptr && !one.has[rank]) team = &one;
    } else if (Overlap(*one.like.ops, *bundle.ops)) {
      goes = true;  // ranks have taken in their ops in other company: rank 0 finds what they have in common
    }
  }
  if (team == nullptr) {
    if (teams_.size() >= kMostTeams) teams_.pop_front();
    teams_.push_back({bundle, std::vector<bool>(below_.size()), ranks_, false});
    team = &teams_.back();
  }
  team->has[rank] = true;
  team->missing -= 1;
  goes = goes || team->late || team->missing == 0;
  if (team->missing == 0) teams_.remove_if([&](const Team& one) { return &one == team; });
  if (waiting_.empty()) oldest_ = now;
  waiting_.push_back({std::move(rising), ""});
  return goes;
}

void Relay::Add(int rank, std::string data, int64_t now) {
  if (waiting_.empty()) oldest_ = now;
  waiting_.push_back({{rank, -1, Bundle()}, std::move(data)});
}

std::vector<std::string> Relay::Take(size_t bytes) {
  std::vector<std::string> taken;
  Messages messages;
  size_t used = 1;
  const auto put = [&](int rank, std::string data) {
    if (!messages.empty() && used + kEntryBytes + data.size() > bytes) {
      taken.push_back(Up(messages));
      messages.clear();
      used = 1;
    }
    used += kEntryBytes + data.size();
    messages.emplace_back(rank, std::move(data));
  };
  for (size_t at = 0; at < waiting_.size();) {
    if (waiting_[at].rising.bundle.ops == nullptr) {
      put(waiting_[at].rising.rank, std::move(waiting_[at].data));
      ++at;
      continue;
    }
    std::vector<Rising> alike;
    std::vector<bool> has(below_.size());
    for (; at < waiting_.size() && waiting_[at].rising.bundle.ops != nullptr; ++at) {
      Rising& one = waiting_[at].rising;
      if (!alike.empty() && (has[one.rank] || !Same(one.bundle, alike[0].bundle) ||
                             one.bundle.width != alike[0].bundle.width)) {
        break;
      }
      has[one.rank] = true;
      alike.push_back(std::move(one));
    }
    std::sort(alike.begin(), alike.end(), [](const Rising& a, const Rising& b) { return a.rank < b.rank; });
    for (size_t done = 0; done < alike.size();) {
      // Each rank says something of its own at the end, of which the limit knows nothing.
      const size_t room = 3 * bytes / 4;
      put(-1, BriefMerged(alike, room, &done));
    }
  }
  if (!messages.empty()) taken.push_back(Up(messages));
  waiting_.clear();
  for (Team& team : teams_) team.late = true;
  return taken;
}

void Relay::Answered() {
  teams_.remove_if([](const Team& team) { return team.late; });
}

}  // namespace sok1x
