// Where the bags of many tables' batches begin, and how long each batch's longest is, in one launch each; see
// combine.cu and bags.cu.
#include "bags.cuh"
#include "groups.cuh"

#ifdef __CUDACC__

// Tiles are of items, one more than a member has; of a member with splits, of these. counts [3][count], 0 before:
// `outside`, `unsorted` and `longest`.
SOK_KERNEL sok1x_group_bag_offsets(const BagsMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                   i64 tiles, i64* counts) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const BagsMember m = members[t];
    start_item(m, (tile - starts[t]) * GROUP_TILE + warp_lane(), counts + t, counts + count + t);
  }
}

// Tiles are of bags.
SOK_KERNEL sok1x_group_longest_bags(const BagsMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                                    i64 tiles, i64* counts) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const BagsMember m = members[t];
    const i64 b = (tile - starts[t]) * GROUP_TILE + warp_lane();
    i64 most = b < m.n_bags ? length_of_bag(m.offsets, b) : 0;
    for (int step = 16; step; step >>= 1) {
      const i64 other = __shfl_xor_sync(0xffffffffu, most, step);
      most = other > most ? other : most;
    }
    if (warp_lane() == 0) atomic_max(counts + 2 * count + t, most);
  }
}

#else

namespace {

// Whether items begin to end - 1 are the next bags' after the one of the item before, one each, as most batches' are:
// then these bags are started.
bool start_one_each(const BagsMember& m, i64 begin, i64 end, i64 previous) {
  const i64 n = end - begin;
  if (previous < -1 || previous >= m.n_bags - n) return false;
  const i64* const bags = m.bags + begin * m.stride;
  const i64 first = previous + 1;
  if (bags[(n - 1) * m.stride] != first + n - 1) return false;
  i64 other = 0;  // in a form that the compiler makes vectors of
  for (i64 i = 0; i < n; ++i) other |= bags[i * m.stride] ^ (first + i);
  if (other) return false;
  for (i64 i = 0; i < n; ++i) m.offsets[first + i] = begin + i;
  return true;
}

}  // namespace

SOK_EXPORT void sok1x_group_bag_offsets(const BagsMember* members, const i64* starts, i64 count, i64 items,
                                        i64* counts) {
  memset(counts, 0, 3 * count * sizeof *counts);
  sok1x::for_group(starts, count, 32, [=](i64 t, i64 begin, i64 end) {
    const BagsMember& m = members[t];
    if (m.splits) {
      for (i64 i = begin; i < end; ++i) take_splits(m.splits, m.n, m.n_bags, i, m.offsets, counts + t);
      return;
    }
    const i64 ITEMS = 64;  // at a time
    i64 previous = begin > 0 ? m.bags[(begin - 1) * m.stride] : -1;
    for (i64 i = begin, stop; i < end; i = stop) {
      stop = std::min(end, i + ITEMS);
      if (stop <= m.n && start_one_each(m, i, stop, previous)) {
        previous += stop - i;
        continue;
      }
      for (; i < stop; ++i) {
        const i64 bag = i < m.n ? m.bags[i * m.stride] : m.n_bags;
        if (bag >= 0 && bag < m.n_bags && bag - 1 == previous) {  // as start_bags does, and as most items are
          m.offsets[bag] = i;
        } else {
          start_bags(m.bags, m.stride, m.n, m.n_bags, i, m.offsets, counts + t, counts + count + t);
        }
        previous = bag;
      }
    }
  });
}

SOK_EXPORT void sok1x_group_longest_bags(const BagsMember* members, const i64* starts, i64 count, i64 items,
                                         i64* counts) {
  sok1x::for_group(starts, count, 8, [=](i64 t, i64 begin, i64 end) {
    i64 most = 0;
    for (i64 b = begin; b < end; ++b) most = std::max(most, length_of_bag(members[t].offsets, b));
    atomic_max(counts + 2 * count + t, most);
  });
}

SOK_EXPORT i64 sok1x_group_bags_member_bytes() { return sizeof(BagsMember); }

#endif
