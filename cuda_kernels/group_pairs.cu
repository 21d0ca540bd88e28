// Keys of many tables' bags on their way to owners, each with the number of its bag, in one launch: those of a member
// for one rank lie side by side, and behind them their bags.
#include "bags.cuh"
#include "groups.cuh"

// The key that is row `place` of m.out, whose blocks have keys and then as many bags.
SOK_DEVICE void put_pair(const PairsMember& m, i64 place, i64 key, i64 bag) {
  const i64 b = part_of(m.out.starts, m.out.count, place);
  const i64 first = m.out.starts[b], keys = m.out.starts[b + 1] - first;
  i64* const at = (i64*)(m.out.base + m.out.offsets[b]) + (place - first);
  at[0] = key;
  at[keys] = bag;
}

#ifdef __CUDACC__

SOK_KERNEL sok1x_group_pairs(const PairsMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                             i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const PairsMember& m = members[t];
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    if (i < m.n) {
      put_pair(m, m.position[i], load_key(m.keys, (i32)m.key_type, i), m.first + part_of(m.offsets, m.n_bags, i));
    }
  }
}

#else

SOK_EXPORT void sok1x_group_pairs(const PairsMember* members, const i64* starts, i64 count, i64 items) {
  sok1x::for_group(starts, count, 48, [=](i64 t, i64 begin, i64 end) {
    const PairsMember& m = members[t];
    i64 bag = part_of(m.offsets, m.n_bags, begin);
    for (i64 i = begin; i < end; ++i) {
      while (m.offsets[bag + 1] <= i) ++bag;
      put_pair(m, m.position[i], load_key(m.keys, (i32)m.key_type, i), m.first + bag);
    }
  });
}

SOK_EXPORT i64 sok1x_group_pairs_member_bytes() { return sizeof(PairsMember); }

#endif
