// Keys of many tables made distinct, each table's for itself, in as many launches as those of one; see unique.cu.
#include "groups.cuh"
#include "scan.cuh"
#include "unique.cuh"
#ifndef __CUDACC__
#include "unique_slots.h"
#endif

#ifdef __CUDACC__
// A member's items are its keys, filled up to whole tiles: in `rank` item 32 * tile + lane has its place.

// Every key finds its place in its member's table, and leaves it in inverse.
SOK_KERNEL sok1x_group_unique_claim(const UniqueMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                    i64 count, i64 tiles, u32* tables, i32* SOK_RESTRICT member_of_tile) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const UniqueMember m = members[t];
    if (warp_lane() == 0) member_of_tile[tile] = (i32)t;
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    if (i < m.n) {
      const i64 key = key_in(m.keys, m.key_type, i);
      u32* const table = tables + m.first_slot;
      const u64 mask = (u64)m.slots - 1;
      const u32 mine = (u32)i + 1;
      u64 slot = mix64((u64)key) & mask;
      for (;;) {
        u32 seen = *(volatile u32*)(table + slot);
        if (seen == 0) {
          seen = atomicCAS(table + slot, 0u, mine);
          if (seen == 0) break;
        }
        if (key_in(m.keys, m.key_type, (i64)seen - 1) == key) {
          if (mine < seen) atomicMin(table + slot, mine);  // positions only go down: most threads need no atomic
          break;
        }
        slot = (slot + 1) & mask;
      }
      m.inverse[i] = (i32)slot;
    }
  }
}

// Numbers the first positions of all members in order; before[tile] is how many come before the tile.
SOK_KERNEL sok1x_group_unique_number(const UniqueMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                     const i32* SOK_RESTRICT member_of_tile, i64 tiles,
                                     const u32* SOK_RESTRICT tables, i32* SOK_RESTRICT rank,
                                     i64* SOK_RESTRICT before_tile, u64* state) {
  scan_items(
      tiles * GROUP_TILE, state,
      [=](i64 place) {
        const i64 tile = place / GROUP_TILE, t = member_of_tile[tile];
        const UniqueMember& m = members[t];
        const i64 i = place - starts[t] * GROUP_TILE;
        return i < m.n && tables[m.first_slot + (u32)m.inverse[i]] == (u32)i + 1 ? 1u : 0u;
      },
      [=](i64 place, u64 before, u32 first) {
        if (first) rank[place] = (i32)before;
        if (place % GROUP_TILE == 0) before_tile[place / GROUP_TILE] = (i64)before;
      },
      [=](u64 sum) { before_tile[tiles] = (i64)sum; });
}

// From places in the tables to numbers within each member; counts[t] stays as it is for members without keys.
SOK_KERNEL sok1x_group_unique_inverse(const UniqueMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                      const i32* SOK_RESTRICT member_of_tile, i64 tiles,
                                      const u32* SOK_RESTRICT tables, const i32* SOK_RESTRICT rank,
                                      const i64* SOK_RESTRICT before_tile, i64* SOK_RESTRICT counts) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = member_of_tile[tile];
    const UniqueMember m = members[t];
    const i64 begin = starts[t], before = before_tile[begin];
    const i64 i = (tile - begin) * GROUP_TILE + warp_lane();
    if (i == 0) counts[t] = before_tile[starts[t + 1]] - before;
    if (i < m.n) {
      const i64 first = (i64)tables[m.first_slot + (u32)m.inverse[i]] - 1;
      const i64 number = rank[begin * GROUP_TILE + first] - before;
      if (first == i) m.values[number] = key_in(m.keys, m.key_type, i);
      m.inverse[i] = (i32)number;
    }
  }
}

#else

namespace {

template <class K>
struct BlockedKeys {
  const Blocks& blocks;
  K operator[](i64 i) const { return *(const K*)row_in(blocks, i, sizeof(K)); }
};

template <class K>
i64 unique_of(const UniqueMember& m, i32* table) {
  const i64 slots = unique_slots(m.n, UNIQUE_SLOTS_HOST);
  if (m.keys.count) return unique_keys(BlockedKeys<K>{m.keys}, m.n, m.values, m.inverse, table, slots);
  return unique_keys((const K*)m.keys.base, m.n, m.values, m.inverse, table, slots);
}

}  // namespace

// One thread a member, as for a single table. scratch has `pieces` tables of `slots` places, one for each thread.
SOK_EXPORT void sok1x_group_unique(const UniqueMember* members, i64 count, i64* counts, i32* scratch, i64 slots,
                                   i64 pieces) {
  std::atomic<i64> next_member(0);
  std::atomic<i64>* const next = &next_member;
  sok1x::parallel_chunks(pieces, 1, [=](i64 begin, i64 end) {
    for (i64 piece = begin; piece < end; ++piece) {
      i32* const table = scratch + piece * slots;
      for (i64 t; (t = next->fetch_add(1, std::memory_order_relaxed)) < count;) {
        const UniqueMember& m = members[t];
        counts[t] = m.key_type == KEY_INT32    ? unique_of<i32>(m, table)
                    : m.key_type == KEY_UINT32 ? unique_of<u32>(m, table)
                                               : unique_of<i64>(m, table);
      }
    }
  });
}

SOK_EXPORT i64 sok1x_group_unique_member_bytes() { return sizeof(UniqueMember); }

#endif
