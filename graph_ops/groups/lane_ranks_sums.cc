// See lane_ranks.h: groups of bags that go by reduce_scatter, as groups/lookup_ranks_sums.py runs them.
#include <algorithm>

#include "lane_ranks.h"

namespace sok1x {

int LaneRanks::ForwardSums(Held* held, const Word& word, std::vector<uint8_t>* left) {
  const int count = held->size();
  const bool training = held->headers[1] != 0;
  LookupRun* const run = held->run.get();
  std::vector<int64_t> as_given(count), told(2 * count * ranks()), heard(told.size());
  std::vector<int64_t> numbers(count), missing(count), fresh(count);
  bool asked = false;
  for (int t = 0; t < count; ++t) {
    numbers[t] = word.number + t;
    asked = asked || held->facts[t].hashed;
  }
  int code = run->PairsCount(ranks(), as_given.data(), told.data());
  if (code == 0) code = TakeCounts(*held, 2 * count, told.data(), kAll, heard.data());
  if (code == 0) {
    code = run->PairsAsk(rank(), told.data(), heard.data(), numbers.data(), pointers_.data(), gives_.data(),
                         takes_.data());
  }
  if (code == 0) code = Exchange(*held, kAll);
  Come(*held, kStampKeys);
  if (code != 0) return code;
  CountPairs(*held, told.data(), heard.data());
  run->MaySendSooner(exchanges_.OpenFork(held->ops[0]->context != nullptr));
  code = run->PairsAnswer(training, missing.data(), fresh.data(), pointers_.data(), gives_.data(), takes_.data());
  if (code != 0) return code;
  for (int t = 0; t < count; ++t) (*left)[t] = missing[t] > 0;
  if (!asked && std::find(left->begin(), left->end(), 1) != left->end()) return run->Gone();  // as of Forward's
  code = Settle(held, fresh, &asked, left);
  if (code == 0) code = Exchange(*held, kAll, false, run->sooner());
  Come(*held, kStampRows);
  for (int t = 0; t < count && code == 0; ++t) CountSums(*held, t, &heard[(count + t) * ranks()], false);
  if (code == 0 && asked && exchanges_.AnyRankAnswer(held->members[0].name, left->data(), count) != 0) {
    code = kPythonKnows;
  }
  return code == 0 ? run->SumsTake(left->data()) : code;
}

int LaneRanks::BackwardSums(Held* held, const Word& word, std::vector<uint8_t>* left) {
  LookupRun* const run = held->run.get();
  const int width = word.width;  // before what is saved: the mark, and that all rows are known
  int code = run->GradientsSend(rank(), ranks(), width, width - 2, word.headers.data(), left->data(), pointers_.data(),
                                takes_.data());
  held->group->Ready();
  if (code == 0 && exchanges_.AllGather(held->ops[0]->context != nullptr, held->members[0].name, pointers_[0],
                                        pointers_[1], takes_.data(), pointers_[2]) != 0) {
    code = kPythonKnows;
  }
  for (int t = 0; t < held->size() && code == 0; ++t) {
    if (!(*left)[t]) CountSums(*held, t, run->BagsOfRanks(t), true);
  }
  Come(*held, kStampRows);
  return code == 0 ? run->GradientsTake() : code;
}

}  // namespace sok1x
