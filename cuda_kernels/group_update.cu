// Optimizers' steps on rows of many tables in one launch: gradient descent and lazy Adam, as update.cu and adam.cu.
#include "descend_rows.cuh"
#include "group_update_step.cuh"

#ifdef __CUDACC__

// The team that this thread is in, of those that share a tile's rows; n: where the tile ends among the member's.
SOK_DEVICE Team team_of_tile(const UpdateMember& m, i64 tile, i64* n) {
  const i32 lanes = lanes_of_row(m.dim);
  const i64 teams = 32 / lanes, first = tile * UPDATE_ROWS * teams;
  *n = first + UPDATE_ROWS * teams < m.n ? first + UPDATE_ROWS * teams : m.n;
  const Team team = {lanes, warp_lane() & (lanes - 1), first + warp_lane() / lanes, teams};
  return team;
}

SOK_KERNEL sok1x_group_descend(const UpdateMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                               i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const UpdateMember& m = members[t];
    i64 n;
    const Team team = team_of_tile(m, tile - starts[t], &n);
    SOK_BY_ALIGNMENT(m.dim, descend_rows, team, m.values, m.dim, m.rows, n, *m.scalars[0], m.table_rows, m.table);
  }
}

SOK_KERNEL sok1x_group_lazy_adam(const UpdateMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                 i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const UpdateMember& m = members[t];
    i64 n;
    const Team team = team_of_tile(m, tile - starts[t], &n);
    const AdamStep step = step_of(m);
    SOK_BY_ALIGNMENT(m.dim, lazy_adam, team, step, m.values, m.dim, m.rows, n, m.table_rows, m.table, m.slots[0],
                     m.slots[1]);
  }
}

#else

namespace {

// Bytes of an item that are moved, for members with so many floats to each of a row's.
i64 bytes_of(const UpdateMember* members, const i64* starts, i64 count, i64 floats) {
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) bytes += members[t].n * members[t].dim * 4 * floats;
  return bytes / std::max<i64>(1, starts[count]);
}

}  // namespace

SOK_EXPORT void sok1x_group_descend(const UpdateMember* members, const i64* starts, i64 count, i64 items) {
  sok1x::for_group(starts, count, bytes_of(members, starts, count, 3), [=](i64 t, i64 begin, i64 end) {
    const UpdateMember& m = members[t];
    descend_chunk(m.values, m.dim, m.rows, begin, end, *m.scalars[0], m.table_rows, m.table);
  });
}

SOK_EXPORT void sok1x_group_lazy_adam(const UpdateMember* members, const i64* starts, i64 count, i64 items) {
  sok1x::for_group(starts, count, bytes_of(members, starts, count, 7), [=](i64 t, i64 begin, i64 end) {
    const UpdateMember& m = members[t];
    const FlushSmallest flush;
    lazy_adam_chunk(step_of(m), m.values, m.dim, m.rows, begin, end, m.table_rows, m.table, m.slots[0], m.slots[1]);
  });
}

SOK_EXPORT i64 sok1x_group_update_member_bytes() { return sizeof(UpdateMember); }

#endif
