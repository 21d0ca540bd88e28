// Each position's row found and copied in one pass, for the usual case that all keys have rows.
#include "hash_index.cuh"
#include "lookup.cuh"

#ifndef __CUDACC__
namespace {

template <class K, class Out>
void look_up(const K* keys, i64 n, const Slot* index, i64 capacity, const float* table, i64 dim, i32* rows, Out* out,
             i64* missing) {
  if (out) SOK_OUTPUT(out, n * dim * (i64)sizeof *out);
  SOK_PARALLEL_CHUNKS(first, last, n, 32 + (out ? dim * 8 : 0)) {
    const i64 missed = look_up_run(
        keys, first, last, [=](i64 key) { prefetch_slot(index, capacity, key); },
        [=](i64 key) { return find_row(index, capacity, key); }, table, dim, rows, out);
    if (missed) atomic_add(missing, missed);
  };
}

template <class Out>
i64 look_up_keys(const void* keys, i32 key_type, i64 n, const Slot* index, i64 capacity, const float* table, i64 dim,
                 i32* rows, Out* out) {
  i64 missing = 0;
  switch (key_type) {
    case KEY_INT32: look_up((const i32*)keys, n, index, capacity, table, dim, rows, out, &missing); break;
    case KEY_UINT32: look_up((const u32*)keys, n, index, capacity, table, dim, rows, out, &missing); break;
    default: look_up((const i64*)keys, n, index, capacity, table, dim, rows, out, &missing);
  }
  return missing;
}

}  // namespace

SOK_EXPORT i64 sok1x_look_up(const void* keys, i32 key_type, i64 n, const Slot* index, i64 capacity,
                             const float* table, i64 dim, i32* rows, float* out) {
  return look_up_keys(keys, key_type, n, index, capacity, table, dim, rows, out);
}

SOK_EXPORT i64 sok1x_look_up_half(const void* keys, i32 key_type, i64 n, const Slot* index, i64 capacity,
                                  const float* table, i64 dim, i32* rows, u16* out) {
  return look_up_keys(keys, key_type, n, index, capacity, table, dim, rows, out);
}
#else
// On a GPU two kernels, this one and gather, each with enough in flight by itself.
SOK_KERNEL sok1x_find_keys(const void* SOK_RESTRICT keys, i32 key_type, i64 n, const Slot* SOK_RESTRICT index,
                           i64 capacity, i32* SOK_RESTRICT rows, i64* missing) {
  SOK_PARALLEL_FOR(i, n, 128) {
    const i32 row = find_row(index, capacity, load_key(keys, key_type, i));
    rows[i] = row;
    if (missing) count_in_warp(missing, row < 0);
  };
}
#endif
