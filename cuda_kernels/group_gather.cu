// Rows of many tables by row number, in one launch; also from, and to, rows that lie in several blocks.
#include "groups.cuh"

SOK_DEVICE i64 row_to_copy(const GatherMember& m, i64 i) {
  const i64 place = m.inverse ? m.inverse[i] : i;
  return m.rows ? m.rows[place] : place;
}

#ifdef __CUDACC__

// A team asks for GATHER_ROWS rows before the first is written: memory answers late. A warp's tile has as many for each
// of its teams.
template <int W, class In, class Out>
SOK_DEVICE void gather_tile(const GatherMember& m, i64 first, int lanes) {
  const i64 dim = m.dim;
  const In* from[GATHER_ROWS];
  Out* to[GATHER_ROWS];
#pragma unroll
  for (int r = 0; r < GATHER_ROWS; ++r) {
    const i64 i = first + r * (32 / lanes) + warp_lane() / lanes;
    const i64 row = i < m.n ? row_to_copy(m, i) : -1;
    from[r] = row >= 0 ? (const In*)row_in(m.source, row, dim * sizeof(In)) : nullptr;
    to[r] = row >= 0 ? (Out*)row_in(m.out, i, dim * sizeof(Out)) : nullptr;
  }
  for (i64 c = (warp_lane() & (lanes - 1)) * W; c < dim; c += lanes * W) {
    Vec<W> value[GATHER_ROWS];
#pragma unroll
    for (int r = 0; r < GATHER_ROWS; ++r) {
      if (from[r]) value[r] = load_vec<W>(from[r] + c);
    }
#pragma unroll
    for (int r = 0; r < GATHER_ROWS; ++r) {
      if (from[r]) store_vec<W>(to[r] + c, value[r]);
    }
  }
}

template <class In, class Out>
SOK_DEVICE void gather_aligned_tile(const GatherMember& m, i64 first, int lanes) {
  if (m.dim % 4 == 0 && aligned(m.source, 4 * sizeof(In)) && aligned(m.out, 4 * sizeof(Out))) {
    gather_tile<4, In, Out>(m, first, lanes);
  } else if (m.dim % 2 == 0 && aligned(m.source, 2 * sizeof(In)) && aligned(m.out, 2 * sizeof(Out))) {
    gather_tile<2, In, Out>(m, first, lanes);
  } else {
    gather_tile<1, In, Out>(m, first, lanes);
  }
}

SOK_KERNEL sok1x_group_gather(const GatherMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                              i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const GatherMember& m = members[t];  // a copy would need half as many registers again
    const int lanes = lanes_of_row(m.dim);
    const i64 first = (tile - starts[t]) * (GATHER_ROWS * 32 / lanes);
    if (m.source_half) {
      if (m.out_half) {
        gather_aligned_tile<u16, u16>(m, first, lanes);
      } else {
        gather_aligned_tile<u16, float>(m, first, lanes);
      }
    } else if (m.out_half) {
      gather_aligned_tile<float, u16>(m, first, lanes);
    } else {
      gather_aligned_tile<float, float>(m, first, lanes);
    }
  }
}

// For a group whose rows are of 32-bit floats and lie side by side, in fours: of 56 registers in place of 80.
SOK_KERNEL sok1x_group_plain_gather(const GatherMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                    i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const GatherMember& m = members[t];
    const float* SOK_RESTRICT const source = (const float*)m.source.base;
    float* SOK_RESTRICT const out = (float*)m.out.base;
    const int dim = (int)m.dim, lanes = lanes_of_row(dim);
    const i64 first = (tile - starts[t]) * (GATHER_ROWS * 32 / lanes) + warp_lane() / lanes;
    i32 row[GATHER_ROWS];
#pragma unroll
    for (int r = 0; r < GATHER_ROWS; ++r) {
      const i64 i = first + r * (32 / lanes);
      row[r] = i < m.n ? (i32)row_to_copy(m, i) : -1;
    }
    for (int c = (warp_lane() & (lanes - 1)) * 4; c < dim; c += lanes * 4) {
      Vec<4> value[GATHER_ROWS];
#pragma unroll
      for (int r = 0; r < GATHER_ROWS; ++r) {
        if (row[r] >= 0) value[r] = load_vec<4>(source + (i64)row[r] * dim + c);
      }
#pragma unroll
      for (int r = 0; r < GATHER_ROWS; ++r) {
        if (row[r] >= 0) store_vec<4>(out + (first + r * (32 / lanes)) * dim + c, value[r]);
      }
    }
  }
}

#else

namespace {

// How many items ahead a row is asked for, as in gather.cu.
const i64 GATHER_AHEAD = 32;

template <class In, class Out>
void gather_items(const GatherMember& m, i64 begin, i64 end) {
  const i64 dim = m.dim, in_bytes = dim * (i64)sizeof(In);
  sok1x::for_runs(m.out, begin, end, dim * (i64)sizeof(Out), [&](i64 first, i64 last, char* at) {
    Out* out = (Out*)at;
    for (i64 i = first; i < last; ++i, out += dim) {
      if (i + GATHER_AHEAD < last) {
        prefetch_row((const In*)row_in(m.source, row_to_copy(m, i + GATHER_AHEAD), in_bytes), dim);
      }
      const i64 row = row_to_copy(m, i);
      if (row >= 0) copy_row(out, (const In*)row_in(m.source, row, in_bytes), dim);
    }
  });
}

}  // namespace

SOK_EXPORT void sok1x_group_gather(const GatherMember* members, const i64* starts, i64 count, i64 items) {
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) {
    const GatherMember& m = members[t];
    bytes += m.n * m.dim * ((m.source_half ? 2 : 4) + (m.out_half ? 2 : 4));
    if (!m.out.count) SOK_OUTPUT(m.out.base, m.n * m.dim * (m.out_half ? 2 : 4));
  }
  sok1x::for_group(starts, count, bytes / std::max<i64>(1, items), [=](i64 t, i64 begin, i64 end) {
    const GatherMember& m = members[t];
    if (m.source_half) {
      m.out_half ? gather_items<u16, u16>(m, begin, end) : gather_items<u16, float>(m, begin, end);
    } else {
      m.out_half ? gather_items<float, u16>(m, begin, end) : gather_items<float, float>(m, begin, end);
    }
  });
}

SOK_EXPORT i64 sok1x_group_gather_member_bytes() { return sizeof(GatherMember); }

#endif
