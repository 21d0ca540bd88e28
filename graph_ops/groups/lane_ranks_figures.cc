// See lane_ranks.h: what exchanges move, counted as stores/figures.py has it.
#include <numeric>

#include "lane_ranks.h"

namespace sok1x {

namespace {

constexpr int kDenseKeys = 0, kCombinedKeys = 1;  // among a lookup's inputs

}  // namespace

void LaneRanks::Met(const Held& held, const Word& word) const {
  const int64_t waited = Now() - held.since;
  for (int t = 0; t < held.size(); ++t) {
    int64_t latest = 0;
    auto* request = static_cast<Request*>(held.members[t].request);
    for (int r = 0; r < ranks(); ++r) {
      const int64_t ready = word.headers[(t * ranks() + r) * word.width + kMark] >> 1;
      if (ready > latest) {
        latest = ready;
        request->last = r;
      }
    }
    request->Come(kStampAgreed);
    if (held.ops[t]->figures == nullptr) continue;  // it has no table
    held.ops[t]->figures[kFigureWaited] += waited;
    held.ops[t]->figures[kFigureExchanges] += 1;
  }
}

void LaneRanks::Count(const Held& held, const Word& word) const {
  const bool forward = held.ops[0]->kind == kLaneForward;
  for (int t = 0; t < held.size(); ++t) {
    const int64_t* const headers = &word.headers[t * ranks() * word.width];  // [N, width]
    int64_t asks = 0, others_ask = 0, mine = 0;
    for (int r = 0; r < ranks(); ++r) {
      const int64_t* const own = headers + rank() * word.width;
      // Of a lookup each rank's header ends with what it asks of each; of a gradient with that, what each asks of it,
      // and the tie.
      const int64_t ask = own[word.width - ranks() + r - (forward ? 0 : ranks() + 1)];
      (r == rank() ? mine : asks) += ask;
      if (r != rank()) {
        others_ask += forward ? headers[r * word.width + word.width - ranks() + rank()]
                              : own[word.width - ranks() + r - 1];
      }
    }
    const int64_t row_bytes = held.facts[t].dim * (held.facts[t].half ? 2 : 4);
    int64_t* const figures = held.ops[t]->figures;
    figures[kFigureSent] += forward ? 8 * asks + row_bytes * others_ask : row_bytes * asks;
    figures[kFigureReceived] += forward ? 8 * others_ask + row_bytes * asks : row_bytes * others_ask;
    if (forward) {
      const int keys = held.facts[t].by_bag != 0 ? kCombinedKeys : kDenseKeys;
      figures[kFigureKeys] += held.members[t].inputs[keys].elements;
      figures[kFigureDistinct] += asks + mine;
    }
  }
}

void LaneRanks::CountFar(const Held& held, int t, const int64_t* gives, const int64_t* takes, bool forward) const {
  int64_t asks = 0, others_ask = 0;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank()) continue;
    asks += gives[r];
    others_ask += takes[r];
  }
  const int64_t row_bytes = held.facts[t].dim * (held.facts[t].half ? 2 : 4);
  int64_t* const figures = held.ops[t]->figures;
  figures[kFigureSent] += forward ? 8 * asks + row_bytes * others_ask : row_bytes * asks;
  figures[kFigureReceived] += forward ? 8 * others_ask + row_bytes * asks : row_bytes * others_ask;
}

void LaneRanks::CountPairs(const Held& held, const int64_t* given, const int64_t* taken) const {
  for (int t = 0; t < held.size(); ++t) {
    const auto others = [&](const int64_t* counts) {
      const int64_t* const of = counts + t * ranks();
      return std::accumulate(of, of + ranks(), int64_t{0}) - of[rank()];
    };
    held.ops[t]->figures[kFigureSent] += kPairBytes * others(given);
    held.ops[t]->figures[kFigureReceived] += kPairBytes * others(taken);
  }
}

void LaneRanks::CountSums(const Held& held, int t, const int64_t* bags, bool gathers) const {
  const int64_t mine = bags[rank()], others = std::accumulate(bags, bags + ranks(), int64_t{0}) - mine;
  const bool half = gathers ? held.members[t].inputs[kGradient].dtype == tf::DT_HALF : held.facts[t].half != 0;
  const int64_t row_bytes = held.facts[t].dim * (half ? 2 : 4), to_all = mine * (ranks() - 1);
  held.ops[t]->figures[kFigureSent] += row_bytes * (gathers ? to_all : others);
  held.ops[t]->figures[kFigureReceived] += row_bytes * (gathers ? others : to_all);
}

}  // namespace sok1x
