// See meeting.h.
#include "meeting.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace sok1x {

namespace {

constexpr size_t kMostSessions = 1000, kPastWords = 100, kPlaceBytes = 16;

std::vector<int64_t> IndicesOf(const Ops& ops) {
  std::vector<int64_t> indices(ops.count);
  for (int64_t t = 0; t < ops.count; ++t) std::memcpy(&indices[t], ops.places.data() + kPlaceBytes * t, 8);
  std::sort(indices.begin(), indices.end());
  return indices;
}

// Whether two bundles have ops in common.
bool Overlap(const Ops& one, const Ops& other) {
  const std::vector<int64_t> a = IndicesOf(one), b = IndicesOf(other);
  std::vector<int64_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return !common.empty();
}

std::string NameOf(const std::string& names, int64_t number) {
  size_t at = 0;
  for (; number > 0; --number) at = names.find('\0', at) + 1;
  return names.substr(at, names.find('\0', at) - at);
}

}  // namespace

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

Meeting::Outcome Meeting::Add(int rank, const Bundle& bundle, int64_t now, std::vector<Word>* words) {
  const auto known = known_.find(Key(rank, bundle.ops.context, bundle.ops.signature));
  const int sessions = known == known_.end() ? -1 : known->second;
  waiting_.push_back({rank, bundle, sessions, now});
  if (sessions < 0 || bundle.step <= given_up_[rank]) return kPython;
  std::vector<std::list<Waiting>::iterator> met(ranks_, waiting_.end());
  for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
    if (one->sessions != sessions) continue;
    if (one->bundle.ops.places != bundle.ops.places) {
      if (Overlap(one->bundle.ops, bundle.ops)) return kPython;
    } else if (met[one->rank] == waiting_.end() && one->bundle.runs == bundle.runs) {
      met[one->rank] = one;
    }
  }
  if (std::find(met.begin(), met.end(), waiting_.end()) != met.end()) return kWaits;
  for (const auto& one : met) {
    if (one->bundle.width != bundle.width) return kPython;
  }
  Decide(met, now, words);
  return kDecided;
}

void Meeting::Decide(const std::vector<std::list<Waiting>::iterator>& met, int64_t now, std::vector<Word>* words) {
  const Bundle& first = met[0]->bundle;
  Word word;
  word.number = next_;
  word.count = first.ops.count;
  word.ranks = ranks_;
  word.width = first.width;
  Past past = {next_, first.ops.names, word.count, {}};
  for (const auto& one : met) {
    word.headers.insert(word.headers.end(), one->bundle.headers.begin(), one->bundle.headers.end());
    past.steps.push_back(one->bundle.step);
  }
  words->assign(ranks_, word);
  for (int r = 0; r < ranks_; ++r) (*words)[r].ticket = met[r]->bundle.ticket;
  next_ += word.count;
  last_ = NameOf(first.ops.names, word.count - 1);
  last_at_ = now;
  past_.push_back(past);
  if (past_.size() > kPastWords) {
    undone_.erase(undone_.begin(), undone_.lower_bound(past_[1].first));
    past_.pop_front();
  }
  for (const auto& one : met) waiting_.erase(one);
}

std::vector<std::pair<int, Bundle>> Meeting::TakeAll() {
  std::vector<std::pair<int, Bundle>> all;
  for (Waiting& one : waiting_) all.emplace_back(one.rank, std::move(one.bundle));
  waiting_.clear();
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
