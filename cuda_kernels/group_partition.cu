// Keys of many tables grouped by the rank that owns them, in as many launches as those of one; see
// partition.cu. What is sent lies as [owner][member][key], in a member's order.
#include "groups.cuh"
#include "owners.cuh"

SOK_DEVICE i64 value_of(const PartitionMember& m, i64 i) { return load_key(m.values, (i32)m.key_type, i); }

#ifdef __CUDACC__
// places [ranks * tiles + 1]: the keys that a tile has for a rank; later their running sum, by rank and then by tile.
// As a member's tiles are neighbours, that is the order in which keys are sent.

// The lanes of the whole warp whose keys have the same owner; lanes without a key have none's.
SOK_DEVICE u32 same_owner(bool valid, i64 owner) { return __match_any_sync(0xffffffffu, valid ? (u32)owner : ~0u); }

SOK_KERNEL sok1x_group_partition_count(const PartitionMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                       i64 count, i64 tiles, const i64* SOK_RESTRICT distinct,
                                       i32* SOK_RESTRICT places) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    const bool valid = i < distinct[t];
    const i64 owner = valid ? members[t].first + owner_of(value_of(members[t], i), members[t].parts) : 0;
    const u32 same = same_owner(valid, owner);
    if (valid && warp_lane() == __ffs(same) - 1) places[owner * tiles + tile] = __popc(same);
  }
}

// counts[rank][t]: keys of member t that go to the rank. to_own[rank][t]: what is to be added to a key's place among
// all sent keys to have its place among the member's own.
SOK_KERNEL sok1x_group_partition_counts(const i64* SOK_RESTRICT starts, i64 count, i64 tiles, i64 ranks,
                                        const i32* SOK_RESTRICT places, i64* SOK_RESTRICT counts,
                                        i32* SOK_RESTRICT to_own) {
  SOK_PARALLEL_FOR(t, count, 0) {
    i32 own = 0;
    for (i64 rank = 0; rank < ranks; ++rank) {
      const i32 begin = places[rank * tiles + starts[t]], end = places[rank * tiles + starts[t + 1]];
      counts[rank * count + t] = end - begin;
      to_own[rank * count + t] = own - begin;
      own += end - begin;
    }
  }
}

SOK_KERNEL sok1x_group_partition_place(const PartitionMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                       i64 count, i64 tiles, const i64* SOK_RESTRICT distinct,
                                       const i32* SOK_RESTRICT places, const i32* SOK_RESTRICT to_own,
                                       i64* SOK_RESTRICT sent) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    const bool valid = i < distinct[t];
    const i64 key = valid ? value_of(members[t], i) : 0;
    const i64 owner = valid ? members[t].first + owner_of(key, members[t].parts) : 0;
    const u32 same = same_owner(valid, owner);
    if (valid) {
      const i32 place = places[owner * tiles + tile] + __popc(same & ((1u << warp_lane()) - 1));
      sent[place] = key;
      members[t].position[i] = place + to_own[owner * count + t];
    }
  }
}

SOK_KERNEL sok1x_group_partition_remap(const PartitionMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                       i64 count, i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    if (i < members[t].n_inverse) members[t].inverse[i] = members[t].position[members[t].inverse[i]];
  }
}

#else
#include <vector>

// One thread a member, as long as there are enough of them.
SOK_EXPORT void sok1x_group_partition(const PartitionMember* members, i64 count, const i64* distinct, i64 ranks,
                                      i64* counts, i64* sent) {
  const i64 stride = ranks + 8;  // a cache line lies between the counters of two members, which two threads count in
  std::vector<i64> first(count * stride, 0);
  i64* const places = first.data();
  // position holds the owner until the second pass.
  sok1x::parallel_chunks(count, 1, [=](i64 begin, i64 end) {
    for (i64 t = begin; t < end; ++t) {
      const PartitionMember& m = members[t];
      const OwnerOf owner(m.parts);
      for (i64 i = 0; i < distinct[t]; ++i) {
        m.position[i] = (i32)(m.first + owner(value_of(m, i)));
        ++places[t * stride + m.position[i]];
      }
    }
  });
  i64 next = 0;
  for (i64 rank = 0; rank < ranks; ++rank) {
    for (i64 t = 0; t < count; ++t) {
      counts[rank * count + t] = places[t * stride + rank];
      places[t * stride + rank] = next;
      next += counts[rank * count + t];
    }
  }
  sok1x::parallel_chunks(count, 1, [=](i64 begin, i64 end) {
    std::vector<i64> to_own(ranks);
    for (i64 t = begin; t < end; ++t) {
      const PartitionMember& m = members[t];
      i64* const place = places + t * stride;
      i64 own = 0;
      for (i64 rank = 0; rank < ranks; ++rank) {
        to_own[rank] = own - place[rank];
        own += counts[rank * count + t];
      }
      for (i64 i = 0; i < distinct[t]; ++i) {
        const i32 rank = m.position[i];
        sent[place[rank]] = value_of(m, i);
        m.position[i] = (i32)(place[rank]++ + to_own[rank]);
      }
      for (i64 i = 0; i < m.n_inverse; ++i) m.inverse[i] = m.position[m.inverse[i]];
    }
  });
}

SOK_EXPORT i64 sok1x_group_partition_member_bytes() { return sizeof(PartitionMember); }

#endif
