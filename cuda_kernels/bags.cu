// Facts about a batch's bags (the slots of its samples), which `offsets` [n_bags + 1] delimit.
#include "bags.cuh"

// The bag of each key, counted from `first`: out[k] = first + b for offsets[b] <= k < offsets[b + 1].
SOK_KERNEL sok1x_bags_of_keys(const i64* offsets, i64 n_bags, i64 first, i64* out) {
  SOK_PARALLEL_FOR(b, n_bags, 48) {
    for (i64 k = offsets[b]; k < offsets[b + 1]; ++k) out[k] = first + b;
  };
}

// *longest, 0 before, becomes the length_of_bag of the first of the longest bags.
// There are fewer than 2^31 keys and fewer than 2^32 bags.
SOK_KERNEL sok1x_longest_bag(const i64* offsets, i64 n_bags, i64* longest) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(b, n_bags, 8) {
    i64 mine = length_of_bag(offsets, b);
    const u32 here = __activemask();
    if (here == 0xffffffffu) {
      for (int step = 16; step; step >>= 1) {
        const i64 other = __shfl_xor_sync(here, mine, step);
        mine = other > mine ? other : mine;
      }
      if ((threadIdx.x & 31) == 0) atomic_max(longest, mine);
    } else {
      atomic_max(longest, mine);
    }
  };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n_bags, 8) {
    i64 most = 0;
    for (i64 b = begin; b < end; ++b) most = std::max(most, length_of_bag(offsets, b));
    atomic_max(longest, most);
  };
#endif
}
