// See lane_ranks.h: how groups run that have been decided, as groups/lookup_ranks.py and lookup_ranks_backward.py do
// it.
#include <algorithm>

#include "../bridge/bridge_calls.h"
#include "choice.h"
#include "lane_ranks.h"

namespace sok1x {

namespace {

constexpr int kWish = kBags;  // where they are short
constexpr int kExchange = 2;  // of a gradient of bags: how the lookup has gone
constexpr int64_t kOnGpu = 1;  // the mark's first bit; the others say when an op was ready, while there is a timeline

}  // namespace

int64_t LaneRanks::ExchangeOf(const Held& held, int t, const Word& word) const {
  if (held.facts[t].exchange != kChooses || held.headers[kFlag] == 0) {
    return held.facts[t].exchange == kReduceScatter ? kReduceScatter : kAll2All;
  }
  int64_t bags = 0, keys = 0, distinct = 0, wishes = 0;
  for (int r = 0; r < ranks(); ++r) {
    const int64_t* header = &word.headers[(r * held.size() + t) * word.width];
    if (standing_->short_headers) {
      if (header[kWish] == kNoChoice) return kAll2All;
      wishes += header[kWish] != 0;
      continue;
    }
    if (header[kDistinct] < 0) return kAll2All;
    bags += header[kBags];
    keys += header[kKeys];
    distinct += header[kDistinct];
  }
  // exchanges/choice.py: unanimous, choose. What evaluates goes by all2all.
  if (standing_->short_headers) return wishes == 0 ? kAll2All : wishes == ranks() ? kReduceScatter : -1;
  return Surplus(held.facts[t], ranks(), bags, keys, distinct) > 0 ? kReduceScatter : kAll2All;
}

bool LaneRanks::Usual(Held* group, const Word& word) const {
  const Held& held = *group;
  const LaneOp& first = *held.ops[0];
  const int count = held.size();
  if (word.count != count || word.ranks != ranks() || word.width != held.width) return false;
  const bool by_bag = first.facts.by_bag != 0, backward = first.kind == kLaneBackward;
  if (first.kind == kLaneSums) {  // as many numbers on all ranks, on devices of one kind
    for (int r = 0; r < ranks(); ++r) {
      const int64_t* header = &word.headers[r * word.width];
      if ((header[kMark] & kOnGpu) != (held.headers[kMark] & kOnGpu) ||
          !std::equal(header + 1, header + word.width, held.headers.begin() + 1)) {
        return false;
      }
    }
    return true;
  }
  for (int t = 0; t < count; ++t) {
    for (int r = 0; r < ranks(); ++r) {
      const int64_t* header = &word.headers[(r * count + t) * word.width];
      // Devices of one kind; all train, or none does; all know that there are rows.
      if ((header[kMark] & kOnGpu) != (held.headers[kMark] & kOnGpu)) return false;
      if (header[kFlag] != held.headers[kFlag]) return false;
      if (by_bag && backward && header[kExchange] != held.by) return false;
    }
  }
  if (!by_bag || backward) return true;
  std::vector<int64_t> by(count);
  for (int t = 0; t < count; ++t) {
    by[t] = ExchangeOf(held, t, word);
    if (held.headers[kFlag] != 0 && by[t] >= 0) held.ops[t]->went = by[t];  // as combined_lookup.py does
  }
  group->by = by[0];
  return by[0] >= 0 && std::count(by.begin(), by.end(), by[0]) == count;
}

void LaneRanks::Run(Held* held, const Word& word) {
  const int count = held->size();
  const LaneOp& first = *held->ops[0];
  const bool gpu = first.context != nullptr;
  bool ends_later = false;
  // Member after member.
  Word turned = word;
  for (int t = 0; t < count; ++t) {
    for (int r = 0; r < ranks(); ++r) {
      const int64_t* from = &word.headers[(r * count + t) * word.width];
      std::copy(from, from + word.width, &turned.headers[(t * ranks() + r) * word.width]);
    }
  }
  std::vector<uint8_t> left(count, 0);
  std::string error;
  int code = EnterContext(first, &error);
  if (code == 0) {
    const bool forward = first.kind == kLaneForward;
    Met(*held, turned);
    if (first.kind == kLaneSums) {
      code = Sums(held, &left);
    } else if (held->by == kReduceScatter) {
      code = forward ? ForwardSums(held, turned, &left) : BackwardSums(held, turned, &left);
    } else {
      code = forward ? Forward(held, turned, &left) : Backward(held, turned, &left);
    }
    ends_later = code == 0 && exchanges_.MayEndLater(gpu);
    if (code == 0 && !ends_later && exchanges_.Ended(gpu) != 0) code = kPythonKnows;
    if (code > 0) {
      const int failed = held->run->failed();
      error = (failed < 0 ? "" : std::string("op '") + held->members[failed].name + "': ") + held->run->error();
    }
  }
  const bool fails = code != 0;
  if (fails) std::fill(left.begin(), left.end(), 1);
  const int64_t leaves = std::count(left.begin(), left.end(), 1);
  if (watcher_ != nullptr) watcher_(held->alike, count, leaves);
  if (leaves == 0) {
    held->group->Finish();
  } else {
    held->group->Unlock();
    Event event;
    event.kind = fails ? kFailed : kLeft;
    event.code = code == kPythonKnows ? -1 : code;
    event.data = error;
    event.width = word.width;
    for (int t = 0; t < count; ++t) {
      if (!left[t]) {
        static_cast<Request*>(held->members[t].request)->Finish(tf::Status());
        continue;
      }
      event.requests.push_back(held->members[t]);
      event.numbers.push_back(word.number + t);
      const auto from = turned.headers.begin() + t * ranks() * word.width;
      event.headers.insert(event.headers.end(), from, from + ranks() * word.width);
    }
    events_.push_back(std::move(event));
  }
  if (ends_later) exchanges_.Ended(gpu);
  if (watcher_ != nullptr) watcher_(0, 0, 0);
}

int LaneRanks::Exchange(const Held& held, Among among, bool own_there, const Fork* fork) {
  held.group->Ready();
  return exchanges_.AllToAll(held.ops[0]->context != nullptr, held.members[0].name, pointers_[0], gives_.data(),
                             pointers_[1], takes_.data(), pointers_[2], among, own_there, fork) == 0 ? 0 : kPythonKnows;
}

void LaneRanks::Come(const Held& held, Stamp stamp) {
  for (const RequestInfo& member : held.members) static_cast<Request*>(member.request)->Come(stamp);
}

int LaneRanks::TakeCounts(const Held& held, int count, const int64_t* given, Among among, int64_t* taken) {
  const int ranks = this->ranks();
  const auto meets = [&](int r) {
    return among == kAll || (among == kInside ? r / standing_->local == rank() / standing_->local
                                              : r % standing_->local == rank() % standing_->local);
  };
  std::vector<int64_t> gives, takes(ranks * count), each(ranks);  // member after member of each rank that it meets
  for (int r = 0; r < ranks; ++r) {
    if (!meets(r)) continue;
    each[r] = count;
    for (int t = 0; t < count; ++t) gives.push_back(given[t * ranks + r]);
  }
  if (exchanges_.AllToAll(false, held.members[0].name, reinterpret_cast<int64_t>(gives.data()), each.data(),
                          reinterpret_cast<int64_t>(takes.data()), each.data(), 8, among, false) != 0) {
    return kPythonKnows;
  }
  std::fill(taken, taken + count * ranks, 0);
  auto from = takes.begin();
  for (int r = 0; r < ranks; ++r) {
    for (int t = 0; t < count && meets(r); ++t) taken[t * ranks + r] = *from++;
  }
  return 0;
}

int LaneRanks::CountKeys(const Held& held, const Word& word, std::vector<int64_t>* given,
                         std::vector<int64_t>* taken) {
  const int count = held.size(), ranks = this->ranks();
  given->resize(count * ranks);
  taken->resize(count * ranks);
  for (int t = 0; t < count; ++t) {
    const int64_t* const own = &held.whole[(t + 1) * held.whole_width - ranks];
    std::copy(own, own + ranks, &(*given)[t * ranks]);
  }
  if (standing_->short_headers) {  // exchanges/lookup.py: counts_for_this_rank
    return TakeCounts(held, count, given->data(), held.facts[0].by_hosts() ? kInside : kAll, taken->data());
  }
  for (int i = 0; i < count * ranks; ++i) (*taken)[i] = word.headers[(i + 1) * word.width - ranks + rank()];
  return 0;
}

int LaneRanks::Insert(Held* held, const std::vector<uint8_t>& left) {
  const int count = held->size();
  std::vector<NewRows> rows(count);
  for (int t = 0; t < count; ++t) rows[t] = StepOfNew(*held->ops[t], held->members[t].step);
  return held->run->ForwardInsert(rows.data(), left.data());
}

int LaneRanks::Forward(Held* held, const Word& word, std::vector<uint8_t>* left) {
  const int count = held->size();
  const bool training = held->headers[kFlag] != 0;
  const char* const op = held->members[0].name;
  LookupRun* const run = held->run.get();
  std::vector<int64_t> numbers(count), sent(count, held->sent), missing(count), fresh(count);
  bool hashed = false, begins = true;
  for (int t = 0; t < count; ++t) {
    numbers[t] = word.number + t;
    hashed = hashed || held->facts[t].hashed;
    begins = begins && !(held->facts[t].hashed && held->facts[t].kind < 0);
  }
  const bool by_hosts = held->facts[0].by_hosts();
  const Among owners = by_hosts ? kAcross : kAll;
  const bool own_there = KeepsOwn(*held);
  if (own_there) {
    run->OwnIsThere();
    run->MaySendSooner(exchanges_.OpenFork(held->ops[0]->context != nullptr));
  }
  std::vector<int64_t> given, taken, begins_of = held->begins;
  int code = CountKeys(*held, word, &given, &taken);
  if (code != 0) return code;
  CountBatches(*held, given.data());
  for (int t = 0; t < count; ++t) CountAsked(*held, t, &given[t * ranks()], &taken[t * ranks()]);
  if (by_hosts) code = AskNear(held, &given, &taken, &sent, &begins_of);
  if (code == 0) {
    code = run->ForwardAsk(rank(), ranks(), given.data(), taken.data(), numbers.data(), sent.data(), begins_of.data(),
                           true, pointers_.data(), gives_.data(), takes_.data());
  }
  if (code == 0) code = Exchange(*held, owners);
  Come(*held, kStampKeys);
  if (code == 0) {
    code = run->ForwardAnswer(training, missing.data(), fresh.data(), pointers_.data(), gives_.data(), takes_.data());
  }
  if (code != 0) return code;
  for (int t = 0; t < count; ++t) (*left)[t] = missing[t] > 0;
  const bool leaves = std::find(left->begin(), left->end(), 1) != left->end();
  if (!training && begins && leaves) return run->Gone();
  // No rank waits for others here but one that inserts keys: before that, none may have a full shard.
  bool asked = hashed && (training || !begins);
  code = Settle(held, fresh, &asked, left);
  if (code == 0) code = Exchange(*held, owners, own_there, run->sooner());
  if (code == 0 && by_hosts) {
    code = run->NearAnswer(pointers_.data(), gives_.data(), takes_.data());
    if (code == 0) code = Exchange(*held, kInside);
  }
  Come(*held, kStampRows);
  if (code == 0 && asked && exchanges_.AnyRankAnswer(op, left->data(), count) != 0) code = kPythonKnows;
  return code == 0 ? run->ForwardTake(left->data()) : code;
}

int LaneRanks::Settle(Held* held, const std::vector<int64_t>& fresh, bool* asked, std::vector<uint8_t>* left) {
  const char* const op = held->members[0].name;
  if (*asked && exchanges_.AnyRank(op, left->data(), left->size()) != 0) return kPythonKnows;
  if (std::find_if(fresh.begin(), fresh.end(), [](int64_t n) { return n > 0; }) == fresh.end()) return 0;
  *asked = false;
  return exchanges_.AnyRankAnswer(op, left->data(), left->size()) != 0 ? kPythonKnows : Insert(held, *left);
}

int LaneRanks::Backward(Held* held, const Word& word, std::vector<uint8_t>* left) {
  const bool by_hosts = held->facts[0].by_hosts();
  const bool own_there = KeepsOwn(*held);
  if (own_there) held->run->OwnIsThere();
  int code = held->run->BackwardSend(rank(), ranks(), word.width, word.headers.data(), standing_->short_headers == 0,
                                     left->data(), pointers_.data(), gives_.data(), takes_.data());
  for (int t = 0; t < held->size() && code == 0; ++t) {
    CountAsked(*held, t, held->run->Counted(t), held->run->Counted(t) + ranks());
  }
  if (code == 0) code = Exchange(*held, by_hosts ? kInside : kAll, own_there);
  if (code == 0 && by_hosts) code = SumNear(held);
  Come(*held, kStampRows);
  return code == 0 ? held->run->BackwardTake() : code;
}

}  // namespace sok1x
