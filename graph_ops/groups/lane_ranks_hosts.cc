// See lane_ranks.h: what is different of a group whose exchanges go by hosts, as groups/lookup_hosts.py does it.
#include "lane_ranks.h"

namespace sok1x {

int LaneRanks::AskNear(Held* held, std::vector<int64_t>* given, std::vector<int64_t>* taken,
                       std::vector<int64_t>* sent, std::vector<int64_t>* begins) {
  const int count = held->size(), ranks = this->ranks();
  LookupRun* const run = held->run.get();
  int code = run->NearAsk(ranks, given->data(), taken->data(), sent->data(), begins->data(), true, pointers_.data(),
                          gives_.data(), takes_.data());
  if (code == 0) code = Exchange(*held, kInside);
  if (code == 0) code = run->NearRelay(given->data(), begins->data(), sent->data());
  if (code == 0) code = TakeCounts(*held, count, given->data(), kAcross, taken->data());
  for (int t = 0; t < count && code == 0; ++t) CountAsked(*held, t, &(*given)[t * ranks], &(*taken)[t * ranks]);
  return code;
}

int LaneRanks::SumNear(Held* held) {
  const int code = held->run->NearSum(pointers_.data(), gives_.data(), takes_.data());
  if (code != 0) return code;
  for (int t = 0; t < held->size(); ++t) {
    const int64_t* const counts = held->run->Counted(t) + 2 * ranks();
    CountAsked(*held, t, counts, counts + ranks());
  }
  return Exchange(*held, kAcross);
}

}  // namespace sok1x
