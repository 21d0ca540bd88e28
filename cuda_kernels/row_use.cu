// When each row of a shard was last asked for, and which rows are free.
//
// used[row] is the tick of the last lookup that asked for it, a number that each lookup of the table raises by one; -1
// where a row that has been given out is free again.
#include "scan.cuh"

// Another lookup begins: *tick grows by one. *known, if it is `unknown` and the last step before the clock was set
// back, or more, becomes the step after that one, or after the clock's if that is later.
SOK_KERNEL sok1x_begin_lookup(i64* tick, i64* known, i64 unknown, const i64* clock) {
  SOK_PARALLEL_FOR(i, 1, 24) {
    *tick += 1;
    if (*known >= unknown) {
      const i64 before = *known - unknown, now = *clock;
      *known = (before > now ? before : now) + 1;
    }
  };
}

// rows[i] >= 0 are asked for by the lookup of *tick. frequency, unless it is null, counts the lookups that ask for a
// row, each lookup once however often the row is among its rows.
SOK_KERNEL sok1x_touch_rows(const i32* SOK_RESTRICT rows, i64 n, const i64* SOK_RESTRICT tick, i64* used,
                            i64* frequency) {
  SOK_PARALLEL_FOR(i, n, 132) {
    const i64 row = rows[i], now = *tick;
    if (row >= 0) {
#ifdef __CUDACC__
      if (*(volatile i64*)(used + row) != now) {
        if (!frequency) {
          *(volatile i64*)(used + row) = now;
        } else if (atomicExch((u64*)(used + row), (u64)now) != (u64)now) {
          atomic_add(frequency + row, 1);
        }
      }
#else
      if (!frequency) {  // also where it is there already, which nobody could predict
        __atomic_store_n(used + row, now, __ATOMIC_RELAXED);
      } else if (__atomic_load_n(used + row, __ATOMIC_RELAXED) != now &&
                 __atomic_exchange_n(used + row, now, __ATOMIC_RELAXED) != now) {
        atomic_add(frequency + row, 1);
      }
#endif
    }
  };
}

// Rows that a lookup has just given out: asked for by it, and by none before.
SOK_KERNEL sok1x_begin_rows(const i32* SOK_RESTRICT rows, i64 n, const i64* SOK_RESTRICT tick, i64* SOK_RESTRICT used,
                            i64* SOK_RESTRICT frequency) {
  SOK_PARALLEL_FOR(i, n, 20) {
    used[rows[i]] = *tick;
    if (frequency) frequency[rows[i]] = 1;
  };
}

// Rows that keys have left are free.
SOK_KERNEL sok1x_free_rows(const i32* SOK_RESTRICT rows, i64 n, i64* SOK_RESTRICT used) {
  SOK_PARALLEL_FOR(i, n, 12) { used[rows[i]] = -1; };
}

// rows[row] = -1 where that row is free.
SOK_KERNEL sok1x_leave_free_out(const i64* SOK_RESTRICT used, i64 n, i32* SOK_RESTRICT rows) {
  SOK_PARALLEL_FOR(row, n, 12) {
    if (used[row] < 0) rows[row] = -1;
  };
}

// Stamps rows with max(*clock + ahead, at_least); the clock stays.
SOK_KERNEL sok1x_stamp_given(const i32* SOK_RESTRICT rows, i64 n, i64 ahead, i64 at_least,
                             const i64* SOK_RESTRICT clock, i64* SOK_RESTRICT stamps) {
  SOK_PARALLEL_FOR(i, n, 12) {
    const i64 step = *clock + ahead;
    stamps[rows[i]] = step > at_least ? step : at_least;
  };
}

// Rows of `words` 32-bit words each become `low`, `high`, `low`, ... (numbers of eight bytes have two words).
SOK_KERNEL sok1x_reset_rows(const i32* SOK_RESTRICT rows, i64 n, i64 words, i32 low, i32 high, i32* SOK_RESTRICT out) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n * words, 8) {
    const i64 word = i % words;
    out[rows[i / words] * words + word] = word & 1 ? high : low;
  };
