// A table of which a part is in the memory of the device, the cache, and all of it in the host's: which keys of a batch
// are there, which rows of the cache the others get, and rows on their way between the two.
//
// A GPU reads and writes the host's memory itself, a row at a time, which has been pinned and mapped for it.
#include "hash_index.cuh"
#include "rows.cuh"
#include "scan.cuh"

// What homes[i] is where a key has no row in the host's memory, as in cache_rows.py: it is new, it is refused one, it
// is in the cache so that nobody has looked.
enum Home { HOME_NEW = -1, HOME_REFUSED = -2, HOME_UNKNOWN = -3 };

// In what is noted of a row of the cache beside its row in the host's memory: it has come without its optimizers'
// slots.
static const i64 LEAN = 1ll << 32;

// As sok1x_touch_rows (row_use.cu); *hits grows by the rows that this lookup is the first to ask for.
SOK_KERNEL sok1x_touch_cached(const i32* SOK_RESTRICT rows, i64 n, const i64* SOK_RESTRICT tick, i64* used,
                              i64* frequency, i64* hits) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 132) {
    const i64 row = rows[i], now = *tick;
    const bool is_first = row >= 0 && *(volatile i64*)(used + row) != now &&
                          (i64)atomicExch((u64*)(used + row), (u64)now) != now;
    if (is_first && frequency) atomic_add(frequency + row, 1);
    count_in_warp(hits, is_first);
  };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 132) {
    i64 found = 0;
    for (i64 i = begin; i < end; ++i) {
      const i64 row = rows[i], now = *tick;
      if (row < 0 || __atomic_load_n(used + row, __ATOMIC_RELAXED) == now) continue;
      if (__atomic_exchange_n(used + row, now, __ATOMIC_RELAXED) == now) continue;
      if (frequency) atomic_add(frequency + row, 1);
      ++found;
    }
    if (found) atomic_add(hits, found);
  };
#endif
}

// homes[i] = the row in the host's memory of each key that is not in the cache (rows[i] < 0), of which *absent counts
// all and *fresh those that have none there either.
SOK_KERNEL sok1x_find_homes(const i64* SOK_RESTRICT keys, i64 n, const i32* SOK_RESTRICT rows,
                            const Slot* SOK_RESTRICT every, i64 capacity, i32* SOK_RESTRICT homes, i64* absent,
                            i64* fresh) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 128) {
    const bool is_absent = rows[i] < 0;
    const i32 home = is_absent ? find_row(every, capacity, keys[i]) : HOME_UNKNOWN;
    homes[i] = home;
    count_in_warp(absent, is_absent);
    count_in_warp(fresh, home == HOME_NEW);
  };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 128) {
    i64 all = 0, without = 0;
    for (i64 i = begin; i < end; ++i) {
      if (i + INDEX_AHEAD < end && rows[i + INDEX_AHEAD] < 0) prefetch_slot(every, capacity, keys[i + INDEX_AHEAD]);
      homes[i] = rows[i] < 0 ? find_row(every, capacity, keys[i]) : (i32)HOME_UNKNOWN;
      all += rows[i] < 0;
      without += homes[i] == HOME_NEW;
    }
    if (all) atomic_add(absent, all);
    if (without) atomic_add(fresh, without);
  };
#endif
}

// Keys that are to come into the cache (homes[i] is a row, or HOME_NEW) get rows of it in order, as sok1x_give_rows
// (row_use.cu) gives them: collected in new_keys, new_rows and new_homes, and written to rows. *total counts them.
#ifndef __CUDACC__
SOK_KERNEL sok1x_give_cached(const i64* keys, i64 n, i32* rows, const i32* homes, const i64* free, i64 there,
                             i64 next_row, i64* new_keys, i32* new_rows, i32* new_homes, i64* total, u64*) {
  i64 given = 0;
  for (i64 i = 0; i < n; ++i) {
    if (homes[i] < HOME_NEW) continue;
    rows[i] = new_rows[given] = (i32)(given < there ? free[there - 1 - given] : next_row + (given - there));
    new_homes[given] = homes[i];
    new_keys[given++] = keys[i];
  }
  *total = given;
}
#else
SOK_KERNEL sok1x_give_cached(const i64* SOK_RESTRICT keys, i64 n, i32* SOK_RESTRICT rows, const i32* SOK_RESTRICT homes,
                             const i64* SOK_RESTRICT free, i64 there, i64 next_row, i64* SOK_RESTRICT new_keys,
                             i32* SOK_RESTRICT new_rows, i32* SOK_RESTRICT new_homes, i64* total, u64* state) {
  scan_items(
      n, state, [=](i64 i) { return homes[i] >= HOME_NEW ? 1u : 0u; },
      [=](i64 i, u64 before, u32 comes) {
        if (comes) {
          const i64 j = (i64)before;
          rows[i] = new_rows[j] = (i32)(j < there ? free[there - 1 - j] : next_row + (j - there));
          new_homes[j] = homes[i];
          new_keys[j] = keys[i];
        }
      },
      [=](u64 sum) { *total = (i64)sum; });
}
#endif

