// Which new keys are given rows: those that have been asked for often enough, or those that are drawn.
//
// How often keys without a row have been asked for is counted in a sketch, a count-min sketch (Cormode and Muthukrishnan,
// "An improved data stream summary", 2005): four rows of W counters of a byte, in each of which a key has a counter by a
// hash of its own; the least of the four is the key's count. It is never too low, but where counters are full (255) or
// have been halved, and too high where other keys share all four. Each counter is at the start of a word's bytes:
// sketch[0] counts what has been counted since counters were last halved, then come the rows, eight counters a word.
#include "common.cuh"

// As in admission.py.
#define SKETCH_ROWS 4

// In place of -1, of a key that gets no row.
static const i32 REFUSED = -2;

// Where counter `row` of a key is: the 32-bit word, and how far its byte is shifted there.
struct Counter {
  i64 word;
  i32 shift;
};

SOK_DEVICE Counter counter_of(u64 key, i64 width, i32 row) {
  // Two hashes make all four (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).
  const u64 first = mix64(key + 0x9e3779b97f4a7c15ULL), second = mix64(first ^ 0xd1b54a32d192ed03ULL) | 1;
  const i64 place = (i64)((first + second * (u64)row) >> 8) & (width - 1);
  const Counter at = {2 + (row * width + place) / 4, (i32)(place & 3) * 8};
  return at;
}

// A counter is raised by one, up to 255.
SOK_DEVICE void raise(u32* word, i32 shift) {
#ifdef __CUDACC__
  u32 seen = *(volatile u32*)word;
  while ((seen >> shift & 255u) != 255u) {
    const u32 before = atomicCAS(word, seen, seen + (1u << shift));
    if (before == seen) break;
    seen = before;
  }
#else
  u32 seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while ((seen >> shift & 255u) != 255u &&
         !__atomic_compare_exchange_n(word, &seen, seen + (1u << shift), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

// Counts the keys whose rows[i] is -1, distinct.
SOK_KERNEL sok1x_count_keys(i64* sketch, i64 width, const i64* SOK_RESTRICT keys, const i32* SOK_RESTRICT rows, i64 n) {
  SOK_PARALLEL_FOR(i, n, 268) {
#ifdef __CUDACC__
    count_in_warp(sketch, rows[i] == -1);
#else
    if (rows[i] == -1) atomic_add(sketch, 1);
#endif
    for (i32 row = 0; rows[i] == -1 && row < SKETCH_ROWS; ++row) {
      const Counter at = counter_of((u64)keys[i], width, row);
      raise((u32*)sketch + at.word, at.shift);
    }
  };
}

// rows[i] = REFUSED instead of -1 where the key's count is below `least`; *refused counts them.
SOK_KERNEL sok1x_refuse_rare(const i64* SOK_RESTRICT sketch, i64 width, const i64* SOK_RESTRICT keys, i64 n, i32 least,
                             i32* rows, i64* refused) {
  SOK_PARALLEL_FOR(i, n, 268) {
    u32 count = 255;
    for (i32 row = 0; rows[i] == -1 && row < SKETCH_ROWS; ++row) {
      const Counter at = counter_of((u64)keys[i], width, row);
      const u32 here = ((const u32*)sketch)[at.word] >> at.shift & 255u;
      count = here < count ? here : count;
    }
    if (rows[i] == -1 && count < (u32)least) {
      rows[i] = REFUSED;
      atomic_add(refused, 1);
    }
  };
}

// Halves all counters where `limit` keys have been counted; sok1x_begin_again is next.
SOK_KERNEL sok1x_halve_counts(i64* sketch, i64 words, i64 limit) {
  const i64 counted = sketch[0];
  SOK_PARALLEL_FOR(i, words, 16) {
    if (counted >= limit) sketch[1 + i] = sketch[1 + i] >> 1 & 0x7f7f7f7f7f7f7f7fll;
  };
}

SOK_KERNEL sok1x_begin_again(i64* sketch, i64 limit) {
  SOK_PARALLEL_FOR(i, 1, 8) {
    if (sketch[0] >= limit) sketch[0] = 0;
  };
}

// rows[i] = REFUSED instead of -1 where the draw of the key in the lookup of *tick is not below `ratio`: uniform in
// [0, 1), a function of seed, table, key and tick alone.
SOK_KERNEL sok1x_refuse_drawn(u64 seed, u64 table, const i64* SOK_RESTRICT keys, i64 n, const i64* SOK_RESTRICT tick,
                              double ratio, i32* rows, i64* refused) {
  SOK_PARALLEL_FOR(i, n, 24) {
    // Not what the table's initial rows are drawn from.
    const u64 stream = mix64((mix64(seed) + table) ^ 0x9e3779b97f4a7c15ULL);
    const u64 word = mix64(mix64(stream + (u64)keys[i]) + (u64)*tick);
    if (rows[i] == -1 && !((double)(i64)(word >> 11) * (1.0 / 9007199254740992.0) < ratio)) {
      rows[i] = REFUSED;
      atomic_add(refused, 1);
    }
  };
}

// rows[i] = -1 where it is REFUSED.
SOK_KERNEL sok1x_forget_refused(i32* rows, i64 n) {
  SOK_PARALLEL_FOR(i, n, 4) {
    if (rows[i] == REFUSED) rows[i] = -1;
  };
}
