// The steps of group_steps.h that give new keys rows, and note which rows are asked for.
#ifndef __CUDACC__
#include "host_group_device.h"

// The kernels' host build, of kernels that work on one table.
SOK_EXPORT i64 sok1x_insert(Slot* index, i64 capacity, const i64* keys, i64 n, i32* rows, i32 next_row);
SOK_EXPORT void sok1x_collect_new(const i64* keys, const i32* rows, i64 n, i64 first, i64* out);
SOK_EXPORT void sok1x_initial_rows(u64 seed, u64 table, const i64* keys, i64 n, i64 dim, i32 kind, float a, float b,
                                   const i32* only_where_negative, float* out);
SOK_EXPORT void sok1x_stamp_range(i64 first, i64 n, i64 ahead, i64 at_least, const i64* clock, i64* stamps);
SOK_EXPORT void sok1x_give_rows(const i64* keys, i64 n, i32* rows, const i64* free, i64 there, i64 next_row,
                                i64* new_keys, i32* new_rows, i64* total, u64* state);
SOK_EXPORT void sok1x_place_keys(Slot* index, i64 capacity, const i64* keys, const i32* rows, i64 n);
SOK_EXPORT void sok1x_scatter(const float* values, i64 dim, const i32* rows, i64 n, float* table);
SOK_EXPORT void sok1x_reset_rows(const i32* rows, i64 n, i64 words, i32 low, i32 high, i32* out);
SOK_EXPORT void sok1x_begin_lookup(i64* tick, i64* known, i64 unknown, const i64* clock);
SOK_EXPORT void sok1x_touch_rows(const i32* rows, i64 n, const i64* tick, i64* used, i64* frequency);
SOK_EXPORT void sok1x_stamp_given(const i32* rows, i64 n, i64 ahead, i64 at_least, const i64* clock, i64* stamps);

