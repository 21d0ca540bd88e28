// Partial sums that all ranks have made of the same bags, added up in the order of the ranks, for many tables in one
// launch. Rows may be of 16-bit floats; sums are of 32-bit ones.
#include "groups.cuh"

// out[b] = parts[0][b] + parts[1][b] + ..., over the number of keys of bag b where there are offsets: zeros for no
// keys.

#ifdef __CUDACC__

template <int W, class T>
SOK_DEVICE void add_parts(const PartsMember& m, i64 b, int lanes) {
  const i64 keys = m.offsets ? m.offsets[b + 1] - m.offsets[b] : 1;
  const float count = (float)keys;
  for (i64 c = b * m.dim + (warp_lane() & (lanes - 1)) * W; c < (b + 1) * m.dim; c += lanes * W) {
    Vec<W> sum = zero_vec<W>();
    if (keys > 0) sum = load_vec<W>((const T*)(m.base + m.at[0]) + c);
    for (i64 p = 1; p < m.n_parts && keys > 0; ++p) {
      const Vec<W> part = load_vec<W>((const T*)(m.base + m.at[p]) + c);
      for (int w = 0; w < W; ++w) sum.lane[w] = sum.lane[w] + part.lane[w];
    }
    if (m.offsets && keys > 0) {
      for (int w = 0; w < W; ++w) sum.lane[w] = sum.lane[w] / count;
    }
    store_vec<W>((T*)m.out + c, sum);
  }
}

template <class T>
SOK_DEVICE void add_aligned_parts(const PartsMember& m, i64 b, int lanes) {
  u64 bits = (u64)m.base | (u64)m.out;
  for (i64 p = 0; p < m.n_parts; ++p) bits |= (u64)m.at[p];
  if (m.dim % 4 == 0 && bits % (4 * sizeof(T)) == 0) {
    add_parts<4, T>(m, b, lanes);
  } else if (m.dim % 2 == 0 && bits % (2 * sizeof(T)) == 0) {
    add_parts<2, T>(m, b, lanes);
  } else {
    add_parts<1, T>(m, b, lanes);
  }
}

// A tile has a bag for each team of the warp.
SOK_KERNEL sok1x_group_parts(const PartsMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                             i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const PartsMember& m = members[t];
    const int lanes = lanes_of_row(m.dim);
    const i64 b = (tile - starts[t]) * (32 / lanes) + warp_lane() / lanes;
    if (b >= m.n_bags) continue;
    m.half ? add_aligned_parts<u16>(m, b, lanes) : add_aligned_parts<float>(m, b, lanes);
  }
}

#else

namespace {

void add(float* SOK_RESTRICT sums, const float* SOK_RESTRICT part, i64 n) {
  for (i64 i = 0; i < n; ++i) sums[i] = sums[i] + part[i];
}

// The numbers `at` to `at` + n - 1 of all parts, in memory that they do not lie in.
void add_numbers(const PartsMember& m, i64 at, i64 n, float* SOK_RESTRICT out) {
  const float* SOK_RESTRICT first = (const float*)(m.base + m.at[0]) + at;
  if (m.n_parts == 1) {
    memcpy(out, first, n * sizeof *out);
    return;
  }
  const float* SOK_RESTRICT second = (const float*)(m.base + m.at[1]) + at;
  for (i64 i = 0; i < n; ++i) out[i] = first[i] + second[i];
  for (i64 p = 2; p < m.n_parts; ++p) add(out, (const float*)(m.base + m.at[p]) + at, n);
}

void divide(float* sums, i64 n, i64 keys) {
  const float count = (float)keys;
  for (i64 i = 0; i < n; ++i) sums[i] = sums[i] / count;
}

void add_bag(const PartsMember& m, i64 b, i64 keys, float* out) {
  add_numbers(m, b * m.dim, m.dim, out);
  if (m.offsets) divide(out, m.dim, keys);
}

void add_bag(const PartsMember& m, i64 b, i64 keys, u16* out) {
  const i64 MOST = 256;  // numbers at a time
  float sums[MOST], part[MOST];
  for (i64 c = 0; c < m.dim; c += MOST) {
    const i64 n = std::min(MOST, m.dim - c), at = b * m.dim + c;
    widen((const u16*)(m.base + m.at[0]) + at, n, sums);
    for (i64 p = 1; p < m.n_parts; ++p) {
      widen((const u16*)(m.base + m.at[p]) + at, n, part);
      add(sums, part, n);
    }
    if (m.offsets) divide(sums, n, keys);
    narrow(sums, n, out + c);
  }
}

template <class T>
void add_parts(const PartsMember& m, i64 begin, i64 end) {
  for (i64 b = begin; b < end; ++b) {
    T* const out = (T*)m.out + b * m.dim;
    const i64 keys = m.offsets ? m.offsets[b + 1] - m.offsets[b] : 1;
    if (keys > 0) {
      add_bag(m, b, keys, out);
    } else {
      zero_row(out, m.dim);
    }
  }
}

}  // namespace

SOK_EXPORT void sok1x_group_parts(const PartsMember* members, const i64* starts, i64 count, i64 items) {
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) {
    const PartsMember& m = members[t];
    bytes += m.n_bags * m.dim * (m.n_parts + 1) * (m.half ? 2 : 4);
    SOK_OUTPUT(m.out, m.n_bags * m.dim * (m.half ? 2 : 4));
  }
  sok1x::for_group(starts, count, bytes / std::max<i64>(1, items), [=](i64 t, i64 begin, i64 end) {
    members[t].half ? add_parts<u16>(members[t], begin, end) : add_parts<float>(members[t], begin, end);
  });
}

SOK_EXPORT i64 sok1x_group_parts_member_bytes() { return sizeof(PartsMember); }

#endif
