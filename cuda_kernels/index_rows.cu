// The hash index when rows are given out in any order, and when keys leave it.
//
// Keys that leave make no tombstones. The slots in use between two empty ones, a run, are gone through from the first
// to the last: what leaves is taken out, and what stays moves to the first empty slot from where its search begins, if
// there is one before it. So a key is found as soon as it would be had the others never come, however many have come
// and gone.
#include "hash_index.cuh"

#ifndef __CUDACC__
// Puts distinct keys that are not in the index into it, each with its row. There are enough empty slots.
SOK_KERNEL sok1x_place_keys(Slot* index, i64 capacity, const i64* keys, const i32* rows, i64 n) {
  for (i64 i = 0; i < n; ++i) {
    if (i + INDEX_AHEAD < n) prefetch_slot(index, capacity, keys[i + INDEX_AHEAD]);
    i64 slot = first_slot(keys[i], capacity);
    while (index[slot].row >= 0) slot = (slot + 1) & (capacity - 1);
    index[slot].key = keys[i];
    index[slot].row = rows[i];
  }
}
#else
// On a GPU all at once, and yet each ends in the slot that the host gives it, as in hash_index.cu: until its key is
// written a slot has the key's number in the call, above all rows, so that keys that are there already stay, and of two
// new ones that want one slot the earlier has it.
static const i64 INDEX_NUMBERS = 1ll << 32;

SOK_KERNEL sok1x_claim_for_keys(Slot* index, i64 capacity, const i64* SOK_RESTRICT keys, i64 n) {
  SOK_PARALLEL_FOR(i, n, 64) {
    i64 mine = INDEX_NUMBERS + i;
    i64 slot = first_slot(keys[i], capacity);
    for (;;) {
      const i64 seen = *(volatile i64*)&index[slot].row;
      if (seen < 0 || seen > mine) {
        if (atomicCAS((u64*)&index[slot].row, (u64)seen, (u64)mine) != (u64)seen) continue;
        if (seen < 0) break;
        mine = seen;
      }
      slot = (slot + 1) & (capacity - 1);
    }
  };
}

// A thread looks for its own number alone: that others' turn into rows meanwhile does not mislead it.
SOK_KERNEL sok1x_write_claimed(Slot* index, i64 capacity, const i64* SOK_RESTRICT keys, const i32* SOK_RESTRICT rows,
                               i64 n) {
  SOK_PARALLEL_FOR(i, n, 64) {
    i64 slot = first_slot(keys[i], capacity);
    while (*(volatile i64*)&index[slot].row != INDEX_NUMBERS + i) slot = (slot + 1) & (capacity - 1);
    index[slot].key = keys[i];
    index[slot].row = rows[i];
  };
}
#endif

SOK_DEVICE bool bit_of(const u32* bits, i64 i) { return bits[i >> 5] >> (i & 31) & 1; }

// Sets the bits of rows, in bits that are 0 before.
SOK_KERNEL sok1x_set_bits(const i32* SOK_RESTRICT rows, i64 n, u32* bits) {
  SOK_PARALLEL_FOR(i, n, 8) {
#ifdef __CUDACC__
    atomicOr(bits + (rows[i] >> 5), 1u << (rows[i] & 31));
#else
    __atomic_fetch_or(bits + (rows[i] >> 5), 1u << (rows[i] & 31), __ATOMIC_RELAXED);
#endif
  };
}

// Bit i of `starts` = whether a run begins at slot i.
SOK_KERNEL sok1x_find_runs(const Slot* SOK_RESTRICT index, i64 capacity, u32* SOK_RESTRICT starts) {
  SOK_PARALLEL_FOR(word, (capacity + 31) / 32, 516) {
    const i64 first = word * 32, end = first + 32 < capacity ? first + 32 : capacity;
    bool before = index[(first - 1) & (capacity - 1)].row >= 0;
    u32 found = 0;
    for (i64 slot = first; slot < end; ++slot) {
      const bool here = index[slot].row >= 0;
      if (here && !before) found |= 1u << (slot - first);
      before = here;
    }
    starts[word] = found;
  };
}

// The place of `row` in `rows`, ascending, which has it.
SOK_DEVICE i64 place_of_row(const i32* rows, i64 n, i64 row) {
  i64 low = 0, high = n - 1;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (rows[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// One run, from its first slot on: see above.
SOK_DEVICE void sweep_run(Slot* index, i64 capacity, i64 slot, const u32* leaving, const i32* rows, i64 n, i64* keys) {
  bool moved = false;
  for (; index[slot].row >= 0; slot = (slot + 1) & (capacity - 1)) {
    const Slot here = index[slot];
    if (bit_of(leaving, here.row)) {
      keys[place_of_row(rows, n, here.row)] = here.key;
      index[slot].row = -1;
      moved = true;
    } else if (moved) {
      i64 place = first_slot(here.key, capacity);
      while (place != slot && index[place].row >= 0) place = (place + 1) & (capacity - 1);
      if (place != slot) {
        index[place] = here;
        index[slot].row = -1;
      }
    }
  }
}

// Takes the keys of rows (ascending, n of them; those with a bit in `leaving`) out of the index: keys[i] = that of
// rows[i]. starts: of sok1x_find_runs. A run is one thread's, and the empty slot behind it nobody's.
SOK_KERNEL sok1x_sweep_runs(Slot* index, i64 capacity, const u32* SOK_RESTRICT starts, const u32* SOK_RESTRICT leaving,
                            const i32* SOK_RESTRICT rows, i64 n, i64* SOK_RESTRICT keys) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(slot, capacity, 16) {
    if (bit_of(starts, slot)) sweep_run(index, capacity, slot, leaving, rows, n, keys);
  };
#else
  SOK_PARALLEL_FOR(word, (capacity + 31) / 32, 512) {
    for (u32 left = starts[word]; left; left &= left - 1) {
      sweep_run(index, capacity, word * 32 + __builtin_ctz(left), leaving, rows, n, keys);
    }
  };
#endif
}
