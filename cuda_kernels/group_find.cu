// Keys of many tables to rows, in one launch; on the host the rows' values are copied, or summed by bag, on the way.
#ifndef __CUDACC__
#include "combine_host.h"
#endif
#include "bags.cuh"
#include "groups.cuh"
#include "hash_index.cuh"
#include "lookup.cuh"

SOK_DEVICE i32 row_of_key(const FindMember& m, i64 key) {
  if (m.index) return find_row(m.index, m.capacity, key);
  if (m.limit && (key < m.least || key >= m.limit)) return -1;
  return m.ranks ? (i32)(key / m.ranks) : 0;
}

#ifdef __CUDACC__

SOK_DEVICE void find_tile(const FindMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count, i64 tile,
                          i64* missing) {
  const i64 t = part_of(starts, count, tile);
  const FindMember m = members[t];
  const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
  if (i < m.n) {
    const i32 row = row_of_key(m, key_in(m.keys, m.key_type, i));
    m.rows[i] = row;
    count_in_warp(missing + t, row < 0);
  }
}

// missing[t], 0 before, grows by the number of member t's keys that have no row.
SOK_KERNEL sok1x_group_find(const FindMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                            i64 tiles, i64* missing) {
  SOK_GROUP_TILES(tile, tiles) { find_tile(members, starts, count, tile, missing); }
}

// As sok1x_group_bag_offsets, for one tile; and most + 1 counts as `longest` where a bag has more than `most` keys: in
// batches that are in order the key `most` places behind one of its keys is its own, too.
SOK_DEVICE void start_tile(const BagsMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count, i64 tile,
                           i64* counts) {
  const i64 t = part_of(starts, count, tile);
  const BagsMember m = members[t];
  const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
  start_item(m, i, counts + t, counts + count + t);
  if (m.n <= m.most) return;
  const bool longer = m.splits ? i > 0 && i <= m.n_bags && (u64)m.splits[i] - (u64)m.splits[i - 1] > (u64)m.most
                               : i + m.most < m.n && m.bags[i * m.stride] == m.bags[(i + m.most) * m.stride];
  if (longer) atomic_max(counts + 2 * count + t, (m.most + 1) << BAG_BITS);
}

// As sok1x_group_find, and in the same launch where bags begin, which the first tiles are for: neither needs the other.
// counts [4, count], 0 before: `outside`, `unsorted`, `longest` and `missing`.
SOK_KERNEL sok1x_group_find_and_start(const FindMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                      const BagsMember* SOK_RESTRICT bags, const i64* SOK_RESTRICT bag_starts,
                                      i64 count, i64 tiles, i64 bag_tiles, i64* counts) {
  SOK_GROUP_TILES(tile, bag_tiles + tiles) {
    if (tile < bag_tiles) {
      start_tile(bags, bag_starts, count, tile, counts);
    } else {
      find_tile(members, starts, count, tile - bag_tiles, counts + 3 * count);
    }
  }
}

#else

// Whether bags begin to end - 1, below n_bags, have one key each, in order, as most batches' bags have. In a form that
// the compiler makes vectors of.
SOK_VECTORS static bool one_each(const BagsMember& m, i64 begin, i64 end) {
  const i64 *const splits = m.splits, *const bags = m.bags, stride = m.stride;
  i64 other = 0;
  if (splits) {
    for (i64 i = begin; i <= end; ++i) other |= splits[i] ^ i;
  } else if (stride == 2) {  // a SparseTensor's indices
    for (i64 i = begin; i < end; ++i) other |= bags[2 * i] ^ i;
  } else {
    for (i64 i = begin; i < end; ++i) other |= bags[stride * i] ^ i;
  }
  return other == 0;
}