namespace group_steps {

namespace {

// Rows that are given out in no order begin in pieces, which the cache has from when they are made until they are
// copied.
const i64 kPieceBytes = 256 << 10;
const i64 kMovedRows = 4;  // of a team of threads: as in cache_rows.py

// As insert_where_free, by kernels; numbers that the table keeps are on the GPU.
void launch_where_free(Step* step, const InsertMember& m) {
  const i64 values_bytes = (4 * m.fresh * m.dim + 7) / 8 * 8, state_bytes = scan_state_bytes(m.n);
  char* const memory = step->memory(values_bytes + 8 * m.fresh + 8 + state_bytes + 4 * m.fresh);
  if (step->error) return;
  float* const values = (float*)memory;  // rows are copied 16 bytes at a time
  i64* const keys = (i64*)(memory + values_bytes);
  i64* const given = keys + m.fresh;
  char* const state = (char*)(given + 1);
  i32* const rows = (i32*)(state + state_bytes);
  step->clear(given, 8 + state_bytes);
  step->launch(GIVE_ROWS, scan_tiles(m.n) * kScanBlock, m.keys, m.n, m.rows, m.free, m.n_free, m.used, keys, rows,
               given, state);
  step->launch(CLAIM_FOR_KEYS, m.fresh, m.index, m.capacity, keys, m.fresh);
  step->launch(WRITE_CLAIMED, m.fresh, m.index, m.capacity, keys, rows, m.fresh);
  step->launch(INITIAL_ROWS, m.fresh * row_lanes(m.dim), (u64)m.seed, (u64)m.identity, keys, m.fresh, m.dim,
               (i32)m.kind, (float)m.a, (float)m.b, (const i32*)nullptr, values);
  const float* const none = nullptr;
  const i32* const in_order = nullptr;
  step->launch(MOVE_ROWS, (m.fresh + kMovedRows - 1) / kMovedRows * row_lanes(m.dim), none, in_order, (float*)nullptr,
               in_order, (i64)0, (const float*)values, in_order, m.table, (const i32*)rows, m.fresh, m.dim);
  const i64 again = std::min(m.fresh, m.n_free);
  for (i64 i = 0; i < m.n_resets && again > 0; ++i) {
    const ResetMember& slot = m.resets[i];
    step->launch(RESET_ROWS, again * slot.words, (const i32*)rows, again, slot.words, slot.low, slot.high, slot.data);
  }
  step->launch(BEGIN_ROWS, m.fresh, (const i32*)rows, m.fresh, (const i64*)m.use.tick, m.use.used, (i64*)nullptr);
  if (m.use.frequency) {
    step->launch(RESET_ROWS, 2 * m.fresh, (const i32*)rows, m.fresh, (i64)2, (i32)0, (i32)0, (i32*)m.use.frequency);
  }
  step->launch(STAMP_GIVEN, m.fresh, (const i32*)rows, m.fresh, m.ahead, m.at_least, m.clock, m.stamps);
  step->launch(ADVANCE_CLOCK, 1, m.admitted, m.fresh, (i64)0);
  step->launch(FILL_INT64, 1, m.free_count, (i64)1, m.n_free - again);
  step->launch(FILL_INT64, 1, m.count, (i64)1, m.used + m.fresh - again);
}

void insert_where_free(Step* step, const InsertMember& m) {
  const i64 piece = std::max<i64>(1, kPieceBytes / (4 * m.dim));
  char* const memory = step->memory(8 * m.fresh + 4 * std::min(piece, m.fresh) * m.dim + 4 * m.fresh);
  if (step->error) return;
  i64* const keys = (i64*)memory;
  float* const values = (float*)(keys + m.fresh);
  i32* const rows = (i32*)(values + std::min(piece, m.fresh) * m.dim);
  i64 given = 0;
  kernels_run += 4;
  sok1x_give_rows(m.keys, m.n, m.rows, m.free, m.n_free, m.used, keys, rows, &given, nullptr);
  sok1x_place_keys(m.index, m.capacity, keys, rows, m.fresh);
  for (i64 first = 0; first < m.fresh; first += piece) {
    const i64 n = std::min(piece, m.fresh - first);
    ++kernels_run;
    sok1x_initial_rows((u64)m.seed, (u64)m.identity, keys + first, n, m.dim, (i32)m.kind, (float)m.a, (float)m.b,
                       nullptr, values);
    sok1x_scatter(values, m.dim, rows + first, n, m.table);
  }
  const i64 again = std::min(m.fresh, m.n_free);
  for (i64 i = 0; i < m.n_resets && again > 0; ++i) {
    const ResetMember& slot = m.resets[i];
    sok1x_reset_rows(rows, again, slot.words, slot.low, slot.high, slot.data);
  }
  for (i64 i = 0; i < m.fresh; ++i) {  // asked for by no lookup yet
    m.use.used[rows[i]] = *m.use.tick;
    if (m.use.frequency) m.use.frequency[rows[i]] = 0;
  }
  sok1x_stamp_given(rows, m.fresh, m.ahead, m.at_least, m.clock, m.stamps);
  *m.admitted += m.fresh;
  *m.free_count = m.n_free - again;
  *m.count = m.used + m.fresh - again;
}

void insert(Step* step, const InsertMember& m) {
  if (m.use.used) {
    (step->on_gpu() ? launch_where_free : insert_where_free)(step, m);
    return;
  }
  float* const out = m.table + m.used * m.dim;
  char* const memory = step->memory(8 * m.fresh + 16 + (step->on_gpu() ? scan_state_bytes(m.n) : 0));
  if (step->error) return;
  i64* const new_keys = (i64*)memory;
  if (!step->on_gpu()) {
    kernels_run += 4;
    sok1x_insert(m.index, m.capacity, m.keys, m.n, m.rows, (i32)m.used);
    sok1x_collect_new(m.keys, m.rows, m.n, m.used, new_keys);
    if (m.kind >= 0) {
      sok1x_initial_rows((u64)m.seed, (u64)m.identity, new_keys, m.fresh, m.dim, (i32)m.kind, (float)m.a, (float)m.b,
                         nullptr, out);
    }
    *m.count = m.used + m.fresh;
    sok1x_stamp_range(m.used, m.fresh, m.ahead, m.at_least, m.clock, m.stamps);
    return;
  }
  i64* const inserted = new_keys + m.fresh;  // the kernels' own count, twice
  char* const state = (char*)(inserted + 2);
  step->clear(inserted, 16 + scan_state_bytes(m.n));
  step->launch(NUMBER_NEW, scan_tiles(m.n) * kScanBlock, m.keys, m.n, m.rows, (i32)m.used, new_keys, inserted,
               inserted + 1, state);
  step->launch(CLAIM_SLOTS, m.fresh, m.index, m.capacity, new_keys, inserted + 1, (i32)m.used, m.fresh);
  step->launch(WRITE_KEYS, m.fresh, m.index, m.capacity, new_keys, inserted + 1, (i32)m.used, m.fresh);
  if (m.kind >= 0) {
    step->launch(INITIAL_ROWS, m.fresh * row_lanes(m.dim), (u64)m.seed, (u64)m.identity, new_keys, m.fresh, m.dim,
                 (i32)m.kind, (float)m.a, (float)m.b, (const i32*)nullptr, out);
  }
  step->launch(FILL_INT64, 1, m.count, (i64)1, m.used + m.fresh);
  step->launch(STAMP_RANGE, m.fresh, m.used, m.fresh, m.ahead, m.at_least, m.clock, m.stamps);
}

}  // namespace

int insert(GroupWork* work, const InsertMember* members, i64 count) {
  Step step(work);
  for (i64 t = 0; t < count; ++t) insert(&step, members[t]);
  return step.error;
}

int touch(GroupWork* work, const TouchMember* members, i64 count) {
  Step step(work);
  for (i64 t = 0; t < count; ++t) {
    const UseMember& use = members[t].use;
    if (step.on_gpu()) {
      step.launch(BEGIN_LOOKUP, 1, use.tick, use.known, use.unknown, use.clock);
      step.launch(TOUCH_ROWS, members[t].n, members[t].rows, members[t].n, (const i64*)use.tick, use.used,
                  use.frequency);
      continue;
    }
    kernels_run += 2;
    sok1x_begin_lookup(use.tick, use.known, use.unknown, use.clock);
    sok1x_touch_rows(members[t].rows, members[t].n, use.tick, use.used, use.frequency);
  }
  return step.error;
}

int leave_out(GroupWork* work, const TouchMember* members, i64 count) {
  Step step(work);
  for (i64 t = 0; t < count; ++t) {
    i32* const rows = const_cast<i32*>(members[t].rows);
    const i64 n = members[t].n;
    if (step.on_gpu()) {
      step.launch(FILL_INT32, n, rows, n, (i64)-1);
    } else {
      std::fill(rows, rows + n, -1);
    }
  }
  return step.error;
}

}  // namespace group_steps
#endif
