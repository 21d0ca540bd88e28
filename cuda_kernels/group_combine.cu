// The sums or means of bags of rows of many tables, in one launch; see combine.cu. Rows, and what they come to, may lie
// in several blocks.
#include "bag_divisor.cuh"
#include "combine_host.h"
#include "groups.cuh"

#ifdef __CUDACC__

// As combine_bags: a team sums a bag, each lane its columns, in key order; the rows of AHEAD keys are asked for at a
// time. Offsets are kept within [0, n_keys], so that offsets which prove faulty later do no harm.
template <bool WEIGHTED, int W, class In, class Out>
SOK_DEVICE void combine_tile(const CombineMember& m, i64 first_bag, int lanes) {
  const int AHEAD = 4;
  const i64 dim = m.dim;
  for (int r = 0; r < COMBINE_BAGS; ++r) {
    const i64 b = first_bag + r * (32 / lanes) + warp_lane() / lanes;
    if (b >= m.n_bags) return;
    const i64 first = max(0ll, min(m.n_keys, m.offsets[b])), last = max(first, min(m.n_keys, m.offsets[b + 1]));
    Out* const out = (Out*)row_in(m.out, b, dim * sizeof(Out));
    for (i64 c = (warp_lane() & (lanes - 1)) * W; c < dim; c += lanes * W) {
      Vec<W> sum = zero_vec<W>();
      float weights = 0.0f;
      for (i64 k = first; k < last; k += AHEAD) {
        i32 row[AHEAD];
        Vec<W> value[AHEAD];
        float weight[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) row[a] = k + a < last ? m.inverse[k + a] : -1;
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (row[a] >= 0) value[a] = load_vec<W>((const In*)row_in(m.source, row[a], dim * sizeof(In)) + c);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (WEIGHTED) weight[a] = k + a >= last ? 0.0f : m.weights ? m.weights[k + a] : 1.0f;
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (WEIGHTED) weights += part_of_divisor(m.mean, weight[a]);
          if (row[a] < 0) continue;
          for (int w = 0; w < W; ++w) {
            sum.lane[w] = sum.lane[w] + (WEIGHTED ? weight[a] * value[a].lane[w] : value[a].lane[w]);
          }
        }
      }
      if (m.mean && last > first) {
        const float count = WEIGHTED ? divisor_of(m.mean, weights) : (float)(last - first);
        for (int w = 0; w < W; ++w) sum.lane[w] = sum.lane[w] / count;
        if (WEIGHTED && is_nothing(m.mean, count)) sum = zero_vec<W>();
      }
      store_vec<W>(out + c, sum);
      if (WEIGHTED && m.scales && c == 0) {
        const float divisor = divisor_of(m.mean, weights);
        const bool nothing = is_nothing(m.mean, divisor);
        for (i64 k = first; k < last; ++k) m.scales[k] = nothing ? 0.0f : m.weights[k] / divisor;
      }
    }
  }
}

template <bool WEIGHTED, class In, class Out>
SOK_DEVICE void combine_aligned_tile(const CombineMember& m, i64 first_bag, int lanes) {
  if (m.dim % 4 == 0 && aligned(m.source, 4 * sizeof(In)) && aligned(m.out, 4 * sizeof(Out))) {
    combine_tile<WEIGHTED, 4, In, Out>(m, first_bag, lanes);
  } else if (m.dim % 2 == 0 && aligned(m.source, 2 * sizeof(In)) && aligned(m.out, 2 * sizeof(Out))) {
    combine_tile<WEIGHTED, 2, In, Out>(m, first_bag, lanes);
  } else {
    combine_tile<WEIGHTED, 1, In, Out>(m, first_bag, lanes);
  }
}

// `members` is not SOK_RESTRICT: fields that several forms read would be read once, and kept in 16 registers more.
template <bool WEIGHTED>
SOK_DEVICE void combine_tiles(const CombineMember* members, const i64* SOK_RESTRICT starts, i64 count, i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const CombineMember& m = members[t];
    const int lanes = lanes_of_row(m.dim);
    const i64 first = (tile - starts[t]) * (COMBINE_BAGS * 32 / lanes);
    if (m.source_half) {
      combine_aligned_tile<WEIGHTED, u16, u16>(m, first, lanes);
    } else if (m.out_half) {
      combine_aligned_tile<WEIGHTED, float, u16>(m, first, lanes);
    } else {
      combine_aligned_tile<WEIGHTED, float, float>(m, first, lanes);
    }
  }
}

SOK_KERNEL sok1x_group_combine(const CombineMember* members, const i64* SOK_RESTRICT starts, i64 count, i64 tiles) {
  combine_tiles<false>(members, starts, count, tiles);
}

// The sum or mean of a bag of 32-bit floats that lie side by side, in fours: the four numbers from c on.
SOK_DEVICE Vec<4> combine_plain_bag(const CombineMember& m, i64 b, int c) {
  const int AHEAD = 4;
  const float* SOK_RESTRICT const source = (const float*)m.source.base;
  const i32* SOK_RESTRICT const rows = m.inverse;
  const int dim = (int)m.dim;
  const i64 first = max(0ll, min(m.n_keys, m.offsets[b])), last = max(first, min(m.n_keys, m.offsets[b + 1]));
  Vec<4> sum = zero_vec<4>();
  for (i64 k = first; k < last; k += AHEAD) {
    i32 row[AHEAD];
    Vec<4> value[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) row[a] = k + a < last ? rows[k + a] : -1;
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
      if (row[a] >= 0) value[a] = load_vec<4>(source + (i64)row[a] * dim + c);
    }
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
      if (row[a] < 0) continue;
      for (int w = 0; w < 4; ++w) sum.lane[w] = sum.lane[w] + value[a].lane[w];
    }
  }
  if (m.mean && last > first) {
    const float keys = (float)(last - first);
    for (int w = 0; w < 4; ++w) sum.lane[w] = sum.lane[w] / keys;
  }
  return sum;
}

