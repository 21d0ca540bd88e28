// Sums of rows by segment number for many tables, in as many launches as for one; see segment_sum.cu and, for the GPU's
// way, segment_sum_gpu.cuh. Terms and sums may lie in several blocks. Where a member has bags, an item is a key, and
// its term is the row of the bag that it is in.
#include "groups.cuh"
#ifdef __CUDACC__
#include "group_sum_chunk.cuh"
#include "group_sum_terms.cuh"
#else
#include "group_sum_host.h"
#endif

#ifdef __CUDACC__
// `begins` [segments of all members + 1] are first counts, then their running sum: begins[g] is the place of the first
// source of segment g among the sources of all members, which are brought into the order of their segments.

// place[32 * tile + lane]: which of its segment's sources the tile's item is.
SOK_KERNEL sok1x_group_sum_count(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                 i64 tiles, i32* begins, i32* SOK_RESTRICT place) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = members[t];
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    if (i < m.n && m.segments[i] >= 0) {
      place[tile * GROUP_TILE + warp_lane()] = atomicAdd(begins + m.first_segment + m.segments[i], 1);
    }
  }
}

// ordered[begins[g] + place]: the terms of segment g. scales: likewise what they are multiplied with, null where all
// are taken as they are.
SOK_KERNEL sok1x_group_sum_place(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                 i64 tiles, const i32* SOK_RESTRICT begins, const i32* SOK_RESTRICT place,
                                 Term* SOK_RESTRICT ordered, float* SOK_RESTRICT scales) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = members[t];
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    if (i < m.n && m.segments[i] >= 0) {
      const i64 segment = m.segments[i], row = row_of_item(m, i);
      const Term term = {row_in(m.values, row, m.dim * (m.values_half ? 2 : 4)),
                         (float*)row_in(m.sums, segment, m.dim * 4)};
      const i64 at = begins[m.first_segment + segment] + place[tile * GROUP_TILE + warp_lane()];
      ordered[at] = term;
      if (scales) scales[at] = scale_of(m, i, row);
    }
  }
}

// Clears the rows that sok1x_group_sum_chunks does not store as a whole, as sok1x_segment_clear. Tiles are of segments.
SOK_KERNEL sok1x_group_sum_clear(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                 i64 tiles, const i32* SOK_RESTRICT begins) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = members[t];
    const i64 first = (tile - starts[t]) * GROUP_TILE;
    const i64 mine = first + warp_lane();
    bool clear = false;
    if (mine < m.num_segments) {
      const i32* const of_member = begins + m.first_segment;
      const i32 begin = of_member[mine] - of_member[0], last = of_member[mine + 1] - 1 - of_member[0];
      clear = begin > last || begin / SEGMENT_CHUNK != last / SEGMENT_CHUNK;
    }
    for (u32 left = __ballot_sync(0xffffffffu, clear); left; left &= left - 1) {
      float* const row = (float*)row_in(m.sums, first + __ffs(left) - 1, m.dim * 4);
      for (i64 c = warp_lane(); c < m.dim; c += 32) row[c] = 0.0f;
    }
  }
}

template <int W, class T>
SOK_DEVICE void sum_segment(const SumMember& m, i64 segment, const i32* SOK_RESTRICT sources,
                            const float* SOK_RESTRICT scales, i64 begin, i64 end, i64 first_source, int lanes) {
  const int AHEAD = 8;
  const i64 dim = m.dim;
  float* const out = (float*)row_in(m.sums, segment, dim * 4);
  for (i64 c = (warp_lane() & (lanes - 1)) * W; c < dim; c += lanes * W) {
    Pack<float, W> sum = {};
#pragma unroll 1
    for (i64 p = begin; p < end; p += AHEAD) {
      Pack<T, W> value[AHEAD];
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        if (p + a < end) {
          const i64 row = sources[p + a] - first_source;
          value[a] = *(const Pack<T, W>*)((const T*)row_in(m.values, row, dim * sizeof(T)) + c);
        }
      }
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        if (p + a >= end) break;
        const float scale = scales ? scales[p + a] : 1.0f;
        for (int w = 0; w < W; ++w) sum.lane[w] += scale * summand(value[a].lane[w]);
      }
    }
    *(Pack<float, W>*)(out + c) = sum;
  }
}

// A tile has a chunk for each team of the warp. PLAIN: terms are of 32 bits and come, as sums do, in fours.
template <bool PLAIN, class Scales>
SOK_DEVICE void sum_chunks(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count, i64 tiles,
                           const i32* SOK_RESTRICT begins, const Term* SOK_RESTRICT ordered, const Scales& scales) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = members[t];
    const int lanes = lanes_of_row(m.dim);
    const i64 first = ((tile - starts[t]) * (32 / lanes) + warp_lane() / lanes) * SEGMENT_CHUNK;
    const i64 begin = begins[m.first_segment], total = begins[m.first_segment + m.num_segments] - begin;
    if (PLAIN) {
      if (first < total) sum_chunk<4, float>(m.dim, ordered + begin, scales + begin, first, total, lanes);
    } else {
      SOK_BY_TERMS(m, first < total, sum_chunk, m.dim, ordered + begin, scales + begin, first, total, lanes);
    }
  }
}

