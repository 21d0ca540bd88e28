// Which rows have the lowest scores, among those that may leave: by a radix select, whose passes each read all scores
// once, and a last pass that lists the rows in order. Equal scores go by the row's number, so nothing is left to chance.
#include "scan.cuh"

// Bits of a digit, as in lowest_scores.py.
#define SCORE_BITS 11
#define SCORE_DIGITS (1 << SCORE_BITS)

// Scores are from 0 to this.
static const i64 SCORE_MOST = ((i64)1 << 62) - 1;

// A row may leave where it is in use, nobody has asked for it since `oldest`, and its score is `most` at most.
SOK_DEVICE bool may_leave(const i64* scores, const i64* used, i64 row, i64 oldest, i64 most) {
  const i64 at = used[row];
  return at >= 0 && at < oldest && scores[row] <= most;
}

// found[0] grows by the rows that may leave; found[1] becomes their highest score, found[2] SCORE_MOST minus the lowest.
SOK_KERNEL sok1x_score_range(const i64* SOK_RESTRICT scores, const i64* SOK_RESTRICT used, i64 n, i64 oldest, i64 most,
                             i64* found) {
#ifdef __CUDACC__
  i64 count = 0, highest = 0, lowest = 0;
  SOK_PARALLEL_FOR(row, n, 16) {
    if (may_leave(scores, used, row, oldest, most)) {
      ++count;
      highest = max(highest, scores[row]);
      lowest = max(lowest, SCORE_MOST - scores[row]);
    }
  };
  for (int step = 16; step; step >>= 1) {
    count += __shfl_xor_sync(0xffffffffu, count, step);
    highest = max(highest, __shfl_xor_sync(0xffffffffu, highest, step));
    lowest = max(lowest, __shfl_xor_sync(0xffffffffu, lowest, step));
  }
  if ((threadIdx.x & 31) == 0 && count) {
    atomic_add(found, count);
    atomic_max(found + 1, highest);
    atomic_max(found + 2, lowest);
  }
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 16) {
    i64 count = 0, highest = 0, lowest = 0;
    for (i64 row = begin; row < end; ++row) {
      if (!may_leave(scores, used, row, oldest, most)) continue;
      ++count;
      highest = std::max(highest, scores[row]);
      lowest = std::max(lowest, SCORE_MOST - scores[row]);
    }
    if (count) {
      atomic_add(found, count);
      atomic_max(found + 1, highest);
      atomic_max(found + 2, lowest);
    }
  };
#endif
}

// digits[d] grows by the rows that may leave whose score minus `base` is `prefix` above the digit at `shift`, and has
// d there.
SOK_KERNEL sok1x_count_digits(const i64* SOK_RESTRICT scores, const i64* SOK_RESTRICT used, i64 n, i64 oldest, i64 most,
                              i64 base, i64 prefix, i32 shift, i64* digits) {
#ifdef __CUDACC__
  __shared__ u32 counted[SCORE_DIGITS];
  for (int d = threadIdx.x; d < SCORE_DIGITS; d += blockDim.x) counted[d] = 0;
  __syncthreads();
  SOK_PARALLEL_FOR(row, n, 16) {
    const i64 above = (scores[row] - base) >> shift;
    if (above >> SCORE_BITS == prefix && may_leave(scores, used, row, oldest, most)) {
      atomicAdd(counted + (above & (SCORE_DIGITS - 1)), 1u);
    }
  };
  __syncthreads();
  for (int d = threadIdx.x; d < SCORE_DIGITS; d += blockDim.x) {
    if (counted[d]) atomic_add(digits + d, counted[d]);
  }
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 16) {
    i64 counted[SCORE_DIGITS] = {0};
    for (i64 row = begin; row < end; ++row) {
      const i64 above = (scores[row] - base) >> shift;
      if (above >> SCORE_BITS == prefix && may_leave(scores, used, row, oldest, most)) {
        ++counted[above & (SCORE_DIGITS - 1)];
      }
    }
    for (int d = 0; d < SCORE_DIGITS; ++d) {
      if (counted[d]) atomic_add(digits + d, counted[d]);
    }
  };
#endif
}

#ifndef __CUDACC__
// Of the rows that may leave those with a score below `below`, and the first `ties` of those whose score it is, in order.
SOK_KERNEL sok1x_list_lowest(const i64* scores, const i64* used, i64 n, i64 oldest, i64 most, i64 below, i64 ties,
                             i32* rows, u64*) {
  i64 found = 0;
  for (i64 row = 0; row < n; ++row) {
    if (scores[row] > below || !may_leave(scores, used, row, oldest, most)) continue;
    if (scores[row] == below && ties-- <= 0) continue;
    rows[found++] = (i32)row;
  }
}
#else
SOK_KERNEL sok1x_list_lowest(const i64* SOK_RESTRICT scores, const i64* SOK_RESTRICT used, i64 n, i64 oldest, i64 most,
                             i64 below, i64 ties, i32* SOK_RESTRICT rows, u64* state) {
  // Two counts in one scan: rows below in the low 31 bits, rows that tie above them.
  const u32 a_tie = 1u << 31;
  scan_items(
      n, state,
      [=](i64 row) {
        if (scores[row] > below || !may_leave(scores, used, row, oldest, most)) return 0u;
        return scores[row] == below ? a_tie : 1u;
      },
      [=](i64 row, u64 before, u32 what) {
        const i64 tied = (i64)(before >> 31), lower = (i64)(before & (a_tie - 1));
        if (what == 1u || (what == a_tie && tied < ties)) rows[lower + (tied < ties ? tied : ties)] = (i32)row;
      },
      [](u64) {});
}
#endif
