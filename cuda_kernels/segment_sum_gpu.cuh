// Sums of rows by segment number, on a GPU.
//
// Sources are first brought into the order of their segments: counted, the counts summed up (scan.cu), each source put
// in a place of its segment. Then each team of threads walks over CHUNK places and adds up what is of one segment. A
// segment that lies within a chunk is stored; of one that goes on in another chunk each team adds its part to a row
// that was cleared before. So a segment of a million sources is shared by many teams. In which order sources of one
// segment are added is left to chance; sok1x_segment_in_order is the form for those who want the same bits each time.
// Terms are floats, doubles, or 16-bit floats, which are summed as 32-bit ones.
#ifndef SOK1X_SEGMENT_SUM_GPU_CUH
#define SOK1X_SEGMENT_SUM_GPU_CUH
#include "segment_sum_terms.cuh"

#define SOURCE_BYTES 8  // as in segment_sum.py
struct Source {
  i32 row, segment;
};
static_assert(sizeof(Source) == SOURCE_BYTES, "segment_sum.py allocates so much for each");

// What is added: row `source` of values, or, for the keys of bags, the row of the key's bag, over the bag's keys.
template <class T>
struct Gradients {
  const T* values;
  i64 dim;
  const i64* offsets;  // null: no bags
  i64 n_bags;
  i32 mean;
};

// The bag that has key k: the last whose offset is not above it.
SOK_DEVICE i32 bag_of_key(const i64* offsets, i64 n_bags, i64 k) {
  i64 low = 0, high = n_bags;  // offsets[low] <= k < offsets[high]
  while (high - low > 1) {
    const i64 middle = (low + high) >> 1;
    if (offsets[middle] <= k) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return (i32)low;
}

template <class T>
SOK_DEVICE float scale_of_row(const Gradients<T>& from, i64 row) {
  return from.mean ? 1.0f / (float)(from.offsets[row + 1] - from.offsets[row]) : 1.0f;
}

// counts[s], 0 before: sources of segment s; place[i]: which of its segment's sources i is.
SOK_KERNEL sok1x_segment_count(const i32* SOK_RESTRICT segments, i64 n, i32* counts, i32* SOK_RESTRICT place) {
  SOK_PARALLEL_FOR(i, n, 12) {
    if (segments[i] >= 0) place[i] = atomicAdd(counts + segments[i], 1);
  };
}

// ordered[starts[s] + place[i]] = source i of segment s.
SOK_KERNEL sok1x_segment_place(const i32* SOK_RESTRICT segments, i64 n, const i32* SOK_RESTRICT starts,
                               const i32* SOK_RESTRICT place, const i64* SOK_RESTRICT offsets, i64 n_bags,
                               Source* SOK_RESTRICT ordered) {
  SOK_PARALLEL_FOR(i, n, 32) {
    const i32 segment = segments[i];
    if (segment >= 0) {
      const Source source = {offsets ? bag_of_key(offsets, n_bags, i) : (i32)i, segment};
      ordered[starts[segment] + place[i]] = source;
    }
  };
}

// Clears the rows that sok1x_segment_chunks does not store as a whole. They are few: each thread looks at one segment,
// and a warp together clears the rows that its threads have found.
SOK_KERNEL sok1x_segment_clear(const i32* SOK_RESTRICT starts, i64 n_segments, i64 dim, float* SOK_RESTRICT out) {
  const int lane = threadIdx.x & 31;
  const i64 stride = (i64)gridDim.x * blockDim.x;
  for (i64 first = blockIdx.x * (i64)blockDim.x + threadIdx.x - lane; first < n_segments; first += stride) {
    const i64 mine = first + lane;
    bool clear = false;
    if (mine < n_segments) {
      const i32 begin = starts[mine], last = starts[mine + 1] - 1;
      clear = begin > last || begin / SEGMENT_CHUNK != last / SEGMENT_CHUNK;
    }
    for (u32 left = __ballot_sync(0xffffffffu, clear); left; left &= left - 1) {
      float* row = out + (first + __ffs(left) - 1) * dim;
      for (i64 c = lane; c < dim; c += 32) row[c] = 0.0f;
    }
  }
}

template <int W, class T, class Sum>
SOK_DEVICE void sum_chunks(const Gradients<T>& from, const Source* SOK_RESTRICT ordered,
                           const i32* SOK_RESTRICT total_at, Sum* SOK_RESTRICT out) {
  const int AHEAD = 8;
  const i64 dim = from.dim;
  const i64 total = *total_at;
  const Team team = make_team(dim);
  for (i64 first = team.first * SEGMENT_CHUNK; first < total; first += team.stride * SEGMENT_CHUNK) {
    const i64 end = min(total, first + SEGMENT_CHUNK);
    const i32 earlier = first > 0 ? ordered[first - 1].segment : -1;
    const i32 later = end < total ? ordered[end].segment : -1;
    SOK_TEAM_COLUMNS(W, team, dim, c) {
      i32 segment = ordered[first].segment;
      Pack<Sum, W> sum = {};
      for (i64 p = first; p < end; p += AHEAD) {
        Source source[AHEAD];
        Pack<T, W> value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a < end) source[a] = ordered[p + a];
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a < end) value[a] = *(const Pack<T, W>*)(from.values + source[a].row * dim + c);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a >= end) break;
          if (source[a].segment != segment) {
            put_sum(out + segment * dim + c, sum, segment == earlier);
            segment = source[a].segment;
            sum = {};
          }
          const float scale = scale_of_row(from, source[a].row);
          for (int w = 0; w < W; ++w) sum.lane[w] += scale * summand(value[a].lane[w]);
        }
      }
      put_sum(out + segment * dim + c, sum, segment == earlier || segment == later);
    }
  }
}