// out[i] = rows[i] where homes[i] is HOME_NEW, or, `known`, where it is a row; else -1.
SOK_KERNEL sok1x_pick_new(const i32* SOK_RESTRICT homes, i64 n, const i32* SOK_RESTRICT rows, i32 known,
                          i32* SOK_RESTRICT out) {
  SOK_PARALLEL_FOR(i, n, 12) { out[i] = (known ? homes[i] >= 0 : homes[i] == HOME_NEW) ? rows[i] : -1; };
}

// homes[rows[i]] = where[i], wide; LEAN where there is `lean`, and it is not negative.
SOK_KERNEL sok1x_set_homes(const i32* SOK_RESTRICT rows, const i32* SOK_RESTRICT where, i64 n,
                           const i32* SOK_RESTRICT lean, i64* SOK_RESTRICT homes) {
  SOK_PARALLEL_FOR(i, n, 20) { homes[rows[i]] = (i64)where[i] | (lean && lean[i] >= 0 ? LEAN : 0); };
}

// Of the rows of the cache that belong to keys (used[row] >= 0), `whole`: and are not lean: where[row] = homes[row];
// else -1.
SOK_KERNEL sok1x_homes_in_use(const i64* SOK_RESTRICT used, const i64* SOK_RESTRICT homes, i64 n, i32 whole,
                              i32* SOK_RESTRICT where) {
  SOK_PARALLEL_FOR(row, n, 20) {
    where[row] = used[row] < 0 || (whole && (homes[row] & LEAN)) ? -1 : (i32)homes[row];
  };
}

// where[i] = homes[rows[i]].
SOK_KERNEL sok1x_homes_of(const i32* SOK_RESTRICT rows, i64 n, const i64* SOK_RESTRICT homes, i32* SOK_RESTRICT where) {
  SOK_PARALLEL_FOR(i, n, 16) { where[i] = (i32)homes[rows[i]]; };
}

// As sok1x_homes_of, but -1 of those that are lean; *whole counts the others.
SOK_KERNEL sok1x_whole_homes_of(const i32* SOK_RESTRICT rows, i64 n, const i64* SOK_RESTRICT homes,
                                i32* SOK_RESTRICT where, i64* whole) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 16) {
    const i64 home = homes[rows[i]];
    where[i] = home & LEAN ? -1 : (i32)home;
    count_in_warp(whole, !(home & LEAN));
  };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 16) {
    i64 found = 0;
    for (i64 i = begin; i < end; ++i) {
      const i64 home = homes[rows[i]];
      where[i] = home & LEAN ? -1 : (i32)home;
      found += !(home & LEAN);
    }
    if (found) atomic_add(whole, found);
  };
#endif
}

// Of rows, or without them of the first n, those that are lean, which they are no longer then: took[i] = the row,
// where[i] = homes[row]; -1 of all others, of those that repeat one before, belong to no key, or are none of the
// cache's. *found counts them.
SOK_KERNEL sok1x_take_lean(const i32* SOK_RESTRICT rows, i64 n, i64 capacity, const i64* SOK_RESTRICT used, i64* homes,
                           i32* SOK_RESTRICT took, i32* SOK_RESTRICT where, i64* found) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 40) {
    const i64 row = rows ? (i64)rows[i] : i;
    const bool may = row >= 0 && row < capacity && used[row] >= 0 && (*(volatile i64*)(homes + row) & LEAN);
    const i64 home = may ? (i64)atomicAnd((u64*)(homes + row), ~(u64)LEAN) : 0;
    const bool is = (home & LEAN) != 0;
    took[i] = is ? (i32)row : -1;
    where[i] = is ? (i32)home : -1;
    count_in_warp(found, is);
  };
#else
  SOK_PARALLEL_CHUNKS(begin, end, n, 40) {
    i64 lean = 0;
    for (i64 i = begin; i < end; ++i) {
      const i64 row = rows ? (i64)rows[i] : i;
      const bool may = row >= 0 && row < capacity && used[row] >= 0;
      const i64 home = may ? __atomic_fetch_and(homes + row, ~LEAN, __ATOMIC_RELAXED) : 0;
      const bool is = (home & LEAN) != 0;
      took[i] = is ? (i32)row : -1;
      where[i] = is ? (i32)home : -1;
      lean += is;
    }
    if (lean) atomic_add(found, lean);
  };
#endif
}

// marks[where[i]] = mark, of those that are no -1.
SOK_KERNEL sok1x_mark_homes(const i32* SOK_RESTRICT where, i64 n, i64 mark, i64* SOK_RESTRICT marks) {
  SOK_PARALLEL_FOR(i, n, 12) {
    if (where[i] >= 0) marks[where[i]] = mark;
  };
}

// Rows to copy: to[to_rows[i]] = from[from_rows[i]] for i in [0, n), rows of `words` 32-bit words, each so many words
// behind the one before it as its stride says. Without row numbers (null) it is row i; where one is negative nothing is
// copied. Rows of `to` are distinct.
struct Moves {
  const float* from;
  const i32* from_rows;
  float* to;
  const i32* to_rows;
  i64 n, from_stride, to_stride;
};

