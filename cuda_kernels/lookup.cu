// A batch looked up in one pass, for the usual case that all its keys have rows: while one thread makes the keys
// distinct, which only the gradient needs, the others find each position's row and copy it.
#ifndef __CUDACC__
// Host form only: on a GPU these are kernels after each other on one stream, each filling the device by itself.
#include "hash_index.cuh"
#include "rows.cuh"
#include "unique.cuh"

namespace {

const i64 POSITIONS = 1024;  // of a chunk
// Positions from asking for a key's slot to reading it, and again from asking for its row to copying that.
const i64 STAGE = 12;

template <class K>
void look_up_chunk(const K* keys, i64 begin, i64 end, const Slot* index, i64 capacity, const float* table, i64 dim,
                   i32* rows, float* out, i64* missing) {
  i64 missed = 0;
  for (i64 i = begin; i < end + 2 * STAGE; ++i) {
    if (i < end) prefetch_slot(index, capacity, (i64)keys[i]);
    const i64 found = i - STAGE;
    if (found >= begin && found < end) {
      const i32 row = find_row(index, capacity, (i64)keys[found]);
      rows[found] = row;
      missed += row < 0;
      if (out && row >= 0) prefetch_row(table + row * dim, dim);
    }
    const i64 copied = found - STAGE;
    if (out && copied >= begin && rows[copied] >= 0) copy_row(out + copied * dim, table + rows[copied] * dim, dim);
  }
  if (missed) atomic_add(missing, missed);
}

template <class K>
i64 look_up(const K* keys, i64 n, const Slot* index, i64 capacity, const float* table, i64 dim, i64* values,
            i32* inverse, i32* slots, i64 slot_count, i32* rows, float* out, i64* missing) {
  i64 distinct = 0;
  i64* const distinct_at = &distinct;
  const auto item = [=](i64 number) {
    if (number == 0) {
      *distinct_at = unique_keys(keys, n, values, inverse, slots, slot_count);
    } else {
      const i64 begin = (number - 1) * POSITIONS;
      look_up_chunk(keys, begin, std::min(n, begin + POSITIONS), index, capacity, table, dim, rows, out, missing);
    }
  };
  const i64 items = 1 + (n + POSITIONS - 1) / POSITIONS;
  if (items <= 3) {  // not worth a hand-over
    for (i64 number = 0; number < items; ++number) item(number);
  } else {
    sok1x::parallel_chunks(items, 1, [=](i64 begin, i64 end) {
      for (i64 number = begin; number < end; ++number) item(number);
    });
  }
  return distinct;
}

}  // namespace

SOK_EXPORT i64 sok1x_look_up(const void* keys, i32 key_type, i64 n, const Slot* index, i64 capacity,
                             const float* table, i64 dim, i64* values, i32* inverse, i32* slots, i64 slot_count,
                             i32* rows, i32* distinct_rows, float* out, i64* missing) {
  *missing = 0;
  i64 distinct;
  switch (key_type) {
    case KEY_INT32:
      distinct = look_up((const i32*)keys, n, index, capacity, table, dim, values, inverse, slots, slot_count, rows,
                         out, missing);
      break;
    case KEY_UINT32:
      distinct = look_up((const u32*)keys, n, index, capacity, table, dim, values, inverse, slots, slot_count, rows,
                         out, missing);
      break;
    default:
      distinct = look_up((const i64*)keys, n, index, capacity, table, dim, values, inverse, slots, slot_count, rows,
                         out, missing);
  }
  for (i64 i = 0; i < n; ++i) distinct_rows[inverse[i]] = rows[i];
  return distinct;
}
#endif
