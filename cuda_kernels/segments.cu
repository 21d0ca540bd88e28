// Segment numbers as the sums by segment take them.
#include "common.cuh"

// out[i] = ids[i], -1 where that is negative or not below n_segments. *from_end, 0 before, becomes n minus the lowest
// position of an id that is too large.
SOK_KERNEL sok1x_segment_numbers(const void* SOK_RESTRICT ids, i32 key_type, i64 n, i64 n_segments,
                                 i32* SOK_RESTRICT out, i64* from_end) {
  SOK_PARALLEL_FOR(i, n, 12) {
    const i64 id = load_key(ids, key_type, i);
    const bool high = id >= n_segments;
    out[i] = id < 0 || high ? -1 : (i32)id;
    if (high) atomic_max(from_end, n - i);
  };
}