#ifdef __CUDACC__
// Rows on their way out and in, side by side, so that both directions of the bus are in use. Nothing that one side
// writes does the other read. A team takes neighbours, and the next ones are its neighbours': where rows are in the
// order of the host's memory, those that are on their way at a time lie near each other there (cache_rows.py).
template <int W>
SOK_DEVICE void move_rows(const Moves& out, const Moves& in, i64 words) {
  const int ROWS = 4;  // as in cache_rows.py: all are asked for before the first is written
  const Team team = make_team(words);
  const i64 total = out.n + in.n, both = 2 * (out.n < in.n ? out.n : in.n);
  for (i64 first = ROWS * team.first; first < total; first += ROWS * team.stride) {
    const float* from[ROWS];
    float* to[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const i64 job = first + r;
      from[r] = nullptr;
      to[r] = nullptr;
      if (job < total) {
        const bool is_out = job < both ? (job & 1) == 0 : out.n > in.n;
        // Field by field: a struct of either kind would be copied to memory.
        const i32* const from_rows = is_out ? out.from_rows : in.from_rows;
        const i32* const to_rows = is_out ? out.to_rows : in.to_rows;
        const i64 i = job < both ? job >> 1 : job - both / 2;
        const i64 source = from_rows ? (i64)from_rows[i] : i, target = to_rows ? (i64)to_rows[i] : i;
        if (source >= 0 && target >= 0) {
          from[r] = (is_out ? out.from : in.from) + source * (is_out ? out.from_stride : in.from_stride);
          to[r] = (is_out ? out.to : in.to) + target * (is_out ? out.to_stride : in.to_stride);
        }
      }
    }
    SOK_TEAM_COLUMNS(W, team, words, c) {
      Vec<W> value[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (from[r]) value[r] = load_vec<W>(from[r] + c);
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (from[r]) store_vec<W>(to[r] + c, value[r]);
      }
    }
  }
}
#else
static void move_some(const Moves& moves, i64 words) {
  const i64 AHEAD = 16;
  SOK_PARALLEL_CHUNKS(begin, end, moves.n, words * 8) {
    for (i64 i = begin; i < end; ++i) {
      const i64 later = i + AHEAD;
      if (later < end && moves.from_rows && moves.from_rows[later] >= 0) {
        prefetch_row(moves.from + moves.from_rows[later] * moves.from_stride, words);
      }
      const i64 source = moves.from_rows ? (i64)moves.from_rows[i] : i;
      const i64 target = moves.to_rows ? (i64)moves.to_rows[i] : i;
      // As bytes: the words may be of any type.
      if (source < 0 || target < 0) continue;
      memcpy(moves.to + target * moves.to_stride, moves.from + source * moves.from_stride, 4 * words);
    }
  };
}
#endif

SOK_KERNEL sok1x_move_rows(const float* out_from, const i32* out_from_rows, float* out_to, const i32* out_to_rows,
                           i64 out_n, const float* in_from, const i32* in_from_rows, float* in_to,
                           const i32* in_to_rows, i64 in_n, i64 words) {
  const Moves out = {out_from, out_from_rows, out_to, out_to_rows, out_n, words, words};
  const Moves in = {in_from, in_from_rows, in_to, in_to_rows, in_n, words, words};
#ifdef __CUDACC__
  SOK_BY_ALIGNMENT(words, move_rows, out, in, words);
#else
  move_some(out, words);
  move_some(in, words);
#endif
}

// As sok1x_move_rows, of rows that may lie in records, with others beside them: strides say how far apart they are. The
// last argument is for who launches it.
SOK_KERNEL sok1x_move_records(const float* out_from, const i32* out_from_rows, float* out_to, const i32* out_to_rows,
                              i64 out_n, i64 out_from_stride, i64 out_to_stride, const float* in_from,
                              const i32* in_from_rows, float* in_to, const i32* in_to_rows, i64 in_n,
                              i64 in_from_stride, i64 in_to_stride, i64 words, i64) {
  const Moves out = {out_from, out_from_rows, out_to, out_to_rows, out_n, out_from_stride, out_to_stride};
  const Moves in = {in_from, in_from_rows, in_to, in_to_rows, in_n, in_from_stride, in_to_stride};
#ifdef __CUDACC__
  // A row of a record may begin anywhere in it: accesses are as wide as all of this allows.
  const u64 places = (u64)out_from | (u64)out_to | (u64)in_from | (u64)in_to;
  const i64 all = words | out_from_stride | out_to_stride | in_from_stride | in_to_stride | (i64)(places >> 2);
  if (all % 4 == 0) {
    move_rows<4>(out, in, words);
  } else if (all % 2 == 0) {
    move_rows<2>(out, in, words);
  } else {
    move_rows<1>(out, in, words);
  }
#else
  move_some(out, words);
  move_some(in, words);
#endif
}
