// See lane_ranks.h: what exchanges move, counted as stores/figures.py has it.
#include <numeric>

#include "lane_ranks.h"

namespace sok1x {

namespace {

constexpr int kDenseKeys = 0, kCombinedKeys = 1;  // among a lookup's inputs

}  // namespace

int64_t LaneRanks::RowBytes(const Held& held, int t, bool gradient) {
  const LookupFacts& facts = held.facts[t];
  return gradient ? GradientRowBytes(held.members[t].inputs[kGradient], facts.dim) : facts.row_bytes();
}

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

void LaneRanks::CountBatches(const Held& held, const int64_t* given) const {
  for (int t = 0; t < held.size(); ++t) {
    const int keys = held.facts[t].by_bag != 0 ? kCombinedKeys : kDenseKeys;
    const int64_t* const of = given + t * ranks();
    held.ops[t]->figures[kFigureKeys] += held.members[t].inputs[keys].elements;
    held.ops[t]->figures[kFigureDistinct] += std::accumulate(of, of + ranks(), int64_t{0});
  }
}

void LaneRanks::CountAsked(const Held& held, int t, const int64_t* given, const int64_t* taken) const {
  const bool forward = held.ops[0]->kind == kLaneForward;
  const auto others = [&](const int64_t* counts) {
    return std::accumulate(counts, counts + ranks(), int64_t{0}) - counts[rank()];
  };
  const int64_t asks = others(given), others_ask = others(taken);
  const int64_t row_bytes = RowBytes(held, t, !forward);
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
  const int64_t row_bytes = RowBytes(held, t, gathers), to_all = mine * (ranks() - 1);
  held.ops[t]->figures[kFigureSent] += row_bytes * (gathers ? to_all : others);
  held.ops[t]->figures[kFigureReceived] += row_bytes * (gathers ? others : to_all);
}

}  // namespace sok1x
