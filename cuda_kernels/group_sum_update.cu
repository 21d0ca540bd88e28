// Optimizers' steps on rows of many tables whose gradients are still to be summed, in one pass: what group_sum.cu and
// group_update.cu do one after the other, without the sums' way through memory. A sum of one term is never stored. On
// hosts bits are those of the two; on a GPU long sums are added up in any order, as there.
//
// Of each member a record of either kind. A segment of the one is a row of the other: update.n == sum.num_segments, and
// sums are one block, of which only rows with several terms are written.
#include "descend_rows.cuh"
#include "group_update_step.cuh"
#ifdef __CUDACC__
#include "group_sum_update_rows.cuh"
#else
#include "group_sum_host.h"
#endif

#ifdef __CUDACC__

// ordered[begins[g] + place]: the terms of segment g; begins and place as sok1x_group_sum_count and a running sum have
// left them. Clears the sums of long segments, to which several teams add, and lists their parts: *listed, which was 0,
// in `chunks`.
SOK_KERNEL sok1x_group_sum_update_place(const SumMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts,
                                        i64 count, i64 tiles, const i32* SOK_RESTRICT begins,
                                        const i32* SOK_RESTRICT place, Source* SOK_RESTRICT ordered, i32* listed,
                                        Chunk* SOK_RESTRICT chunks) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = members[t];
    const i64 i = (tile - starts[t]) * GROUP_TILE + warp_lane();
    if (i >= m.n || m.segments[i] < 0) continue;
    const i32 segment = m.segments[i], at = place[tile * GROUP_TILE + warp_lane()];
    const i32* const of = begins + m.first_segment + segment;
    const i64 row = row_of_item(m, i);
    const Source source = {row_in(m.values, row, m.dim * (m.values_half ? 2 : 4)), segment, scale_of(m, i, row)};
    ordered[of[0] + at] = source;
    // Of each part the first term's thread does it, and of the segment its first term's.
    if (!is_long(of) || at % SEGMENT_CHUNK != 0) continue;
    const Chunk chunk = {(i32)t, segment, of[0] + at, min(of[1], of[0] + at + SEGMENT_CHUNK)};
    chunks[atomicAdd(listed, 1)] = chunk;
    if (at == 0) zero_row((float*)m.sums.base + segment * m.dim, m.dim);
  }
}

// Adds up long segments, of which *listed parts are in `chunks`, a warp each, at most `most`.
SOK_KERNEL sok1x_group_sum_update_long(const SumMember* SOK_RESTRICT members, i64 most,
                                       const Source* SOK_RESTRICT ordered, const i32* listed,
                                       const Chunk* SOK_RESTRICT chunks) {
  SOK_GROUP_TILES(tile, min(most, (i64)*listed)) {
    const Chunk chunk = chunks[tile];
    const SumMember& m = members[chunk.member];
    const int lanes = lanes_of_row(m.dim);
    SOK_BY_TERMS(m, warp_lane() < lanes, sum_chunk_of_long, m, chunk, ordered, lanes);
  }
}

// A tile has UPDATE_ROWS segments for each team of the warp.
template <bool PLAIN, class Move>
SOK_DEVICE void sum_and_move(const SumMember* SOK_RESTRICT sums, const UpdateMember* SOK_RESTRICT updates,
                             const i64* SOK_RESTRICT starts, i64 count, i64 tiles, const i32* SOK_RESTRICT begins,
                             const Source* SOK_RESTRICT ordered) {
  SOK_GROUP_TILES(tile, tiles) {
    const i64 t = part_of(starts, count, tile);
    const SumMember& m = sums[t];
    const UpdateMember& u = updates[t];
    const i32 lanes = lanes_of_row(m.dim);
    const i64 teams = 32 / lanes;
    const Team team = {lanes, warp_lane() & (lanes - 1),
                       (tile - starts[t]) * UPDATE_ROWS * teams + warp_lane() / lanes, teams};
    const i32* const of = begins + m.first_segment;
    if (PLAIN) {
      move_segments<4, float, false, Move>(m, u, team, of, ordered);
    } else {
      SOK_BY_TERMS(m, true, move_scaled_segments, Move(), m, u, team, of, ordered);
    }
  }
}

#define SOK_SUM_AND_MOVE(name, plain, Move)                                                                      \
  SOK_KERNEL name(const SumMember* SOK_RESTRICT sums, const UpdateMember* SOK_RESTRICT updates,                  \
                  const i64* SOK_RESTRICT starts, i64 count, i64 tiles, const i32* SOK_RESTRICT begins,          \
                  const Source* SOK_RESTRICT ordered) {                                                          \
    sum_and_move<plain, Move>(sums, updates, starts, count, tiles, begins, ordered);                             \
  }

SOK_SUM_AND_MOVE(sok1x_group_descend_sums, false, Descend)
SOK_SUM_AND_MOVE(sok1x_group_lazy_adam_sums, false, LazyAdam)
// For a group whose terms are taken as they are, are of 32 bits and come, as its rows do, in fours.
SOK_SUM_AND_MOVE(sok1x_group_plain_descend_sums, true, Descend)
SOK_SUM_AND_MOVE(sok1x_group_plain_lazy_adam_sums, true, LazyAdam)

