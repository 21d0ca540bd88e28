// See lane_ranks.h: what is different of a group whose exchanges go by hosts, as groups/lookup_hosts.py does it.
#include <algorithm>

#include "lane_ranks.h"

namespace sok1x {

int LaneRanks::AskNear(Held* held, const Word& word, std::vector<int64_t>* headers, std::vector<int64_t>* sent,
                       std::vector<int64_t>* begins) {
  const int count = held->size(), ranks = this->ranks();
  std::vector<int64_t> given(count * ranks), taken(count * ranks);
  for (int t = 0; t < count; ++t) {
    for (int r = 0; r < ranks; ++r) {
      const auto goes = [&](int from, int to) {
        return word.headers[(t * ranks + from + 1) * word.width - ranks + to];
      };
      given[t * ranks + r] = goes(rank(), r);
      taken[t * ranks + r] = goes(r, rank());
    }
  }
  LookupRun* const run = held->run.get();
  int code = run->NearAsk(ranks, given.data(), taken.data(), sent->data(), begins->data(), true, pointers_.data(),
                          gives_.data(), takes_.data());
  if (code == 0) code = Exchange(*held, kInside);
  if (code == 0) code = run->NearRelay(given.data(), begins->data(), sent->data());
  if (code == 0) code = TakeCounts(*held, count, given.data(), kAcross, taken.data());
  if (code != 0) return code;
  headers->assign(count * ranks * ranks, 0);
  for (int t = 0; t < count; ++t) {
    int64_t* const of = &(*headers)[t * ranks * ranks];
    for (int r = 0; r < ranks; ++r) {
      of[r * ranks + rank()] = taken[t * ranks + r];
      of[rank() * ranks + r] = given[t * ranks + r];
    }
    CountFar(*held, t, &given[t * ranks], &taken[t * ranks], true);
  }
  return 0;
}

int LaneRanks::SumNear(Held* held) {
  const int code = held->run->NearSum(pointers_.data(), gives_.data(), takes_.data());
  if (code != 0) return code;
  for (int t = 0; t < held->size(); ++t) {
    const int64_t* const counts = held->run->Counted(t) + 2 * ranks();
    CountFar(*held, t, counts, counts + ranks(), false);
  }
  return Exchange(*held, kAcross);
}

}  // namespace sok1x