// What members are, as a rule: such rows and sums, and no weights. A warp's tile is one bag for each of its teams. 64
// registers in place of 80: more warps wait for memory at a time.
SOK_KERNEL sok1x_group_plain_combine(const CombineMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                     i64 count, i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const CombineMember& m = members[t];
    const int dim = (int)m.dim, lanes = lanes_of_row(dim);
    const i64 b = (tile - starts[t]) * (32 / lanes) + warp_lane() / lanes;
    if (b >= m.n_bags) continue;
    for (int c = (warp_lane() & (lanes - 1)) * 4; c < dim; c += lanes * 4) {
      store_vec<4>((float*)m.out.base + b * dim + c, combine_plain_bag(m, b, c));
    }
  }
}

// The same where few bags have more than one key: the rows of SHORT_BAGS bags are asked for before the first is
// written. What has more keys is summed then.
SOK_KERNEL sok1x_group_short_combine(const CombineMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                     i64 count, i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const CombineMember& m = members[t];
    const float* SOK_RESTRICT const source = (const float*)m.source.base;
    float* SOK_RESTRICT const out = (float*)m.out.base;
    const int dim = (int)m.dim, lanes = lanes_of_row(dim), apart = 32 / lanes;
    const i64 begin = (tile - starts[t]) * (SHORT_BAGS * apart) + warp_lane() / lanes;
    const int NOTHING = -1, LONGER = -2;
    i32 row[SHORT_BAGS];
    bool longer = false;
#pragma unroll
    for (int r = 0; r < SHORT_BAGS; ++r) {
      const i64 b = begin + r * apart;
      row[r] = NOTHING;
      if (b >= m.n_bags) continue;
      const i64 first = max(0ll, min(m.n_keys, m.offsets[b])), last = max(first, min(m.n_keys, m.offsets[b + 1]));
      if (last > first) row[r] = last > first + 1 ? LONGER : max(NOTHING, m.inverse[first]);
      longer |= row[r] == LONGER;
    }
    for (int c = (warp_lane() & (lanes - 1)) * 4; c < dim; c += lanes * 4) {
      Vec<4> value[SHORT_BAGS];
#pragma unroll
      for (int r = 0; r < SHORT_BAGS; ++r) {
        value[r] = zero_vec<4>();
        if (row[r] >= 0) value[r] = load_vec<4>(source + (i64)row[r] * dim + c);
      }
#pragma unroll
      for (int r = 0; r < SHORT_BAGS; ++r) {
        const i64 b = begin + r * apart;
        for (int w = 0; w < 4; ++w) value[r].lane[w] = 0.0f + value[r].lane[w];  // as a sum that began from 0: no -0
        if (b < m.n_bags && row[r] != LONGER) store_vec<4>(out + b * dim + c, value[r]);
      }
      if (!longer) continue;
#pragma unroll 1
      for (i64 b = begin; b < min(m.n_bags, begin + SHORT_BAGS * apart); b += apart) {
        if (m.offsets[b + 1] > m.offsets[b] + 1) store_vec<4>(out + b * dim + c, combine_plain_bag(m, b, c));
      }
    }
  }
}

// For a group of which any member has weights.
SOK_KERNEL sok1x_group_weighted_combine(const CombineMember* members, const i64* SOK_RESTRICT starts, i64 count,
                                        i64 tiles) {
  combine_tiles<true>(members, starts, count, tiles);
}

#else

namespace {

template <class In, class Out, class RowAt>
void combine_items(const CombineMember& m, const RowAt& row_at, i64 begin, i64 end) {
  sok1x::for_runs(m.out, begin, end, m.dim * (i64)sizeof(Out), [&](i64 first, i64 last, char* out) {
    combine_run(row_at, m.dim, nullptr, m.inverse, m.offsets, first, last, (i32)m.mean, (Out*)out, m.offsets[last],
                m.weights, m.scales);
  });
}

template <class In, class Out>
void combine_items(const CombineMember& m, i64 begin, i64 end) {
  if (m.source.count) {
    combine_items<In, Out>(m, sok1x::RowsIn<const In>{m.source, m.dim * (i64)sizeof(In)}, begin, end);
  } else {
    combine_items<In, Out>(m, sok1x::RowsOf<const In>{(const In*)m.source.base, m.dim}, begin, end);
  }
}

}  // namespace

SOK_EXPORT void sok1x_group_combine(const CombineMember* members, const i64* starts, i64 count, i64 items) {
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) {
    const CombineMember& m = members[t];
    bytes += (m.n_keys + m.n_bags) * m.dim * 4;
    if (!m.out.count) SOK_OUTPUT(m.out.base, m.n_bags * m.dim * (m.out_half ? 2 : 4));
  }
  sok1x::for_group(starts, count, bytes / std::max<i64>(1, items), [=](i64 t, i64 begin, i64 end) {
    const CombineMember& m = members[t];
    if (m.source_half) {
      combine_items<u16, u16>(m, begin, end);
    } else {
      m.out_half ? combine_items<float, u16>(m, begin, end) : combine_items<float, float>(m, begin, end);
    }
  });
}

SOK_EXPORT i64 sok1x_group_combine_member_bytes() { return sizeof(CombineMember); }

#endif