#else

namespace {

// Sums that an optimizer's step takes as soon as their last term has come: a sink of sok1x::Terms.
template <class Move>
class Moves {
 public:
  Moves(const SumMember& m, const sok1x::Part& part, const Move& move)
      : dim_(m.dim), begin_(part.begin), move_(move), sums_((float*)m.sums.base), left_(part.end - part.begin + 1, 0),
        alone_(READY * m.dim) {
    // Those that are not in range are counted behind all others: no branch that would be mispredicted.
    const u32 rows = (u32)(left_.size() - 1);
    for (i64 i = 0; i < m.n; ++i) ++left_[std::min((u32)(m.segments[i] - (i32)begin_), rows)];
    for (i64 row = 0; row < rows; ++row) {
      if (left_[row] != 0) continue;
      std::fill_n(slot(), dim_, 0.0f);  // a row without terms has a gradient of zeros
      take(slot(), begin_ + row);
    }
  }

  void prefetch(i64 id) const {
    const i32 left = left_[id - begin_];
    if (left < 0) sok1x::prefetch_values(sum(id), dim_);
    if (left == 1 || left == -1) move_.prefetch(id);  // its last term, or soon
  }
  template <class T>
  void add(i64 id, const T* values, float scale) {
    i32& left = left_[id - begin_];
    if (left == 1) {
      sok1x::start_row(slot(), values, scale, dim_);
      take(slot(), id);
    } else if (left > 1) {
      sok1x::start_row(sum(id), values, scale, dim_);
      left = 1 - left;
    } else {
      sok1x::add_row(sum(id), values, scale, dim_);
      if (++left == 0) take(sum(id), id);
    }
  }
  void finish() {
    move_(gradients_, ids_, ready_);
    ready_ = 0;
  }

 private:
  static const i64 READY = 16;  // rows that are moved at a time

  float* sum(i64 id) const { return sums_ + id * dim_; }
  // Where the sum of a row with one term is made.
  float* slot() { return alone_.data() + ready_ * dim_; }
  void take(const float* gradient, i64 id) {
    gradients_[ready_] = gradient;
    ids_[ready_] = id;
    if (++ready_ == READY) finish();
  }

  const i64 dim_, begin_;
  const Move move_;
  float* const sums_;
  // Of each row how many terms come; of one of which some, but not all, have come, how many are left, negative.
  std::vector<i32> left_;
  std::vector<float> alone_;
  const float* gradients_[READY];
  i64 ids_[READY], ready_ = 0;
};

struct Descend {
  static const i64 kFloats = 2;  // that are moved for each of a row's
  const UpdateMember& m;
  void prefetch(i64 i) const {
    if (is_row(m.rows[i], m.table_rows)) prefetch_row(m.table + m.rows[i] * m.dim, m.dim);
  }
  void operator()(const float* const* gradients, const i64* ids, i64 n) const {
    for (i64 k = 0; k < n; ++k) {
      const i32 row = m.rows[ids[k]];
      if (is_row(row, m.table_rows)) descend_row(gradients[k], m.dim, *m.scalars[0], m.table + row * m.dim);
    }
  }
};

SOK_VECTORS void move_by_adam(const AdamStep& step, const UpdateMember& m, const float* const* gradients,
                              const i64* ids, i64 n) {
  const FlushSmallest flush;
  for (i64 k = 0; k < n; ++k) {
    const i32 row = m.rows[ids[k]];
    if (!is_row(row, m.table_rows)) continue;
    const i64 at = row * m.dim;
    adam_row(step, m.dim, gradients[k], m.table + at, m.slots[0] + at, m.slots[1] + at);
  }
}

struct LazyAdam {
  static const i64 kFloats = 6;
  const UpdateMember& m;
  AdamStep step = step_of(m);
  void prefetch(i64 i) const {
    if (!is_row(m.rows[i], m.table_rows)) return;
    const i64 at = m.rows[i] * m.dim;
    prefetch_row(m.table + at, m.dim);
    prefetch_row(m.slots[0] + at, m.dim);
    prefetch_row(m.slots[1] + at, m.dim);
  }
  void operator()(const float* const* gradients, const i64* ids, i64 n) const {
    move_by_adam(step, m, gradients, ids, n);
  }
};

template <class Move>
void sum_and_move(const SumMember* sums, const UpdateMember* updates, i64 count) {
  sok1x::for_parts(sums, count, [=](i64 t) { return sok1x::bytes_of_terms(sums[t], Move::kFloats); },
                   [=](const sok1x::Part& part) {
    Moves<Move> moves(sums[part.member], part, Move{updates[part.member]});
    sok1x::offer_terms(sums[part.member], part, &moves);
  });
}

}  // namespace

SOK_EXPORT void sok1x_group_sum_descend(const SumMember* sums, const UpdateMember* updates, i64 count) {
  sum_and_move<Descend>(sums, updates, count);
}

SOK_EXPORT void sok1x_group_sum_lazy_adam(const SumMember* sums, const UpdateMember* updates, i64 count) {
  sum_and_move<LazyAdam>(sums, updates, count);
}

#endif