SOK_KERNEL sok1x_segment_chunks(const float* values, i64 dim, const i64* offsets, i64 n_bags, i32 mean,
                                const Source* SOK_RESTRICT ordered, const i32* total_at, i64, float* out) {
  const Gradients<float> from = {values, dim, offsets, n_bags, mean};
  SOK_BY_ALIGNMENT(dim, sum_chunks, from, ordered, total_at, out);
}

SOK_KERNEL sok1x_segment_chunks_double(const double* values, i64 dim, const Source* SOK_RESTRICT ordered,
                                       const i32* total_at, i64, double* out) {
  const Gradients<double> from = {values, dim, nullptr, 0, 0};
  SOK_BY_ALIGNMENT(dim, sum_chunks, from, ordered, total_at, out);
}

SOK_KERNEL sok1x_segment_chunks_half(const unsigned short* values, i64 dim, const i64* offsets, i64 n_bags, i32 mean,
                                     const Source* SOK_RESTRICT ordered, const i32* total_at, i64, float* out) {
  const Gradients<unsigned short> from = {values, dim, offsets, n_bags, mean};
  SOK_BY_ALIGNMENT(dim, sum_chunks, from, ordered, total_at, out);
}

// Segment numbers as keys of a sort: the negative ones last.
SOK_KERNEL sok1x_segment_keys(const i32* SOK_RESTRICT segments, i64 n, i64 n_segments, u32* SOK_RESTRICT keys) {
  SOK_PARALLEL_FOR(i, n, 8) { keys[i] = segments[i] < 0 ? (u32)n_segments : (u32)segments[i]; };
}

// From keys to their bags, in place.
SOK_KERNEL sok1x_segment_bags(i32* SOK_RESTRICT sources, i64 n, const i64* SOK_RESTRICT offsets, i64 n_bags) {
  SOK_PARALLEL_FOR(i, n, 16) { sources[i] = bag_of_key(offsets, n_bags, sources[i]); };
}

template <int W, class T, class Sum>
SOK_DEVICE void sum_in_order(const Gradients<T>& from, const i32* SOK_RESTRICT sources, const i32* SOK_RESTRICT starts,
                             i64 n_segments, Sum* SOK_RESTRICT out) {
  const int AHEAD = 8;
  const i64 dim = from.dim;
  const Team team = make_team(dim);
  for (i64 s = team.first; s < n_segments; s += team.stride) {
    SOK_TEAM_COLUMNS(W, team, dim, c) {
      Pack<Sum, W> sum = {};
      for (i64 p = starts[s]; p < starts[s + 1]; p += AHEAD) {
        i64 row[AHEAD];
        Pack<T, W> value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a < starts[s + 1]) {
            row[a] = sources[p + a];
            value[a] = *(const Pack<T, W>*)(from.values + row[a] * dim + c);
          }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (p + a >= starts[s + 1]) break;
          const float scale = scale_of_row(from, row[a]);
          for (int w = 0; w < W; ++w) sum.lane[w] += scale * summand(value[a].lane[w]);
        }
      }
      *(Pack<Sum, W>*)(out + s * dim + c) = sum;
    }
  }
}

// One team a segment, sources in the order of the sort: the same bits each time, and the host's.
SOK_KERNEL sok1x_segment_in_order(const float* values, i64 dim, const i64* offsets, i64 n_bags, i32 mean,
                                  const i32* sources, const i32* starts, i64 n_segments, float* out) {
  const Gradients<float> from = {values, dim, offsets, n_bags, mean};
  SOK_BY_ALIGNMENT(dim, sum_in_order, from, sources, starts, n_segments, out);
}

SOK_KERNEL sok1x_segment_in_order_double(const double* values, i64 dim, const i32* sources, const i32* starts,
                                         i64 n_segments, double* out) {
  const Gradients<double> from = {values, dim, nullptr, 0, 0};
  SOK_BY_ALIGNMENT(dim, sum_in_order, from, sources, starts, n_segments, out);
}

SOK_KERNEL sok1x_segment_in_order_half(const unsigned short* values, i64 dim, const i64* offsets, i64 n_bags, i32 mean,
                                       const i32* sources, const i32* starts, i64 n_segments, float* out) {
  const Gradients<unsigned short> from = {values, dim, offsets, n_bags, mean};
  SOK_BY_ALIGNMENT(dim, sum_in_order, from, sources, starts, n_segments, out);
}

#endif  // SOK1X_SEGMENT_SUM_GPU_CUH