// Two blocks of a multiprocessor have enough in flight.
SOK_KERNEL __launch_bounds__(256, 2)
sok1x_group_sum_chunks(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count, i64 tiles,
                       const i32* SOK_RESTRICT begins, const Term* SOK_RESTRICT ordered) {
  sum_chunks<false>(members, starts, count, tiles, begins, ordered, NoScales());
}

// For a group whose terms are of 32 bits and come, as its sums do, in fours and in one block: of 80 registers in place
// of 128, so three blocks of a multiprocessor.
SOK_KERNEL sok1x_group_sum_plain_chunks(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                        i64 count, i64 tiles, const i32* SOK_RESTRICT begins,
                                        const Term* SOK_RESTRICT ordered) {
  sum_chunks<true>(members, starts, count, tiles, begins, ordered, NoScales());
}

SOK_KERNEL __launch_bounds__(256, 2)
sok1x_group_sum_scaled_chunks(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                              i64 tiles, const i32* SOK_RESTRICT begins, const Term* SOK_RESTRICT ordered,
                              const float* SOK_RESTRICT scales) {
  sum_chunks<false>(members, starts, count, tiles, begins, ordered, scales);
}

// For a sort of the sources: the number of their segment among those of all members; `no_segment`, the highest, for
// negative ones and for what fills a tile up.
SOK_KERNEL sok1x_group_sum_keys(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                i64 tiles, i64 no_segment, u32* SOK_RESTRICT keys) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = members[t];
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    const bool summed = i < m.n && m.segments[i] >= 0;
    keys[tile * GROUP_TILE + warp_lane()] = (u32)(summed ? m.first_segment + m.segments[i] : no_segment);
  }
}

// From items to the rows that are their terms, in place, for the members that have bags; n: all sources. scales [n],
// null where all terms are taken as they are: what they are multiplied with.
SOK_KERNEL sok1x_group_sum_bags(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count, i64 n,
                                i32* SOK_RESTRICT sources, float* SOK_RESTRICT scales) {
  SOK_PARALLEL_FOR(p, n, 0) {
    const i64 t = part_of(starts, count, sources[p] / GROUP_TILE);
    const i64 i = sources[p] - starts[t] * GROUP_TILE;
    if (i < members[t].n) {
      const i64 row = row_of_item(members[t], i);
      if (members[t].offsets) sources[p] = (i32)row;
      if (scales) scales[p] = scale_of(members[t], i, row);
    }
  };
}

// One team a segment, sources in the order of the sort: the same bits each time, and the host's. item_starts: the tiles
// of items, in whose order the sources were numbered, unless they are rows of bags.
SOK_KERNEL sok1x_group_sum_in_order(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                    i64 tiles, const i64* SOK_RESTRICT item_starts, const i32* SOK_RESTRICT begins,
                                    const i32* SOK_RESTRICT sources, const float* SOK_RESTRICT scales) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = members[t];
    const int lanes = lanes_of_row(m.dim);
    const i64 segment = (tile - starts[t]) * (32 / lanes) + warp_lane() / lanes;
    const bool here = segment < m.num_segments;
    const i32* const of_member = begins + m.first_segment;
    const i64 begin = here ? of_member[segment] : 0, end = here ? of_member[segment + 1] : 0;
    SOK_BY_TERMS(m, here, sum_segment, m, segment, sources, scales, begin, end,
                 m.offsets ? 0 : item_starts[t] * GROUP_TILE, lanes);
  }
}

#else

namespace {

template <class Out>
void sum_part(const SumMember& m, const sok1x::Part& part, const Out& out) {
  sok1x::Sums<Out> sums(out, m.dim, part.begin, part.end);
  sok1x::offer_terms(m, part, &sums);
}

}  // namespace

SOK_EXPORT void sok1x_group_sum(const SumMember* members, i64 count) {
  for (i64 t = 0; t < count; ++t) {
    const SumMember& m = members[t];
    if (!m.sums.count) SOK_OUTPUT(m.sums.base, m.num_segments * m.dim * 4);
  }
  sok1x::for_parts(members, count, [=](i64 t) { return sok1x::bytes_of_terms(members[t], 1); },
                   [=](const sok1x::Part& part) {
    const SumMember& m = members[part.member];
    if (m.sums.count) {
      sum_part(m, part, sok1x::RowsIn<float>{m.sums, m.dim * 4});
    } else {
      sum_part(m, part, sok1x::RowsOf<float>{(float*)m.sums.base, m.dim});
    }
  });
}

SOK_EXPORT i64 sok1x_group_sum_member_bytes() { return sizeof(SumMember); }

#endif
