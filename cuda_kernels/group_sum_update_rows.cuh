// On a GPU: gradients of rows summed out of their terms, which lie in the order of their segments, and given to an
// optimizer's step at once. Included by group_sum_update.cu.
#ifndef SOK1X_GROUP_SUM_UPDATE_ROWS_CUH
#define SOK1X_GROUP_SUM_UPDATE_ROWS_CUH
#include "group_sum_terms.cuh"
#include "group_update_step.cuh"
#include "segment_sum_terms.cuh"

// A term: a row of values, the segment of its member that it belongs to, and what it is multiplied with.
struct __align__(16) Source {
  const char* value;
  i32 segment;
  float scale;
};

// Whether a segment, which begins at of[0] among all terms, is added up by several teams.
SOK_DEVICE bool is_long(const i32* of) { return of[1] - of[0] > SEGMENT_CHUNK; }

// A part of a long segment that a team adds up: SEGMENT_CHUNK terms at most, from place `first` on among all terms.
struct Chunk {
  i32 member, segment, first, end;
};

template <int W, class T>
SOK_DEVICE Pack<T, W> load_term(const Source& source, i64 c) {
  return *(const Pack<T, W>*)((const T*)source.value + c);
}

// Adds the terms of a part of a long segment to its sum.
template <int W, class T>
SOK_DEVICE void sum_chunk_of_long(const SumMember& m, const Chunk& chunk, const Source* SOK_RESTRICT ordered,
                                  int lanes) {
  const int AHEAD = 8;
  for (i64 c = (warp_lane() & (lanes - 1)) * W; c < m.dim; c += lanes * W) {
    Pack<float, W> sum = {};
#pragma unroll 1
    for (i32 p = chunk.first; p < chunk.end; p += AHEAD) {
      Pack<T, W> value[AHEAD];
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        if (p + a < chunk.end) value[a] = load_term<W, T>(ordered[p + a], c);
      }
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        if (p + a >= chunk.end) break;
        const float scale = ordered[p + a].scale;
        for (int w = 0; w < W; ++w) sum.lane[w] += scale * summand(value[a].lane[w]);
      }
    }
    put_sum((float*)m.sums.base + chunk.segment * m.dim + c, sum, true);
  }
}

// Optimizers' steps: what they read of a row before its gradient is there, and what they write then.
struct Descend {
  template <int W>
  struct Row {
    Vec<W> row;
  };
  float rate;
  __device__ __forceinline__ void begin(const UpdateMember& u) { rate = *u.scalars[0]; }
  template <int W>
  __device__ __forceinline__ void load(const UpdateMember& u, i64 at, Row<W>* r) const {
    r->row = load_vec<W>(u.table + at);
  }
  template <int W>
  __device__ __forceinline__ void move(const UpdateMember& u, i64 at, const Pack<float, W>& gradient, Row<W>* r) const {
    for (int w = 0; w < W; ++w) r->row.lane[w] -= rate * gradient.lane[w];
    store_vec<W>(u.table + at, r->row);
  }
};

struct LazyAdam {
  template <int W>
  struct Row {
    Vec<W> row, m, v;
  };
  AdamStep step;
  __device__ __forceinline__ void begin(const UpdateMember& u) { step = step_of(u); }
  template <int W>
  __device__ __forceinline__ void load(const UpdateMember& u, i64 at, Row<W>* r) const {
    r->row = load_vec<W>(u.table + at);
    r->m = load_vec<W>(u.slots[0] + at);
    r->v = load_vec<W>(u.slots[1] + at);
  }
  template <int W>
  __device__ __forceinline__ void move(const UpdateMember& u, i64 at, const Pack<float, W>& gradient, Row<W>* r) const {
    for (int w = 0; w < W; ++w) {
      move_moments(step, gradient.lane[w], &r->m.lane[w], &r->v.lane[w]);
      r->row.lane[w] = moved(step, r->row.lane[w], r->m.lane[w], r->v.lane[w]);
    }
    store_vec<W>(u.table + at, r->row);
    store_vec<W>(u.slots[0] + at, r->m);
    store_vec<W>(u.slots[1] + at, r->v);
  }
};

