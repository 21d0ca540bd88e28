// Which new keys are given rows: those that have been asked for often enough, or those that are drawn.
//
// How often keys without a row have been asked for is counted in a sketch, a count-min sketch (Cormode and
// Muthukrishnan, "An improved data stream summary", 2005): four rows of W counters of 8, 16 or 32 bits, in each of
// which a key has a counter by a hash of its own; the least of the four is the key's count. It is never too low, but
// where counters are full or have been halved, and too high where other keys share all four. sketch[0] counts what has
// been counted since somebody looked how full it is, then come the rows, counter after counter, 64 / bits in a word.
#include "common.cuh"

// As in admission.py.
#define SKETCH_ROWS 4
#define RUN 64

// In place of -1, of a key that gets no row.
static const i32 REFUSED = -2;

// Where counter `row` of a key is: the 32-bit word, and how far it is shifted there.
struct Counter {
  i64 word;
  i32 shift;
};

// What a full counter of so many bits shows.
SOK_DEVICE u32 full(i32 bits) { return 0xffffffffu >> (32 - bits); }

SOK_DEVICE Counter counter_of(u64 key, i64 width, i32 bits, i32 row) {
  // Two hashes make all four (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).
  const u64 first = mix64(key + 0x9e3779b97f4a7c15ULL), second = mix64(first ^ 0xd1b54a32d192ed03ULL) | 1;
  const i64 place = (i64)((first + second * (u64)row) >> 8) & (width - 1);
  const i32 of_word = 32 / bits;
  const Counter at = {2 + (row * width + place) / of_word, (i32)(place & (of_word - 1)) * bits};
  return at;
}

// A counter is raised by one, until it is full: `most`.
SOK_DEVICE void raise(u32* word, i32 shift, u32 most) {
#ifdef __CUDACC__
  u32 seen = *(volatile u32*)word;
  while ((seen >> shift & most) != most) {
    const u32 before = atomicCAS(word, seen, seen + (1u << shift));
    if (before == seen) break;
    seen = before;
  }
#else
  u32 seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while ((seen >> shift & most) != most &&
         !__atomic_compare_exchange_n(word, &seen, seen + (1u << shift), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

// lacking[run] = how many of a run of RUN neighbouring keys have -1 in rows [n].
SOK_KERNEL sok1x_count_lacking(const i32* SOK_RESTRICT rows, i64 n, i32* SOK_RESTRICT lacking) {
  SOK_PARALLEL_FOR(run, (n + RUN - 1) / RUN, 4 * RUN) {
    const i64 end = (run + 1) * RUN < n ? (run + 1) * RUN : n;
    i32 found = 0;
    for (i64 i = run * RUN; i < end; ++i) found += rows[i] == -1;
    lacking[run] = found;
  };
}

// Counts the keys whose rows[i] is -1, distinct.
SOK_KERNEL sok1x_count_keys(i64* sketch, i64 width, i32 bits, const i64* SOK_RESTRICT keys,
                            const i32* SOK_RESTRICT rows, i64 n) {
  SOK_PARALLEL_FOR(i, n, 268) {
#ifdef __CUDACC__
    count_in_warp(sketch, rows[i] == -1);
#else
    if (rows[i] == -1) atomic_add(sketch, 1);
#endif
    for (i32 row = 0; rows[i] == -1 && row < SKETCH_ROWS; ++row) {
      const Counter at = counter_of((u64)keys[i], width, bits, row);
      raise((u32*)sketch + at.word, at.shift, full(bits));
    }
  };
}

// rows[i] = REFUSED instead of -1 where the key's count is below `least`; *refused counts them. *due = 1 where `limit`
// keys have been counted since somebody looked how full the sketch is.
SOK_KERNEL sok1x_refuse_rare(const i64* SOK_RESTRICT sketch, i64 width, i32 bits, const i64* SOK_RESTRICT keys, i64 n,
                             i32 least, i64 limit, i32* rows, i64* refused, i64* due) {
  SOK_PARALLEL_FOR(i, n, 268) {
    if (i == 0 && sketch[0] >= limit) *due = 1;
    u32 count = full(bits);
    for (i32 row = 0; rows[i] == -1 && row < SKETCH_ROWS; ++row) {
      const Counter at = counter_of((u64)keys[i], width, bits, row);
      const u32 here = ((const u32*)sketch)[at.word] >> at.shift & full(bits);
      count = here < count ? here : count;
    }
    if (rows[i] == -1 && count < (u32)least) {
      rows[i] = REFUSED;
      atomic_add(refused, 1);
    }
  };
}

// The counters of a word are added up, all at once: how many are not 0, and what they show.
SOK_DEVICE void add_counters(u64 word, i32 bits, i64* occupied, i64* total) {
  if (bits == 32) {
    const u64 low = word & 0xffffffffu, high = word >> 32;
    *occupied += (low != 0) + (high != 0);
    *total += (i64)(low + high);
    return;
  }
  // A one in each counter; all bits but the first of each; every second counter.
  const u64 ones = bits == 8 ? 0x0101010101010101ULL : 0x0001000100010001ULL, rest = (ones << (bits - 1)) - ones;
  const u64 second = bits == 8 ? 0x00ff00ff00ff00ffULL : 0x0000ffff0000ffffULL;
  // The first bit of each that is not 0, by a carry; times `ones` adds up what counters have, in the last of them.
  const u64 first = (((word & rest) + rest) | word) & (ones << (bits - 1));
  *occupied += (i64)((first >> (bits - 1)) * ones >> (64 - bits));
  const u64 pairs = (word & second) + ((word >> bits) & second);
  const u64 fours = bits == 8 ? (pairs & 0x0000ffff0000ffffULL) + ((pairs >> 16) & 0x0000ffff0000ffffULL) : pairs;
  *total += (i64)((fours & 0xffffffffu) + (fours >> 32));
}

// How full the sketch is: *occupied of its counters are not 0, and all of them together show *total.
SOK_KERNEL sok1x_look_at_counts(const i64* SOK_RESTRICT sketch, i64 words, i32 bits, i64* occupied, i64* total) {
#ifdef __CUDACC__
  i64 some = 0, shown = 0;  // a thread's
  SOK_PARALLEL_FOR(i, words, 8) { add_counters((u64)sketch[1 + i], bits, &some, &shown); };
  if (some) {
    atomic_add(occupied, some);
    atomic_add(total, shown);
  }
#else
  SOK_PARALLEL_CHUNKS(begin, end, words, 8) {
    i64 some = 0, shown = 0;
    for (i64 i = begin; i < end; ++i) add_counters((u64)sketch[1 + i], bits, &some, &shown);
    atomic_add(occupied, some);
    atomic_add(total, shown);
  };
#endif
}

SOK_KERNEL sok1x_halve_counts(i64* sketch, i64 words, i32 bits) {
  // All bits but the first of each counter, into which the last of its neighbour moves.
  const i64 low = bits == 8 ? 0x7f7f7f7f7f7f7f7fll : bits == 16 ? 0x7fff7fff7fff7fffll : 0x7fffffff7fffffffll;
  SOK_PARALLEL_FOR(i, words, 16) { sketch[1 + i] = sketch[1 + i] >> 1 & low; };
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
