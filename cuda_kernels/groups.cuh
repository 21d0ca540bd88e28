// Kernels over a group of tables, its members, in one launch: all members' items lie side by side, and a thread (on the
// host a chunk) finds its member in the running sum `starts` of their sizes.
//
// On CUDA a warp takes a tile of one member's items, so that its threads agree on the member; `starts` counts tiles. On
// the host it counts items. A member is described by a struct of 8-byte fields, which groups.py has as a NumPy dtype.
#ifndef SOK1X_GROUPS_CUH
#define SOK1X_GROUPS_CUH
#include "group_members.h"
#include "half_rows.cuh"

// The part that has item x: starts[part] <= x < starts[part + 1]; starts [count + 1] ascends, count > 0.
SOK_DEVICE i64 part_of(const i64* starts, i64 count, i64 x) {
  i64 low = 0, high = count;
  while (high - low > 1) {
    const i64 middle = (low + high) >> 1;
    if (starts[middle] <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

SOK_DEVICE char* row_in(const Blocks& blocks, i64 row, i64 row_bytes) {
  if (!blocks.count) return blocks.base + row * row_bytes;
  const i64 b = part_of(blocks.starts, blocks.count, row);
  return blocks.base + blocks.offsets[b] + (row - blocks.starts[b]) * row_bytes;
}

SOK_DEVICE i64 key_bytes(i64 key_type) { return key_type == KEY_INT64 ? 8 : 4; }

SOK_DEVICE i64 key_in(const Blocks& keys, i64 key_type, i64 i) {
  return load_key(row_in(keys, i, key_bytes(key_type)), (i32)key_type, 0);
}

#ifdef __CUDACC__

// Every tile that this warp takes. groups.py: TILE has the items of a tile, unless a kernel has tiles of its own.
#define SOK_GROUP_TILES(tile, tiles)                                                      \
  for (i64 tile = (blockIdx.x * (i64)blockDim.x + threadIdx.x) >> 5; tile < (i64)(tiles); \
       tile += ((i64)gridDim.x * blockDim.x) >> 5)
#define GROUP_TILE 32  // as in groups.py

SOK_DEVICE int warp_lane() { return threadIdx.x & 31; }

// Whether all rows begin at multiples of `bytes`, a power of two that divides a row. The whole warp asks together.
SOK_DEVICE bool aligned(const Blocks& blocks, i64 bytes) {
  u64 bits = (u64)blocks.base;
  for (i64 b = warp_lane(); b < blocks.count; b += 32) bits |= (u64)blocks.offsets[b];
  return !__any_sync(0xffffffffu, (bits & (u64)(bytes - 1)) != 0);
}

// Threads that serve one row: make_team's rule, as in backend.py.
SOK_DEVICE int lanes_of_row(i64 dim) {
  int lanes = 1;
  while (lanes < 32 && lanes * 4 < dim) lanes *= 2;
  return lanes;
}

#else

namespace sok1x {

// Calls body(member, begin, end) for pieces that together are all items of all members, shared out over threads.
template <class F>
void for_group(const i64* starts, i64 count, i64 bytes, const F& body) {
  const i64 items = count ? starts[count] : 0;
  parallel_chunks(items, chunk_size(items, bytes), [=](i64 begin, i64 end) {
    for (i64 t = part_of(starts, count, begin); begin < end; ++t) {
      const i64 stop = std::min(end, starts[t + 1]);
      if (begin < stop) body(t, begin - starts[t], stop - starts[t]);
      begin = std::max(begin, stop);
    }
  });
}

// Calls body(first, last, pointer to row `first`) for the runs of rows begin to end - 1 that lie side by side.
template <class F>
void for_runs(const Blocks& blocks, i64 begin, i64 end, i64 row_bytes, const F& body) {
  while (begin < end) {
    const i64 last =
        blocks.count ? std::min(end, blocks.starts[part_of(blocks.starts, blocks.count, begin) + 1]) : end;
    body(begin, last, row_in(blocks, begin, row_bytes));
    begin = last;
  }
}

// As RowsOf, for rows that may lie in several blocks.
template <class T>
struct RowsIn {
  Blocks blocks;
  i64 row_bytes;
  T* operator()(i64 row) const { return (T*)row_in(blocks, row, row_bytes); }
};

}  // namespace sok1x

#endif  // __CUDACC__

#endif  // SOK1X_GROUPS_CUH