namespace {

// Keys begin to end - 1 of a member, which lie side by side as do the rows that their values go to.
template <class K, class Out>
i64 find_run(const FindMember& m, const void* keys, i64 n, i32* rows, Out* out) {
  if (m.index) {
    const Slot* const index = m.index;
    const i64 capacity = m.capacity;
    const auto ask = [=](i64 key) { prefetch_slot(index, capacity, key); };
    const auto find = [=](i64 key) { return find_row(index, capacity, key); };
    return m.again ? look_up_lacking((const K*)keys, n, ask, find, m.table, m.dim, rows, out)
                   : look_up_run((const K*)keys, 0, n, ask, find, m.table, m.dim, rows, out);
  }
  if (m.ranks == 1 && m.limit && !m.least) {  // without a division
    const u64 limit = (u64)m.limit;
    return look_up_run((const K*)keys, 0, n, [](i64) {}, [=](i64 key) { return (u64)key < limit ? (i32)key : -1; },
                       m.table, m.dim, rows, out);
  }
  return look_up_run((const K*)keys, 0, n, [](i64) {}, [&m](i64 key) { return row_of_key(m, key); }, m.table, m.dim,
                     rows, out);
}

template <class Out>
i64 find_run(const FindMember& m, const void* keys, i64 n, i32* rows, Out* out) {
  switch (m.key_type) {
    case KEY_INT32: return find_run<i32>(m, keys, n, rows, out);
    case KEY_UINT32: return find_run<u32>(m, keys, n, rows, out);
    default: return find_run<i64>(m, keys, n, rows, out);
  }
}

template <class Out>
i64 find_and_copy(const FindMember& m, i64 begin, i64 end) {
  i64 missed = 0;
  const i64 bytes = key_bytes(m.key_type);
  sok1x::for_runs(m.keys, begin, end, bytes, [&](i64 first, i64 last, const char* keys) {
    sok1x::for_runs(m.out, first, last, m.dim * (i64)sizeof(Out), [&](i64 from, i64 to, char* out) {
      missed += find_run(m, keys + (from - first) * bytes, to - from, m.rows + from, (Out*)out);
    });
  });
  return missed;
}

i64 find_only(const FindMember& m, i64 begin, i64 end) {
  i64 missed = 0;
  sok1x::for_runs(m.keys, begin, end, key_bytes(m.key_type), [&](i64 first, i64 last, const char* keys) {
    missed += find_run(m, keys, last - first, m.rows + first, (float*)nullptr);
  });
  return missed;
}

// A float of a sum: a row that is copied there is added to zero, as combine_run does.
struct Summed {
  float value;
};

SOK_DEVICE void copy_row(Summed* out, const float* row, i64 dim) { start_row(&out->value, row, 1.0f, dim); }

// Of `n` bags with one key each, and no weights: rows of their keys, and their sums, as where rows are copied.
i64 find_and_sum(const FindMember& m, i64 first, i64 n, float* out) {
  const i64 missed = find_run(m, m.keys.base + first * key_bytes(m.key_type), n, m.rows + first, (Summed*)out);
  for (i64 i = 0; missed && i < n; ++i) {
    if (m.rows[first + i] < 0) zero_row(out + i * m.dim, m.dim);
  }
  return missed;
}
i64 find_and_sum(const FindMember&, i64, i64, u16*) { return 0; }

// Whether bags begin to end - 1 have one key each; of sums of 16-bit floats nobody asks.
bool one_each(const CombineMember& bags, i64 begin, i64 end, const float*) {
  if (bags.weights || bags.offsets[end] - bags.offsets[begin] != end - begin) return false;
  i64 other = 0;  // in a form that the compiler makes vectors of
  for (i64 b = begin; b < end; ++b) other |= (bags.offsets[b + 1] - bags.offsets[b]) ^ 1;
  return other == 0;
}
bool one_each(const CombineMember&, i64, i64, const u16*) { return false; }

// The bags begin to end - 1: rows of their keys, and their sums.
template <class Out>
i64 find_and_combine(const FindMember& m, const CombineMember& bags, i64 begin, i64 end) {
  const i64 BAGS = 256;  // whose rows are found at a time
  const i64 bytes = key_bytes(m.key_type), all = bags.offsets[end];
  const sok1x::RowsOf<const float> row_at = {m.table, m.dim};
  i64 missed = 0, found = bags.offsets[begin];
  for (i64 b = begin, stop; b < end; b = stop) {
    stop = std::min(end, b + BAGS);
    Out* const out = (Out*)bags.out.base + b * m.dim;
    if (found == bags.offsets[b] && one_each(bags, b, stop, out)) {
      while (stop < end && one_each(bags, stop, std::min(end, stop + BAGS), out)) stop = std::min(end, stop + BAGS);
      missed += find_and_sum(m, found, stop - b, out);
      found += stop - b;
      continue;
    }
    // Of the first keys behind them too: combine_run asks for their rows.
    const i64 until = std::min(all, bags.offsets[stop] + COMBINE_AHEAD);
    if (until > found) {
      missed += find_run(m, m.keys.base + found * bytes, until - found, m.rows + found, (float*)nullptr);
      found = until;
    }
    combine_run(row_at, m.dim, nullptr, m.rows, bags.offsets, b, stop, (i32)bags.mean, out, found, bags.weights,
                bags.scales);
  }
  return missed;
}

}  // namespace

