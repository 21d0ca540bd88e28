// See meeting.h.
#include "meeting.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace sok1x {

namespace {

constexpr size_t kMostSessions = 1000, kPastWords = 100;
// Teams that are kept for the next bundles, of whatever ops.
constexpr size_t kIdleTeams = 8;

std::vector<int64_t> IndicesOf(const Ops& ops) {
  std::vector<int64_t> indices(ops.count);
  for (int64_t t = 0; t < ops.count; ++t) std::memcpy(&indices[t], ops.places.data() + kPlaceBytes * t, 8);
  std::sort(indices.begin(), indices.end());
  return indices;
}

// The first that there is of a team's bundles.
template <typename Place>
Place FirstOf(const std::vector<std::deque<Place>>& of_ranks) {
  size_t r = 0;
  while (of_ranks[r].empty()) ++r;
  return of_ranks[r].front();
}

std::string NameOf(const std::string& names, int64_t number) {
  size_t at = 0;
  for (; number > 0; --number) at = names.find('\0', at) + 1;
  return names.substr(at, names.find('\0', at) - at);
}

}  // namespace

bool Overlap(const Ops& one, const Ops& other) {
  const std::vector<int64_t> a = IndicesOf(one), b = IndicesOf(other);
  std::vector<int64_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return !common.empty();
}

constexpr int64_t Meeting::kFirst;

void Meeting::Agree(const int64_t* contexts, const uint64_t* signatures) {
  std::vector<Key> keys;
  std::set<int> before;
  for (int r = 0; r < ranks_; ++r) {
    keys.emplace_back(r, contexts[r], signatures[r]);
    const auto known = known_.find(keys[r]);
    before.insert(known == known_.end() ? -1 : known->second);
  }
  if (before.size() == 1 && *before.begin() >= 0) return;
  if (*before.rbegin() >= 0 || known_.size() >= kMostSessions) Forget();  // they belonged to others
  for (const Key& key : keys) known_[key] = sessions_;
  ++sessions_;
}

void Meeting::Forget() { known_.clear(); }

void Meeting::GiveUp(int rank, int64_t step) { given_up_[rank] = std::max(given_up_[rank], step); }

Meeting::Outcome Meeting::Add(int rank, Bundle bundle, int64_t now, Word* word, std::vector<int64_t>* tickets) {
  const auto known = known_.find(Key(rank, bundle.ops->context, bundle.ops->signature));
  const int sessions = known == known_.end() ? -1 : known->second;
  const bool given_up = bundle.step <= given_up_[rank];
  waiting_.push_back({rank, std::move(bundle), now});
  const Place place = std::prev(waiting_.end());
  if (sessions < 0 || given_up) return kPython;
  Team* const team = TeamOf(sessions, place->bundle);
  if (team == nullptr) return kPython;
  std::deque<Place>& of_rank = team->of_ranks[rank];
  team->missing -= of_rank.empty();
  team->waiting += 1;
  of_rank.push_back(place);
  if (team->missing > 0) return kWaits;
  for (const auto& one : team->of_ranks) {
    if (one.front()->bundle.width != place->bundle.width) return kPython;
  }
  Decide(team, now, word, tickets);
  return kDecided;
}

Meeting::Team* Meeting::TeamOf(int sessions, const Bundle& bundle) {
  Team* found = nullptr;
  size_t idle = 0;
  for (auto one = teams_.begin(); one != teams_.end();) {
    if (one->waiting == 0) {
      if (++idle > kIdleTeams) {
        one = teams_.erase(one);
      } else {
        ++one;
      }
      continue;
    }
    if (one->sessions == sessions) {
      // One that waits stands for all of its team.
      const Bundle& other = FirstOf(one->of_ranks)->bundle;
      if (other.ops != bundle.ops && other.ops->places != bundle.ops->places) {
        if (Overlap(*other.ops, *bundle.ops)) return nullptr;
      } else if (Equal(other.runs, bundle.runs)) {
        found = &*one;
      }
    }
    ++one;
  }
  if (found != nullptr) return found;
  const auto idler = std::find_if(teams_.begin(), teams_.end(), [](const Team& one) { return one.waiting == 0; });
  if (idler == teams_.end()) {
    teams_.push_back({sessions, 0, ranks_, std::vector<std::deque<Place>>(ranks_)});
    return &teams_.back();
  }
  idler->sessions = sessions;
  return &*idler;
}

void Meeting::Decide(Team* team, int64_t now, Word* word, std::vector<int64_t>* tickets) {
  const Bundle& first = team->of_ranks[0].front()->bundle;
  word->number = next_;
  word->count = first.ops->count;
  word->ranks = ranks_;
  word->width = first.width;
  word->ticket = first.ticket;
  word->headers.clear();
  word->headers.reserve(ranks_ * first.headers->size());
  tickets->clear();
  Past past = {next_, first.ops->names, word->count, {}};
  for (const auto& of_rank : team->of_ranks) {
    const Bundle& bundle = of_rank.front()->bundle;
    word->headers.insert(word->headers.end(), bundle.headers->begin(), bundle.headers->end());
    tickets->push_back(bundle.ticket);
    past.steps.push_back(bundle.step);
  }
  next_ += word->count;
  last_ = NameOf(past.names, word->count - 1);
  last_at_ = now;
  past_.push_back(std::move(past));
  if (past_.size() > kPastWords) {
    undone_.erase(undone_.begin(), undone_.lower_bound(past_[1].first));
    past_.pop_front();
  }
  for (auto& of_rank : team->of_ranks) {
    waiting_.erase(of_rank.front());
    of_rank.pop_front();
    team->missing += of_rank.empty();
  }
  team->waiting -= ranks_;
}

std::vector<std::pair<int, Bundle>> Meeting::TakeAll() {
  std::vector<std::pair<int, Bundle>> all;
  for (Waiting& one : waiting_) all.emplace_back(one.rank, std::move(one.bundle));
  waiting_.clear();
  teams_.clear();
  return all;
}

bool Meeting::Undo(int64_t number, std::string* name, std::vector<int64_t>* steps) {
  for (const Past& past : past_) {
    if (number < past.first || number >= past.first + past.count) continue;
    if (!undone_.insert(number).second) return false;
    *name = NameOf(past.names, number - past.first);
    *steps = past.steps;
    return true;
  }
  return false;
}

}  // namespace sok1x
