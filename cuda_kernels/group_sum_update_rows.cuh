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

// Whether a segment, which begins at of[0] among all terms, is added up by several teams. Of those that a chunk has a
// part of it has the first place of one, or the last: so a chunk looks at these two alone.
SOK_DEVICE bool is_long(const i32* of) { return of[1] - of[0] > SEGMENT_CHUNK; }

template <int W, class T>
SOK_DEVICE Pack<T, W> load_term(const Source& source, i64 c) {
  return *(const Pack<T, W>*)((const T*)source.value + c);
}

// Adds what places `first` to end - 1 have of long segments to their sums.
template <int W, class T>
SOK_DEVICE void sum_long(const SumMember& m, const i32* SOK_RESTRICT of, const Source* SOK_RESTRICT ordered, i64 first,
                         i64 end, int lanes) {
  const int AHEAD = 4;
  const i64 segments[2] = {ordered[first].segment, ordered[end - 1].segment};
  for (int which = 0; which < (segments[0] == segments[1] ? 1 : 2); ++which) {
    const i64 segment = segments[which];
    if (!is_long(of + segment)) continue;
    const i64 from = max(first, (i64)of[segment]), to = min(end, (i64)of[segment + 1]);
    for (i64 c = (warp_lane() & (lanes - 1)) * W; c < m.dim; c += lanes * W) {
      Pack<float, W> sum = {};
#pragma unroll 1
      for (i64 p = from; p < to; p += AHEAD) {
        Pack<T, W> value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a < to) value[a] = load_term<W, T>(ordered[p + a], c);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a >= to) break;
          const float scale = ordered[p + a].scale;
          for (int w = 0; w < W; ++w) sum.lane[w] += scale * summand(value[a].lane[w]);
        }
      }
      put_sum((float*)m.sums.base + segment * m.dim + c, sum, true);
    }
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

// The UPDATE_ROWS segments of a team: all that is known of their places is asked for before the first is summed.
template <int W, class T, bool SCALED, class Move>
SOK_DEVICE void move_segments(const SumMember& m, const UpdateMember& u, const Team& team, const i32* SOK_RESTRICT of,
                              const Source* SOK_RESTRICT ordered) {
  const int AHEAD = SCALED ? 2 : 4;  // what has scales has several forms in one kernel, and registers of all
  Move move;
  move.begin(u);
  i64 at[UPDATE_ROWS];
  i32 first[UPDATE_ROWS], last[UPDATE_ROWS];  // of the terms that are still to be added
#pragma unroll
  for (int k = 0; k < UPDATE_ROWS; ++k) {
    const i64 segment = team.first + k * team.stride;
    const i32 row = segment < m.num_segments ? u.rows[segment] : -1;
    at[k] = is_row(row, u.table_rows) ? row * m.dim : -1;
    first[k] = at[k] < 0 ? 0 : of[segment];
    last[k] = at[k] < 0 ? 0 : of[segment + 1];
  }
  SOK_TEAM_COLUMNS(W, team, m.dim, c) {
    typename Move::template Row<W> rows[UPDATE_ROWS];
    Pack<float, W> sums[UPDATE_ROWS];
    Pack<T, W> values[UPDATE_ROWS];
    float scales[UPDATE_ROWS];
#pragma unroll
    for (int k = 0; k < UPDATE_ROWS; ++k) {
      if (at[k] < 0) continue;
      move.template load<W>(u, at[k] + c, &rows[k]);
      const i64 segment = team.first + k * team.stride;
      if (last[k] - first[k] > SEGMENT_CHUNK) {
        sums[k] = *(const Pack<float, W>*)((const float*)m.sums.base + segment * m.dim + c);
      } else if (last[k] > first[k]) {
        values[k] = load_term<W, T>(ordered[first[k]], c);
        scales[k] = SCALED ? ordered[first[k]].scale : 1.0f;
      }
    }
#pragma unroll
    for (int k = 0; k < UPDATE_ROWS; ++k) {
      if (at[k] < 0) continue;
      if (last[k] - first[k] <= SEGMENT_CHUNK) {
        sums[k] = {};
        if (last[k] > first[k]) {
          for (int w = 0; w < W; ++w) sums[k].lane[w] += scales[k] * summand(values[k].lane[w]);
        }
#pragma unroll 1
        for (i32 p = first[k] + 1; p < last[k]; p += AHEAD) {
          Pack<T, W> more[AHEAD];
#pragma unroll
          for (int a = 0; a < AHEAD; ++a) {
            if (p + a < last[k]) more[a] = load_term<W, T>(ordered[p + a], c);
          }
#pragma unroll
          for (int a = 0; a < AHEAD; ++a) {
            if (p + a >= last[k]) break;
            const float scale = SCALED ? ordered[p + a].scale : 1.0f;
            for (int w = 0; w < W; ++w) sums[k].lane[w] += scale * summand(more[a].lane[w]);
          }
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