// The UPDATE_ROWS segments of a team. What is asked for of all of them comes before the first waits for any of it.
template <int W, class T, bool SCALED, class Move>
SOK_DEVICE void move_segments(const SumMember& m, const UpdateMember& u, const Team& team, const i32* SOK_RESTRICT of,
                              const Source* SOK_RESTRICT ordered) {
  const int AHEAD = 2;
  Move move;
  move.begin(u);
  i64 at[UPDATE_ROWS];
  i32 first[UPDATE_ROWS], last[UPDATE_ROWS];  // the segment's terms; of one that is long or not there none
  Source source[UPDATE_ROWS];                 // the first of them
  const float* summed[UPDATE_ROWS];           // the sum of one that is long
#pragma unroll
  for (int k = 0; k < UPDATE_ROWS; ++k) {
    const i64 segment = team.first + k * team.stride;
    const bool here = segment < m.num_segments;
    const i32 row = here ? u.rows[segment] : -1;
    first[k] = here ? of[segment] : 0;
    last[k] = here ? of[segment + 1] : 0;
    at[k] = is_row(row, u.table_rows) ? row * m.dim : -1;
    summed[k] = last[k] - first[k] > SEGMENT_CHUNK ? (const float*)m.sums.base + segment * m.dim : nullptr;
    if (summed[k]) last[k] = first[k];
  }
#pragma unroll
  for (int k = 0; k < UPDATE_ROWS; ++k) {
    if (first[k] < last[k]) source[k] = ordered[first[k]];
  }
  SOK_TEAM_COLUMNS(W, team, m.dim, c) {
    typename Move::template Row<W> rows[UPDATE_ROWS];
    Pack<float, W> sums[UPDATE_ROWS];
    Pack<T, W> values[UPDATE_ROWS];
#pragma unroll
    for (int k = 0; k < UPDATE_ROWS; ++k) {
      if (at[k] >= 0) move.template load<W>(u, at[k] + c, &rows[k]);
    }
#pragma unroll
    for (int k = 0; k < UPDATE_ROWS; ++k) {
      sums[k] = {};
      if (summed[k]) sums[k] = *(const Pack<float, W>*)(summed[k] + c);
      if (first[k] < last[k]) values[k] = load_term<W, T>(source[k], c);
    }
#pragma unroll
    for (int k = 0; k < UPDATE_ROWS; ++k) {
      if (at[k] < 0) continue;
      if (first[k] < last[k]) {
        const float scale = SCALED ? source[k].scale : 1.0f;
        for (int w = 0; w < W; ++w) sums[k].lane[w] += scale * summand(values[k].lane[w]);
      }
#pragma unroll 1
      for (i32 p = first[k] + 1; p < last[k]; p += AHEAD) {
        Source next[AHEAD];
        Pack<T, W> more[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a < last[k]) next[a] = ordered[p + a];
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a < last[k]) more[a] = load_term<W, T>(next[a], c);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a >= last[k]) break;
          const float scale = SCALED ? next[a].scale : 1.0f;
          for (int w = 0; w < W; ++w) sums[k].lane[w] += scale * summand(more[a].lane[w]);
        }
      }
      move.template move<W>(u, at[k] + c, sums[k], &rows[k]);
    }
  }
}

// The same, for SOK_BY_TERMS.
template <int W, class T, class Move>
SOK_DEVICE void move_scaled_segments(const Move&, const SumMember& m, const UpdateMember& u, const Team& team,
                                     const i32* SOK_RESTRICT of, const Source* SOK_RESTRICT ordered) {
  move_segments<W, T, true, Move>(m, u, team, of, ordered);
}

#endif  // SOK1X_GROUP_SUM_UPDATE_ROWS_CUH