#else
  SOK_PARALLEL_FOR(i, n, 4 * words + 64) {
    i32* const row = out + rows[i] * words;
    for (i64 word = 0; word < words; ++word) row[word] = word & 1 ? high : low;
  };
#endif
}

// A ring of `places` remembers the last keys that have left, each with the step, as sok1x_stamp_given has it: entry
// number e is at e mod places. before: how many entries there have been.
SOK_KERNEL sok1x_remember_keys(const i64* SOK_RESTRICT keys, i64 n, i64 before, i64 ahead, i64 at_least,
                               const i64* SOK_RESTRICT clock, i64* SOK_RESTRICT ring, i64 places) {
  SOK_PARALLEL_FOR(i, n, 24) {
    const i64 step = *clock + ahead;
    if (i >= n - places) {
      i64* const entry = ring + 2 * ((before + i) % places);
      entry[0] = keys[i];
      entry[1] = step > at_least ? step : at_least;
    }
  };
}

// The number of the j-th row that is given out: first those at the end of `free`, of which there are `there`, then
// next_row and those after it.
SOK_DEVICE i32 given_row(const i64* free, i64 there, i64 next_row, i64 j) {
  return (i32)(j < there ? free[there - 1 - j] : next_row + (j - there));
}

#ifndef __CUDACC__
SOK_VECTORS static void list_negative(const i64* used, i64 n, uint8_t* listed) {
  for (i64 i = 0; i < n; ++i) listed[i] = used[i] < 0;
}

// free[there - 1 - j] = the j-th of rows 0 to n - 1 that are free; *total counts them.
SOK_KERNEL sok1x_list_free(const i64* used, i64 n, i64 there, i64* free, i64* total, u64*) {
  i64 found = 0;
  list_items(
      n, [=](i64 begin, i64 end, uint8_t* listed) { list_negative(used + begin, end - begin, listed); },
      [=, &found](const i32* rows, i64 count) {
        for (i64 i = 0; i < count; ++i, ++found) {
          if (found < there) free[there - 1 - found] = rows[i];
        }
      });
  *total = found;
}

// Keys whose rows[i] is -1 are given rows, in order: collected in new_keys and new_rows, and written to rows.
SOK_KERNEL sok1x_give_rows(const i64* keys, i64 n, i32* rows, const i64* free, i64 there, i64 next_row, i64* new_keys,
                           i32* new_rows, i64* total, u64*) {
  i64 given = 0;
  for (i64 i = 0; i < n; ++i) {
    if (rows[i] != -1) continue;
    rows[i] = new_rows[given] = given_row(free, there, next_row, given);
    new_keys[given++] = keys[i];
  }
  *total = given;
}
#else
// The same two on a GPU, with a scan (scan.cuh) for the count.
SOK_KERNEL sok1x_list_free(const i64* SOK_RESTRICT used, i64 n, i64 there, i64* SOK_RESTRICT free, i64* total,
                           u64* state) {
  scan_items(
      n, state, [=](i64 row) { return used[row] < 0 ? 1u : 0u; },
      [=](i64 row, u64 before, u32 is_free) {
        if (is_free && (i64)before < there) free[there - 1 - (i64)before] = row;
      },
      [=](u64 sum) { *total = (i64)sum; });
}

SOK_KERNEL sok1x_give_rows(const i64* SOK_RESTRICT keys, i64 n, i32* rows, const i64* SOK_RESTRICT free, i64 there,
                           i64 next_row, i64* SOK_RESTRICT new_keys, i32* SOK_RESTRICT new_rows, i64* total,
                           u64* state) {
  scan_items(
      n, state, [=](i64 i) { return rows[i] == -1 ? 1u : 0u; },
      [=](i64 i, u64 before, u32 is_new) {
        if (is_new) {
          rows[i] = new_rows[before] = given_row(free, there, next_row, (i64)before);
          new_keys[before] = keys[i];
        }
      },
      [=](u64 sum) { *total = (i64)sum; });
}
#endif
