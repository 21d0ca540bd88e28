// Keys grouped by the rank that owns them, and the bookkeeping of that permutation.
#include "owners.cuh"

SOK_KERNEL sok1x_permute(const i64* SOK_RESTRICT values, const i32* SOK_RESTRICT position, i64 n,
                         i64* SOK_RESTRICT out) {
  SOK_PARALLEL_FOR(i, n, 20) { out[position[i]] = values[i]; };
}

SOK_KERNEL sok1x_remap(i32* SOK_RESTRICT inverse, const i32* SOK_RESTRICT position, i64 n) {
  SOK_PARALLEL_FOR(i, n, 12) { inverse[i] = position[inverse[i]]; };
}

#ifndef __CUDACC__
#include <vector>

// Host form: a stable counting sort over blocks of consecutive keys. Each block counts its keys by owner, the
// counts give each (owner, block) its place, each block then puts its keys there. The number of blocks
// does not show in the result.
SOK_EXPORT void sok1x_partition(const i64* keys, i64 n, i64 parts, i64* counts, i64* grouped, i32* position) {
  const i64 blocks = std::max<i64>(1, std::min<i64>(sok1x::ThreadPool::get().threads(), n >> 12));
  const i64 stride = parts + 8;  // a cache line lies between the counters of two blocks, which two threads count in
  std::vector<i64> places(blocks * stride, 0);
  i64* place = places.data();
  const OwnerOf owner(parts);

  // position holds the owner until the second pass.
  sok1x::parallel_chunks(blocks, 1, [=](i64 begin, i64 end) {
    for (i64 block = begin; block < end; ++block) {
      i64* count = place + block * stride;
      for (i64 i = n * block / blocks; i < n * (block + 1) / blocks; ++i) {
        const i64 part = owner(keys[i]);
        position[i] = (i32)part;
        ++count[part];
      }
    }
  });
  i64 next = 0;
  for (i64 part = 0; part < parts; ++part) {
    const i64 first = next;
    for (i64 block = 0; block < blocks; ++block) {
      const i64 count = place[block * stride + part];
      place[block * stride + part] = next;
      next += count;
    }
    counts[part] = next - first;
  }
  sok1x::parallel_chunks(blocks, 1, [=](i64 begin, i64 end) {
    for (i64 block = begin; block < end; ++block) {
      i64* to = place + block * stride;
      for (i64 i = n * block / blocks; i < n * (block + 1) / blocks; ++i) {
        const i64 where = to[position[i]]++;
        grouped[where] = keys[i];
        position[i] = (i32)where;
      }
    }
  });
}
#else
// On a GPU the owners are sorted (sort.cu), and what was sorted tells every key its place.
SOK_KERNEL sok1x_owners(const i64* SOK_RESTRICT keys, i64 n, i64 parts, u32* SOK_RESTRICT owners) {
  SOK_PARALLEL_FOR(i, n, 12) { owners[i] = (u32)owner_of(keys[i], parts); };
}

// places: the place in `keys` of each key of `grouped`.
SOK_KERNEL sok1x_group(const i64* SOK_RESTRICT keys, const u32* SOK_RESTRICT sorted_owners,
                       const i32* SOK_RESTRICT places, i64 n, i64* SOK_RESTRICT grouped, i32* SOK_RESTRICT position,
                       u64* SOK_RESTRICT counts) {
  SOK_PARALLEL_FOR(i, n, 32) {
    grouped[i] = keys[places[i]];
    position[places[i]] = (i32)i;
    const u32 here = __activemask();
    const u32 same = __match_any_sync(here, sorted_owners[i]);  // one addition for a warp's keys of one owner
    if ((threadIdx.x & 31) == (u32)(__ffs(same) - 1)) atomicAdd(counts + sorted_owners[i], (u64)__popc(same));
  };
}
#endif
