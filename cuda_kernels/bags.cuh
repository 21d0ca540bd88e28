// What is said of bags (the slots of a batch's samples) for one table and for a group of them.
#ifndef SOK1X_BAGS_CUH
#define SOK1X_BAGS_CUH
#include "common.cuh"
#include "group_members.h"

// Offsets of sorted bags: item i, of n, starts every bag after item i-1's up to its own; item n ends all the rest.
// *outside, 0 before, becomes n minus the first item out of [0, n_bags); *unsorted likewise for the first that is
// below its predecessor. Where one of them is not 0, offsets are not to be used.
SOK_DEVICE void start_bags(const i64* SOK_RESTRICT bags, i64 stride, i64 n, i64 n_bags, i64 i,
                           i64* SOK_RESTRICT offsets, i64* outside, i64* unsorted) {
  const i64 bag = i < n ? bags[i * stride] : n_bags;
  const i64 previous = i > 0 ? bags[(i - 1) * stride] : -1;
  if (i < n && (bag < 0 || bag >= n_bags)) {
    atomic_max(outside, n - i);
  } else if (previous > bag) {
    atomic_max(unsorted, n - i);
  } else if (previous >= -1) {
    for (i64 b = previous + 1; b <= bag; ++b) offsets[b] = i;
  }
}

// Offsets that are given: i of n_bags + 1. *outside, 0 before, becomes above 0 where they do not begin at 0, end at n
// and ascend between.
SOK_DEVICE void take_splits(const i64* SOK_RESTRICT splits, i64 n, i64 n_bags, i64 i, i64* SOK_RESTRICT offsets,
                            i64* outside) {
  const i64 here = splits[i];
  if (here < (i > 0 ? splits[i - 1] : 0) || (i == 0 && here != 0) || (i == n_bags && here != n)) atomic_max(outside, 1);
  offsets[i] = here;
}

// Of a member of a group: item i, of those that it has and one more; where it has splits, of these.
SOK_DEVICE void start_item(const BagsMember& m, i64 i, i64* outside, i64* unsorted) {
  if (m.splits) {
    if (i <= m.n_bags) take_splits(m.splits, m.n, m.n_bags, i, m.offsets, outside);
  } else if (i <= m.n) {
    start_bags(m.bags, m.stride, m.n, m.n_bags, i, m.offsets, outside, unsorted);
  }
}

// A bag's number of keys, times 2^BAG_BITS, plus its number from the end: of equal lengths the first bag's is greatest.
// Splits that a user gives may be any numbers: hence unsigned ones, which wrap around.
SOK_DEVICE i64 length_of_bag(const i64* offsets, i64 b) {
  return (i64)(((u64)offsets[b + 1] - (u64)offsets[b]) << BAG_BITS) + ((((i64)1 << BAG_BITS) - 1) - b);
}

// The row of key k: rows[inverse[k]], or inverse[k] where there are no rows; negative where it has none.
SOK_DEVICE i32 row_of_key(const i32* rows, const i32* inverse, i64 k) {
  const i32 unique = inverse[k];
  return rows && unique >= 0 ? rows[unique] : unique;
}

#endif  // SOK1X_BAGS_CUH
