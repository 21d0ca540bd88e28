// What Adam's step does to a row: gradient, row and both moments read once, row and moments written once.
//
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g g,  row -= rate m / (sqrt(v) + epsilon)
//
// with the operations in the order of TensorFlow's optimizers, each rounded (neither compiler fuses any). The scalars
// are where the graph has computed them: float32 in the kernel's memory.
#ifndef SOK1X_ADAM_ROWS_CUH
#define SOK1X_ADAM_ROWS_CUH
#include "rows.cuh"
#if !defined(__CUDACC__) && defined(__SSE2__)
#include <emmintrin.h>
#endif

struct AdamStep {
  float rate, beta1, rest1, beta2, rest2, epsilon;
};

// Both powers null: the learning rate is corrected for the moments' start at zero already.
SOK_DEVICE AdamStep adam_step(const float* learning_rate, const float* beta1, const float* beta2, const float* epsilon,
                              const float* beta1_power, const float* beta2_power) {
  float rate = *learning_rate;
  if (beta1_power != nullptr) rate = rate * sqrtf(1.0f - *beta2_power) / (1.0f - *beta1_power);
  const AdamStep step = {rate, *beta1, 1.0f - *beta1, *beta2, 1.0f - *beta2, *epsilon};
  return step;
}

// Floats below the least normal one as 0, as in TensorFlow's own threads and kernels. Moments that shrink step by step
// end in such floats and never leave them, and there a division is many times slower. On the host `FlushSmallest` does
// it.
SOK_DEVICE float flushed(float x) {
#ifdef __CUDACC__
  return fabsf(x) < 1.17549435e-38f ? 0.0f : x;
#else
  return x;
#endif
}

SOK_DEVICE void move_moments(const AdamStep& step, float gradient, float* m, float* v) {
  *m = flushed(step.beta1 * *m + step.rest1 * gradient);
  *v = flushed(step.beta2 * *v + step.rest2 * (gradient * gradient));
}

// Where a row has no gradient.
SOK_DEVICE void shrink_moments(const AdamStep& step, float* m, float* v) {
  *m = flushed(step.beta1 * *m);
  *v = flushed(step.beta2 * *v);
}

SOK_DEVICE float moved(const AdamStep& step, float row, float m, float v) {
  return row - step.rate * m / (sqrtf(v) + step.epsilon);
}

// Whether a row number is one of the table's.
SOK_DEVICE bool is_row(i32 row, i64 table_rows) { return row >= 0 && row < table_rows; }

#ifdef __CUDACC__

static const int kAdamRows = 2;  // rows that a team has in flight, as in adam.py

// One step of `kAdamRows` rows: all their loads come before the first store, so that they are under way together.
// at: where in the table each row starts, -1 for none. from: where in `values` its gradient starts, -1 for none.
template <int W>
SOK_DEVICE void adam_rows(const AdamStep& step, const Team& team, i64 dim, const float* SOK_RESTRICT values,
                          const i64* from, const i64* at, float* SOK_RESTRICT table, float* SOK_RESTRICT m,
                          float* SOK_RESTRICT v) {
  SOK_TEAM_COLUMNS(W, team, dim, c) {
    Vec<W> gradients[kAdamRows], rows[kAdamRows], ms[kAdamRows], vs[kAdamRows];
#pragma unroll
    for (int k = 0; k < kAdamRows; ++k) {
      if (at[k] < 0) continue;
      if (from[k] >= 0) gradients[k] = load_vec<W>(values + from[k] + c);
      rows[k] = load_vec<W>(table + at[k] + c);
      ms[k] = load_vec<W>(m + at[k] + c);
      vs[k] = load_vec<W>(v + at[k] + c);
    }
#pragma unroll
    for (int k = 0; k < kAdamRows; ++k) {
      if (at[k] < 0) continue;
#pragma unroll
      for (int w = 0; w < W; ++w) {
        if (from[k] >= 0) {
          move_moments(step, gradients[k].lane[w], &ms[k].lane[w], &vs[k].lane[w]);
        } else {
          shrink_moments(step, &ms[k].lane[w], &vs[k].lane[w]);
        }
        rows[k].lane[w] = moved(step, rows[k].lane[w], ms[k].lane[w], vs[k].lane[w]);
      }
      store_vec<W>(table + at[k] + c, rows[k]);
      store_vec<W>(m + at[k] + c, ms[k]);
      store_vec<W>(v + at[k] + c, vs[k]);
    }
  }
}

// Of n rows those that a team serves.
template <int W>
SOK_DEVICE void lazy_adam(const Team& team, const AdamStep& step, const float* values, i64 dim, const i32* rows, i64 n,
                          i64 table_rows, float* table, float* m, float* v) {
  for (i64 i = team.first; i < n; i += kAdamRows * team.stride) {
    i64 from[kAdamRows], at[kAdamRows];
#pragma unroll
    for (int k = 0; k < kAdamRows; ++k) {
      const i64 item = i + k * team.stride;
      const i32 row = item < n ? rows[item] : -1;
      from[k] = item * dim;
      at[k] = is_row(row, table_rows) ? row * dim : -1;
    }
    adam_rows<W>(step, team, dim, values, from, at, table, m, v);
  }
}

#else

// While it lives, its thread takes floats below the least normal one for 0: see `flushed`.
class FlushSmallest {
 public:
#ifdef __SSE2__
  FlushSmallest() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | 0x8040);  // flush to zero, denormals are zero
    asm volatile("" ::: "memory");
  }
  ~FlushSmallest() {
    asm volatile("" ::: "memory");
    _mm_setcsr(before_);
  }

 private:
  unsigned before_;
#endif
};

SOK_DEVICE void adam_row(const AdamStep& step, i64 dim, const float* SOK_RESTRICT value, float* SOK_RESTRICT row,
                         float* SOK_RESTRICT m, float* SOK_RESTRICT v) {
#define SOK_ADAM(w)                             \
  for (i64 c = 0; c < (w); ++c) {               \
    move_moments(step, value[c], m + c, v + c); \
    row[c] = moved(step, row[c], m[c], v[c]);   \
  }
  SOK_FOR_WIDTH(dim, SOK_ADAM)
#undef SOK_ADAM
}

SOK_DEVICE void adam_row_without_gradient(const AdamStep& step, i64 dim, float* SOK_RESTRICT row,
                                          float* SOK_RESTRICT m, float* SOK_RESTRICT v) {
#define SOK_ADAM(w)                           \
  for (i64 c = 0; c < (w); ++c) {             \
    shrink_moments(step, m + c, v + c);       \
    row[c] = moved(step, row[c], m[c], v[c]); \
  }
  SOK_FOR_WIDTH(dim, SOK_ADAM)
#undef SOK_ADAM
}

SOK_VECTORS static inline void lazy_adam_chunk(const AdamStep& step, const float* values, i64 dim, const i32* rows,
                                               i64 begin, i64 end, i64 table_rows, float* table, float* m, float* v) {
  const i64 ahead = 16;
  for (i64 i = begin; i < end; ++i) {
    if (i + ahead < end && is_row(rows[i + ahead], table_rows)) {
      const i64 next = rows[i + ahead] * dim;
      prefetch_row(table + next, dim);
      prefetch_row(m + next, dim);
      prefetch_row(v + next, dim);
    }
    if (!is_row(rows[i], table_rows)) continue;
    const i64 at = rows[i] * dim;
    adam_row(step, dim, values + i * dim, table + at, m + at, v + at);
  }
}

#endif  // __CUDACC__

#endif  // SOK1X_ADAM_ROWS_CUH
