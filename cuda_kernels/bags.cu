// Facts about a batch's bags (the slots of its samples), which `offsets` [n_bags + 1] delimit.
#include "common.cuh"

// The bag of each key, counted from `first`: out[k] = first + b for offsets[b] <= k < offsets[b + 1].
SOK_KERNEL sok1x_bags_of_keys(const i64* offsets, i64 n_bags, i64 first, i64* out) {
  SOK_PARALLEL_FOR(b, n_bags, 48) {
    for (i64 k = offsets[b]; k < offsets[b + 1]; ++k) out[k] = first + b;
  };
}

#ifndef __CUDACC__
// Host form only: one pass. A GPU needs a reduction.

// The number of keys in the longest bag; the first such bag's number goes into *bag.
SOK_EXPORT i64 sok1x_longest_bag(const i64* offsets, i64 n_bags, i64* bag) {
  i64 longest = 0;
  *bag = 0;
  for (i64 b = 0; b < n_bags; ++b) {
    if (offsets[b + 1] - offsets[b] > longest) {
      longest = offsets[b + 1] - offsets[b];
      *bag = b;
    }
  }
  return longest;
}
#endif
