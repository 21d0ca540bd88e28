// A running sum over items in one pass, by blocks that look back at their predecessors' sums: Merrill and Garland,
// "Single-pass parallel prefix scan with decoupled look-back" (NVIDIA technical report NVR-2016-002). CUDA only: on
// the host one thread counts as it goes, and list_items serves those that list items.
#ifndef SOK1X_SCAN_CUH
#define SOK1X_SCAN_CUH
#include "common.cuh"

#ifdef __CUDACC__

// As in scan.py: threads of a block, and items of a block (a tile).
#define SCAN_BLOCK 256
#define SCAN_ITEMS 8
#define SCAN_TILE (SCAN_BLOCK * SCAN_ITEMS)

// A tile's word: two bits that say what the other 62 are.
static const u64 SCAN_OWN = 1ull << 62;  // the sum of the tile alone
static const u64 SCAN_ALL = 2ull << 62;  // the sum of all items up to the tile's end
static const u64 SCAN_SUM = SCAN_OWN - 1;

// Where a scan keeps its tiles' words: u64 [1 + tiles], zero before. The first word hands out tiles in the order in
// which blocks begin, so that a block only ever waits for blocks that run.
SOK_DEVICE i64 scan_next_tile(u64* state) {
  __shared__ i64 tile;
  if (threadIdx.x == 0) tile = (i64)atomicAdd(state, 1ull);
  __syncthreads();
  return tile;
}

// The sum of all tiles before this one. Called by the first warp, with the tile's own sum.
SOK_DEVICE u64 scan_look_back(u64* words, i64 tile, u64 own) {
  volatile u64* const all = words;
  const int lane = threadIdx.x & 31;
  if (tile == 0) {
    if (lane == 0) all[0] = SCAN_ALL | own;
    return 0;
  }
  if (lane == 0) all[tile] = SCAN_OWN | own;
  u64 before = 0;
  for (i64 last = tile - 1;; last -= 32) {
    const i64 mine = last - lane;
    u64 word = SCAN_ALL;  // before the first tile
    if (mine >= 0) {
      do {
        word = all[mine];
      } while (!(word & ~SCAN_SUM));
    }
    const u32 whole = __ballot_sync(0xffffffffu, (word & ~SCAN_SUM) == SCAN_ALL);
    const int stop = whole ? __ffs(whole) - 1 : 31;
    u64 sum = lane <= stop ? word & SCAN_SUM : 0;
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    before += sum;
    if (whole) break;
  }
  if (lane == 0) all[tile] = SCAN_ALL | (before + own);
  return before;
}

// Calls emit(i, sum of value(j) for j < i, value(i)) for every i of [0, n), and total(sum of all) once. To be called
// by all threads of SCAN_BLOCK threads in as many blocks as there are tiles. value must not depend on what emit writes.
template <class ValueOf, class Emit, class Total>
SOK_DEVICE void scan_items(i64 n, u64* state, const ValueOf& value_of, const Emit& emit, const Total& total) {
  __shared__ u64 warp_sums[SCAN_BLOCK / 32];
  __shared__ u64 tile_before;
  const i64 tile = scan_next_tile(state);
  const i64 first = tile * SCAN_TILE + threadIdx.x * SCAN_ITEMS;
  u32 value[SCAN_ITEMS];
  u64 own = 0;
#pragma unroll
  for (int j = 0; j < SCAN_ITEMS; ++j) {
    value[j] = first + j < n ? value_of(first + j) : 0;
    own += value[j];
  }
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u64 upto = own;
  for (int step = 1; step < 32; step <<= 1) {
    const u64 left = __shfl_up_sync(0xffffffffu, upto, step);
    if (lane >= step) upto += left;
  }
  if (lane == 31) warp_sums[warp] = upto;
  __syncthreads();
  u64 before = upto - own, sum = 0;
  for (int w = 0; w < SCAN_BLOCK / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    sum += warp_sums[w];
  }
  if (warp == 0) {
    const u64 earlier = scan_look_back(state + 1, tile, sum);
    if (lane == 0) {
      tile_before = earlier;
      if ((tile + 1) * SCAN_TILE >= n) total(earlier + sum);
    }
  }
  __syncthreads();
  before += tile_before;
#pragma unroll
  for (int j = 0; j < SCAN_ITEMS; ++j) {
    if (first + j < n) emit(first + j, before, value[j]);
    before += value[j];
  }
}

#else

// Calls emit(items, count) with the items of [0, n) that are listed, in order, some at a time. list(begin, end, listed)
// says which are of a piece, listed[i - begin] = 0 or 1. Nothing jumps by it, which is as good as random.
template <class List, class Emit>
inline void list_items(i64 n, List list, Emit emit) {
  const i64 at_once = 512;
  uint8_t listed[at_once];
  i32 items[at_once];
  for (i64 first = 0; first < n; first += at_once) {
    const i64 end = std::min(n, first + at_once);
    list(first, end, listed);
    memset(listed + (end - first), 0, at_once - (end - first));
    i64 count = 0;
    for (i64 i = 0; i < end - first; i += 64) {
      u64 bits = 0;
      for (i64 word = 0; word < 8; ++word) {
        u64 eight;
        memcpy(&eight, listed + i + 8 * word, sizeof eight);
        bits |= (eight * 0x0102040810204080ULL >> 56) << (8 * word);
      }
      for (; bits; bits &= bits - 1) items[count++] = (i32)(first + i + __builtin_ctzll(bits));
    }
    emit(items, count);
  }
}

#endif  // __CUDACC__

#endif  // SOK1X_SCAN_CUH