SOK_EXPORT void sok1x_group_find(const FindMember* members, const i64* starts, i64 count, i64 items, i64* missing) {
  memset(missing, 0, count * sizeof *missing);
  sok1x::for_group(starts, count, 32, [=](i64 t, i64 begin, i64 end) {
    const i64 missed = find_only(members[t], begin, end);
    if (missed) atomic_add(missing + t, missed);
  });
}

SOK_EXPORT void sok1x_group_look_up(const FindMember* members, const i64* starts, i64 count, i64 items, i64* missing) {
  memset(missing, 0, count * sizeof *missing);
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) {
    const FindMember& m = members[t];
    bytes += m.n * (32 + m.dim * 8);
    if (!m.out.count) SOK_OUTPUT(m.out.base, m.n * m.dim * (m.out_half ? 2 : 4));
  }
  sok1x::for_group(starts, count, bytes / std::max<i64>(1, items), [=](i64 t, i64 begin, i64 end) {
    const FindMember& m = members[t];
    const i64 missed = m.out_half ? find_and_copy<u16>(m, begin, end) : find_and_copy<float>(m, begin, end);
    if (missed) atomic_add(missing + t, missed);
  });
}

// starts: of bags. Keys, and sums, lie side by side; bags[t] of members[t] have the rows that are found for them.
SOK_EXPORT void sok1x_group_look_up_bags(const FindMember* members, const CombineMember* bags, const i64* starts,
                                         i64 count, i64 items, i64* missing) {
  memset(missing, 0, count * sizeof *missing);
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) {
    const CombineMember& m = bags[t];
    bytes += m.n_keys * (32 + m.dim * 4) + m.n_bags * m.dim * 4;
    SOK_OUTPUT(m.out.base, m.n_bags * m.dim * (m.out_half ? 2 : 4));
  }
  sok1x::for_group(starts, count, bytes / std::max<i64>(1, items), [=](i64 t, i64 begin, i64 end) {
    const i64 missed = bags[t].out_half ? find_and_combine<u16>(members[t], bags[t], begin, end)
                                        : find_and_combine<float>(members[t], bags[t], begin, end);
    if (missed) atomic_add(missing + t, missed);
  });
}

// starts: of bags, as many as there are keys. others[t] becomes 1 where some bag of member t has not one key, its own:
// then what has been found for the member is not to be used.
SOK_EXPORT void sok1x_group_look_up_one_each(const FindMember* members, const BagsMember* bags, const i64* starts,
                                             i64 count, i64 items, i64* others, i64* missing) {
  memset(others, 0, count * sizeof *others);
  memset(missing, 0, count * sizeof *missing);
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) {
    const FindMember& m = members[t];
    bytes += bags[t].n_bags * (48 + m.dim * 8);
    SOK_OUTPUT(m.out.base, bags[t].n_bags * m.dim * 4);
  }
  sok1x::for_group(starts, count, bytes / std::max<i64>(1, items), [=](i64 t, i64 begin, i64 end) {
    if (!one_each(bags[t], begin, end)) {
      atomic_max(others + t, 1);
      return;
    }
    const FindMember& m = members[t];
    const i64 missed = find_and_sum(m, begin, end - begin, (float*)m.out.base + begin * m.dim);
    if (missed) atomic_add(missing + t, missed);
  });
}

SOK_EXPORT i64 sok1x_group_find_member_bytes() { return sizeof(FindMember); }

#endif
