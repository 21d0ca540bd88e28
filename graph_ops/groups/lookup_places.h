// Where lookups and their gradients have what among their inputs and outputs.
#ifndef SOK1X_GROUPS_LOOKUP_PLACES_H
#define SOK1X_GROUPS_LOOKUP_PLACES_H

#include <cstdint>

namespace sok1x {

// Where a lookup's keys stand among its inputs, and what it leaves among its outputs (operations/dense_lookup.py,
// operations/combined_lookup.py); embeddings are the first, `counts` are behind them. Its gradient has the same as
// inputs, in the same places.
struct Places {
  int keys, inverse, offsets, rows, requested, all_offsets, relayed;
};

// Of a lookup by bag, the other inputs: indices or row splits, weights if there are any, and behind them the dense
// shape of indices. What a lookup with weights leaves besides; of its gradient the first alone is an input, too.
constexpr int kIndices = 0, kWeights = 2, kDenseShape = 2;
constexpr int kScales = 7, kOrder = 8, kKept = 9;
constexpr int kEmbeddings = 0, kGradient = 0;

// Numbers of a header, as devices.mark and exchanges/lookup.py make it; the last are the keys for each rank. The flag
// says whether a lookup trains.
enum Header { kMark, kFlag, kBags, kKeys, kDistinct };

// What travels by reduce_scatter: a key, and the number of its bag among all ranks'.
constexpr int64_t kPairBytes = 16;

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LOOKUP_PLACES_H
