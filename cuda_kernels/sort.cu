// A stable sort of 32-bit numbers, eight bits at a time from the lowest (radix sort), as the order of their places.
#include "common.cuh"

#ifdef __CUDACC__
// CUDA form only. A block takes a tile of consecutive items, in each pass the same; each of its threads looks after one
// digit, too. The numbers are as in sort.py.
#define SORT_BLOCK 256
#define SORT_TILE 2048
#define SORT_BITS 8
#define SORT_DIGITS (1 << SORT_BITS)
static_assert(SORT_BLOCK == SORT_DIGITS, "a thread for each digit");

SOK_DEVICE u32 digit_of(u32 key, i32 shift) { return (key >> shift) & (SORT_DIGITS - 1u); }

// counts[digit * tiles + tile] = the tile's items with the digit; tiles = gridDim.x.
SOK_KERNEL sok1x_sort_count(const u32* SOK_RESTRICT keys, i64 n, i32 shift, i32* SOK_RESTRICT counts) {
  __shared__ i32 count[SORT_DIGITS];
  count[threadIdx.x] = 0;
  __syncthreads();
  const i64 first = blockIdx.x * (i64)SORT_TILE;
  for (i64 i = first + threadIdx.x; i < first + SORT_TILE && i < n; i += SORT_BLOCK) {
    atomicAdd(count + digit_of(keys[i], shift), 1);
  }
  __syncthreads();
  counts[threadIdx.x * (i64)gridDim.x + blockIdx.x] = count[threadIdx.x];
}

// Puts each item where `starts` (the running sum of sok1x_sort_count's counts) and its predecessors in the tile say.
// order: the place in the very first array of each item; null for the first pass, where it is the item's own.
SOK_KERNEL sok1x_sort_place(const u32* SOK_RESTRICT keys, const i32* SOK_RESTRICT order, i64 n, i32 shift,
                            const i32* SOK_RESTRICT starts, u32* SOK_RESTRICT keys_out, i32* SOK_RESTRICT order_out) {
  __shared__ i32 next[SORT_DIGITS];
  __shared__ i32 in_warp[SORT_BLOCK / 32][SORT_DIGITS];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  next[threadIdx.x] = starts[threadIdx.x * (i64)gridDim.x + blockIdx.x];
  const i64 first = blockIdx.x * (i64)SORT_TILE;
  for (i64 begin = first; begin < first + SORT_TILE && begin < n; begin += SORT_BLOCK) {
    for (int w = 0; w < SORT_BLOCK / 32; ++w) in_warp[w][threadIdx.x] = 0;
    __syncthreads();
    const i64 i = begin + threadIdx.x;
    const bool valid = i < n;
    const u32 key = valid ? keys[i] : 0;
    const u32 digit = digit_of(key, shift);
    // Items after the end get a digit of their own.
    const u32 same = __match_any_sync(0xffffffffu, valid ? digit : (u32)SORT_DIGITS);
    const int rank = __popc(same & ((1u << lane) - 1));
    if (valid && rank == 0) in_warp[warp][digit] = __popc(same);
    __syncthreads();
    if (valid) {
      i32 place = next[digit] + rank;
      for (int w = 0; w < warp; ++w) place += in_warp[w][digit];
      keys_out[place] = key;
      order_out[place] = order ? order[i] : (i32)i;
    }
    __syncthreads();
    i32 more = 0;
    for (int w = 0; w < SORT_BLOCK / 32; ++w) more += in_warp[w][threadIdx.x];
    next[threadIdx.x] += more;
    __syncthreads();
  }
}
#endif
