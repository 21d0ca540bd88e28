// Which rows have the lowest scores, among those that may leave: by a radix select, whose passes each read all scores
// once, and a last pass that lists the rows in order. Equal scores go by the row's number, so nothing is left to
// chance.
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

#ifndef __CUDACC__
// Whether a row may leave is as good as random, so on the host nothing jumps by it. All bits are set where it may, else
// none.
SOK_DEVICE i64 leaving_mask(i64 score, i64 at, i64 oldest, i64 most) {
  return -(i64)((at >= 0) & (at < oldest) & (score <= most));
}

struct ScoreRange {
  i64 count, highest, lowest;
};

SOK_VECTORS static ScoreRange range_of(const i64* scores, const i64* used, i64 begin, i64 end, i64 oldest, i64 most) {
  i64 count = 0, highest = 0, lowest = 0;
  for (i64 row = begin; row < end; ++row) {
    const i64 leaves = leaving_mask(scores[row], used[row], oldest, most);
    count -= leaves;
    highest = std::max(highest, scores[row] & leaves);
    lowest = std::max(lowest, (SCORE_MOST - scores[row]) & leaves);
  }
  return {count, highest, lowest};
}

// The digit of each row that count_digits counts, of others SCORE_DIGITS.
static const i64 SCORE_ROWS = 256;

SOK_VECTORS static void digits_of(const i64* scores, const i64* used, i64 n, i64 oldest, i64 most, i64 base,
                                  i64 prefix, i32 shift, i32* places) {
  // From `first` to `last` are the scores whose upper digits are these; there is none below base.
  const i64 first = prefix << SCORE_BITS, last = first + SCORE_DIGITS - 1;
  for (i64 i = 0; i < n; ++i) {
    const i64 above = (i64)((u64)(scores[i] - base) >> shift);
    const i64 counts = leaving_mask(scores[i], used[i], oldest, most) & -(i64)((above >= first) & (above <= last));
    places[i] = (i32)(SCORE_DIGITS + ((above - first - SCORE_DIGITS) & counts));
  }
}
#endif

// found[0] grows by the rows that may leave; found[1] becomes their highest score, found[2] SCORE_MOST minus the
// lowest.
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
    const ScoreRange range = range_of(scores, used, begin, end, oldest, most);
    if (range.count) {
      atomic_add(found, range.count);
      atomic_max(found + 1, range.highest);
      atomic_max(found + 2, range.lowest);
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
    // Most rows may have one digit: neighbours count in different places, so that none waits for the one before. The
    // last place is that of rows which do not count.
    u32 counted[2][SCORE_DIGITS + 1] = {};
    for (i64 first = begin; first < end; first += SCORE_ROWS) {
      i32 places[SCORE_ROWS];
      const i64 some = std::min(SCORE_ROWS, end - first);
      digits_of(scores + first, used + first, some, oldest, most, base, prefix, shift, places);
      for (i64 i = 0; i < some; ++i) ++counted[i & 1][places[i]];
    }
    for (int d = 0; d < SCORE_DIGITS; ++d) {
      const i64 sum = (i64)counted[0][d] + counted[1][d];
      if (sum) atomic_add(digits + d, sum);
    }
  };
#endif
}

#ifndef __CUDACC__
// listed[row - begin] = whether a row may leave and has a score below `below`, or this one if ties leave. Returns how
// many of the latter there are that do.
SOK_VECTORS static i64 list_below(const i64* scores, const i64* used, i64 begin, i64 end, i64 oldest, i64 most,
                                  i64 below, bool ties, uint8_t* listed) {
  const i64 highest = std::min(most, ties ? below : below - 1);
  i64 tied = 0;
  for (i64 row = begin; row < end; ++row) {
    const i64 leaves = leaving_mask(scores[row], used[row], oldest, highest);
    tied -= leaves & -(i64)(scores[row] == below);
    listed[row - begin] = leaves & 1;
  }
  return tied;
}

// Of the rows that may leave those with a score below `below`, and the first `ties` of those whose score it is, in
// order.
SOK_KERNEL sok1x_list_lowest(const i64* scores, const i64* used, i64 n, i64 oldest, i64 most, i64 below, i64 ties,
                             i32* rows, u64*) {
  i64 found = 0;
  list_items(
      n,
      // Ties are counted some rows at a time: where there may be more of them than are to be listed, row by row.
      [=, &ties](i64 begin, i64 end, uint8_t* listed) {
        if (ties > 0 && ties < end - begin) {
          for (i64 row = begin; row < end; ++row) {
            const bool tie = scores[row] == below && ties > 0;
            listed[row - begin] = may_leave(scores, used, row, oldest, most) && (scores[row] < below || tie);
            ties -= tie && listed[row - begin];
          }
        } else {
          ties -= list_below(scores, used, begin, end, oldest, most, below, ties > 0, listed);
        }
      },
      [=, &found](const i32* some, i64 count) {
        memcpy(rows + found, some, sizeof *some * count);
        found += count;
      });
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
