// Rows of many tables narrowed to 32 bits and stamped, in two launches; see stamps.cu.
#include "groups.cuh"

SOK_DEVICE void move_clock(const StampMember& m) {
  if (m.stamps) {
    const i64 step = *m.clock + m.ahead;
    atomic_max(m.clock, step > m.at_least ? step : m.at_least);
  }
}

SOK_DEVICE void narrow_and_stamp(const StampMember& m, i64 i, i64 step) {
  const i32 row = m.values ? (i32)m.values[i] : m.rows[i];
  if (m.values) m.rows[i] = row;
  if (m.stamps && row >= 0 && row < m.table_rows) m.stamps[row] = step;
}

#ifdef __CUDACC__

SOK_KERNEL sok1x_group_move_clocks(const StampMember* SOK_RESTRICT members, i64 count) {
  SOK_PARALLEL_FOR(t, count, 0) { move_clock(members[t]); }
}

SOK_KERNEL sok1x_group_stamp_rows(const StampMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                  i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const StampMember& m = members[t];
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    if (i < m.n) narrow_and_stamp(m, i, m.stamps ? *m.clock : 0);
  }
}

#else

SOK_EXPORT void sok1x_group_move_clocks(const StampMember* members, i64 count) {
  for (i64 t = 0; t < count; ++t) move_clock(members[t]);
}

SOK_EXPORT void sok1x_group_stamp_rows(const StampMember* members, const i64* starts, i64 count, i64 items) {
  sok1x::for_group(starts, count, 68, [=](i64 t, i64 begin, i64 end) {
    const StampMember m = members[t];
    const i64 step = m.stamps ? *m.clock : 0;
    for (i64 i = begin; i < end; ++i) narrow_and_stamp(m, i, step);
  });
}

SOK_EXPORT i64 sok1x_group_stamp_member_bytes() { return sizeof(StampMember); }

#endif
