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

// All keys of an index put into an empty, larger one: each gets the slot that it has where keys come in the order of
// their rows, as is known of linear probing, if of two that want one slot the lower row has it, and the other goes on
// from there. (O. Amble, D. E. Knuth, Ordered hash tables, The Computer Journal 17, 1974.) So they may come in the
// order of the slots that they had: then they are written near one another, for a slot is the low bits of a key's hash.
#ifndef __CUDACC__
SOK_KERNEL sok1x_move_keys(const Slot* SOK_RESTRICT from, i64 slots, Slot* SOK_RESTRICT index, i64 capacity) {
  for (i64 i = 0; i < slots; ++i) {
    if (from[i].row < 0) continue;
    Slot mine = from[i];
    i64 slot = first_slot(mine.key, capacity);
    for (; index[slot].row >= 0; slot = (slot + 1) & (capacity - 1)) {
      if (index[slot].row > mine.row) std::swap(index[slot], mine);
    }
    index[slot] = mine;
  }
}
#else
// As claim_slots in hash_index.cu.
SOK_KERNEL sok1x_claim_for_slots(const Slot* SOK_RESTRICT from, i64 slots, Slot* index, i64 capacity) {
  SOK_PARALLEL_FOR(i, slots, 64) {
    const Slot mine = load_slot(from, i);
    i64 row = mine.row, slot = first_slot(mine.key, capacity);
    while (row >= 0) {
      const i64 seen = *(volatile i64*)&index[slot].row;
      if (seen < 0 || seen > row) {
        if (atomicCAS((u64*)&index[slot].row, (u64)seen, (u64)row) != (u64)seen) continue;
        row = seen;  // who was there goes on; nobody is -1
      }
      slot = (slot + 1) & (capacity - 1);
    }
  };
}

SOK_KERNEL sok1x_write_moved(const Slot* SOK_RESTRICT from, i64 slots, Slot* index, i64 capacity) {
  SOK_PARALLEL_FOR(i, slots, 64) {
    const Slot mine = load_slot(from, i);
    if (mine.row >= 0) {
      i64 slot = first_slot(mine.key, capacity);
      while (index[slot].row != mine.row) slot = (slot + 1) & (capacity - 1);
      index[slot].key = mine.key;
    }
  };
}
#endif

// The rows that leave, 32 to a word: which do, and in words that have any, how many do with lower numbers.
struct LeavingRows {
  const u32* bits;
  const i32* before;
};

SOK_DEVICE bool bit_of(const u32* bits, i64 i) { return bits[i >> 5] >> (i & 31) & 1; }

// The place of a row among those that leave; it is one of them.
SOK_DEVICE i64 place_of(const LeavingRows& leaving, i64 row) {
  const u32 lower = leaving.bits[row >> 5] & ((1u << (row & 31)) - 1);
#ifdef __CUDACC__
  return leaving.before[row >> 5] + __popc(lower);
#else
  u32 two = lower - (lower >> 1 & 0x55555555u), four = (two & 0x33333333u) + (two >> 2 & 0x33333333u);
  return leaving.before[row >> 5] + (((four + (four >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
#endif
}

// Notes ascending rows as LeavingRows has them, in bits that are 0 before.
SOK_KERNEL sok1x_mark_leaving(const i32* SOK_RESTRICT rows, i64 n, u32* bits, i32* SOK_RESTRICT before) {
#ifdef __CUDACC__
  SOK_PARALLEL_FOR(i, n, 8) {
    const i32 word = rows[i] >> 5;
    atomicOr(bits + word, 1u << (rows[i] & 31));
    if (i == 0 || rows[i - 1] >> 5 != word) before[word] = (i32)i;
  };
#else
  for (i64 i = 0; i < n; ++i) {
    const i32 word = rows[i] >> 5;
    if (bits[word] == 0) before[word] = (i32)i;
    bits[word] |= 1u << (rows[i] & 31);
  }
#endif
}

// One run, from its first slot on, or from the first whose key leaves; see above. Returns how many slots that are.
SOK_DEVICE i64 sweep_run(Slot* index, i64 capacity, i64 slot, const LeavingRows& leaving, i64* keys) {
  bool moved = false;
  i64 passed = 0;
  for (; index[slot].row >= 0; slot = (slot + 1) & (capacity - 1), ++passed) {
    const Slot here = index[slot];
    if (bit_of(leaving.bits, here.row)) {
      keys[place_of(leaving, here.row)] = here.key;
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
  return passed;
}

// sok1x_sweep_runs takes the keys of rows that leave out of the index: keys[i] = that of the i-th of them. A run is one
// thread's, and the empty slot behind it nobody's.
#ifndef __CUDACC__
static const i64 SWEEP_PIECES = 64;
static const i64 SWEEP_LEAST = 2048;  // slots of a piece
static const i64 SWEEP_AHEAD = 128;   // slots

// On the host all slots are looked at once, in order. Pieces for the threads begin at empty slots, which are found
// before anything moves: so none has a part of another's run. The last piece goes on at the index's beginning.
SOK_KERNEL sok1x_sweep_runs(Slot* index, i64 capacity, const u32*, const u32* bits, const i32* before, i64* keys) {
  const LeavingRows leaving = {bits, before};
  const i64 mask = capacity - 1, piece = std::max(SWEEP_LEAST, capacity / SWEEP_PIECES);
  i64 starts[SWEEP_PIECES + 1], pieces = 0, first = 0;
  while (index[first].row >= 0) ++first;
  for (i64 slot = first; slot < capacity; slot += piece) {
    while (slot < capacity && index[slot].row >= 0) ++slot;
    if (slot < capacity) starts[pieces++] = slot;
  }
  starts[pieces] = first + capacity;
  const i64* const start_of = starts;
  SOK_PARALLEL_FOR(i, pieces, 16 * piece) {
    for (i64 slot = start_of[i], end = start_of[i + 1]; slot < end; ++slot) {
      SOK_PREFETCH(index + ((slot + SWEEP_AHEAD) & mask));
      // No jump depends on whether a slot is empty, which nobody could predict: it asks for row 0, and does not leave.
      const i64 row = index[slot & mask].row, used = ~(row >> 63);
      if (bit_of(leaving.bits, row & used) & used) slot += sweep_run(index, capacity, slot & mask, leaving, keys);
    }
  };
}
#else
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

SOK_KERNEL sok1x_sweep_runs(Slot* index, i64 capacity, const u32* SOK_RESTRICT starts, const u32* SOK_RESTRICT bits,
                            const i32* SOK_RESTRICT before, i64* SOK_RESTRICT keys) {
  const LeavingRows leaving = {bits, before};
  SOK_PARALLEL_FOR(slot, capacity, 16) {
    if (bit_of(starts, slot)) sweep_run(index, capacity, slot, leaving, keys);
  };
}
#endif
