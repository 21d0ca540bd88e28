// Initial values of many tables' rows in one launch, for keys that have none: what an evaluation reads.
#include "groups.cuh"
#include "row_init.cuh"

SOK_DEVICE Draw draw_of(const InitialMember& m) {
  return make_draw((u64)m.seed, (u64)m.identity, (i32)m.kind, (float)m.a, (float)m.b);
}

#ifdef __CUDACC__

// A warp looks at a tile's rows together, and writes those that are wanted one after the other.
SOK_KERNEL sok1x_group_initial(const InitialMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                               i64 tiles) {
  const int lane = warp_lane();
  const Team warp = {32, lane, 0, 0};
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const InitialMember& m = members[t];
    const i64 first = (tile - starts[t]) * GROUP_TILE, i = first + lane;
    const bool wanted = i < m.n && m.rows[i] < 0;
    const u64 key = wanted ? (u64)key_in(m.keys, m.key_type, i) : 0;
    u32 left = __ballot_sync(0xffffffffu, wanted);
    if (!left) continue;
    const Draw draw = draw_of(m);
    for (; left; left &= left - 1) {
      const int from = __ffs(left) - 1;
      const u64 its_key = __shfl_sync(0xffffffffu, (unsigned long long)key, from);
      if (m.out_half) {
        initial_row_by_team(draw, its_key, m.dim, warp, (u16*)row_in(m.out, first + from, m.dim * 2));
      } else {
        initial_row_by_team(draw, its_key, m.dim, warp, (float*)row_in(m.out, first + from, m.dim * 4));
      }
    }
  }
}

#else

SOK_EXPORT void sok1x_group_initial(const InitialMember* members, const i64* starts, i64 count, i64 items) {
  sok1x::for_group(starts, count, 64, [=](i64 t, i64 begin, i64 end) {
    const InitialMember& m = members[t];
    const Draw draw = draw_of(m);
    for (i64 i = begin; i < end; ++i) {
      if (m.rows[i] >= 0) continue;
      const u64 key = (u64)key_in(m.keys, m.key_type, i);
      if (m.out_half) {
        initial_row(draw, key, m.dim, (u16*)row_in(m.out, i, m.dim * 2));
      } else {
        initial_row(draw, key, m.dim, (float*)row_in(m.out, i, m.dim * 4));
      }
    }
  });
}

SOK_EXPORT i64 sok1x_group_initial_member_bytes() { return sizeof(InitialMember); }

#endif
