// Initial values of rows: a function of (seed, table, key, column) only, so that a model starts the same on any
// number of ranks and in any batch order.
//
// Columns 4j to 4j+3 come from one Philox call: counter (low and high word of the key of the row, j, attempt),
// Philox key mix64(mix64(seed) + table). From words x0..x3:
//   uniform  word w gives a + (b - a) * (w >> 8) / 2^24, in [a, b)
//   normal   Box and Muller, "A note on the generation of random normal deviates" (1958): x0 and x1 give columns
//            4j and 4j+1, x2 and x3 the other two; radius sqrt(-2 ln(((x0 >> 8) + 1) / 2^24)), angle
//            2 pi ((x1 >> 6) / 2^26 - 1/8), first column the cosine
//   truncated normal   a normal deviate beyond 2 standard deviations is drawn again with the next attempt
// Only IEEE additions, multiplications, divisions and square roots are used: no libm whose last bit differs from
// machine to machine.
//
// A table may have a pool of P rows that its keys begin with: a key's is then that of key modulo P.
#ifndef SOK1X_ROW_INIT_CUH
#define SOK1X_ROW_INIT_CUH
#include "half_rows.cuh"
#include "owners.cuh"
#include "philox.cuh"

#ifdef __CUDACC__
#define INIT_LANES 1
#else
#define INIT_LANES 8
#endif

// Numbered as in row_init.py.
enum Distribution { ZEROS = 0, CONSTANT = 1, UNIFORM = 2, NORMAL = 3, TRUNCATED_NORMAL = 4 };

// -2 ln(m / 2^24) for a whole m in [1, 2^24]: m = 2^e f with f in [sqrt(1/2), sqrt(2)], ln f by the series of
// 2 artanh((f - 1) / (f + 1)), whose first term left out is below 1e-9.
SOK_DEVICE float minus_two_log(u32 m) {
  const u32 bits = float_bits((float)(i32)m);
  const u32 high = (bits & 0x7fffffu) > 0x3504f3u ? 1u : 0u;  // f above sqrt(2): halve it
  const float f = bits_float((bits & 0x7fffffu) | (0x3f800000u - (high << 23)));
  const float e = (float)((i32)(bits >> 23) - 127 + (i32)high - 24);
  const float s = (f - 1.0f) / (f + 1.0f);
  const float q = s * s;
  const float series = 1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q * (1.0f / 9))));
  return -2.0f * (2.0f * s * series + e * 0.693147181f);
}

// Cosine and sine of 2 pi (x / 2^32 - 1/8): the quadrant from the two high bits, Taylor series within it.
SOK_DEVICE void cos_sin(u32 x, float* cosine, float* sine) {
  const float t = ((float)(i32)((x >> 6) & 0xffffffu) * (1.0f / 16777216) - 0.5f) * 1.57079633f;
  const float q = t * t;
  const float c =
      1.0f - q * (1.0f / 2 - q * (1.0f / 24 - q * (1.0f / 720 - q * (1.0f / 40320 - q * (1.0f / 3628800)))));
  const float s = t - t * q * (1.0f / 6 - q * (1.0f / 120 - q * (1.0f / 5040 - q * (1.0f / 362880))));
  const u32 quadrant = x >> 30;
  const u32 sign_c = (quadrant + 1) & 2u, sign_s = quadrant & 2u;
  const float a = quadrant & 1u ? s : c, b = quadrant & 1u ? c : s;
  *cosine = bits_float(float_bits(a) ^ (sign_c << 30));
  *sine = bits_float(float_bits(b) ^ (sign_s << 30));
}

// LANES blocks of four columns. On the host loops over the lanes become vector instructions; a GPU thread has one.
template <int LANES>
struct Words {
  u32 word[4][LANES];
};
template <int LANES>
struct Values {
  float value[4][LANES];
};

template <int LANES>
SOK_DEVICE Words<LANES> draw_words(u64 stream, u64 key, u32 block, u32 attempt) {
  Words<LANES> x;
  for (int l = 0; l < LANES; ++l) {
    const Philox4 words = philox4x32_10((u32)key, (u32)(key >> 32), block + (u32)l, attempt, (u32)stream,
                                        (u32)(stream >> 32));
    for (int c = 0; c < 4; ++c) x.word[c][l] = words.word[c];
  }
  return x;
}

template <int LANES>
SOK_DEVICE Values<LANES> normal_values(const Words<LANES>& x) {
  Values<LANES> z;
  for (int pair = 0; pair < 4; pair += 2) {
    for (int l = 0; l < LANES; ++l) {
      const float radius = sqrtf(minus_two_log((x.word[pair][l] >> 8) + 1u));
      float cosine, sine;
      cos_sin(x.word[pair + 1][l], &cosine, &sine);
      z.value[pair][l] = radius * cosine;
      z.value[pair + 1][l] = radius * sine;
    }
  }
  return z;
}

// What is drawn, and for which table. pool: 0 for none.
struct Draw {
  u64 stream;
  i64 pool;
  i32 kind;
  float a, b, most;  // of numbers from a on, below b, or down to it: the largest, for rounding must not reach b
};

// number: of what is drawn, as row_init.py's `number_of` makes it.
SOK_DEVICE Draw make_draw(u64 seed, u64 table, i32 number, float a, float b) {
  Draw draw;
  draw.stream = mix64(mix64(seed) + table);
  draw.kind = number & 7;
  draw.pool = number >> 3;
  draw.a = a;
  draw.b = b;
  draw.most = a < b ? nextafterf(b, a) : a;
  return draw;
}

// Columns of a row: LANES blocks of four, from column 4 * block on.
template <int LANES>
SOK_DEVICE Values<LANES> draw_values(const Draw& draw, u64 key, u32 block) {
  const Words<LANES> x = draw_words<LANES>(draw.stream, key, block, 0);
  Values<LANES> z;
  if (draw.kind == UNIFORM) {
    for (int c = 0; c < 4; ++c) {
      for (int l = 0; l < LANES; ++l) {
        const float u = (float)(i32)(x.word[c][l] >> 8) * (1.0f / 16777216);
        const float value = draw.a + (draw.b - draw.a) * u;
        z.value[c][l] = value < draw.most ? value : draw.most;
      }
    }
    return z;
  }
  z = normal_values(x);
  for (int c = 0; c < 4; ++c) {
    for (int l = 0; l < LANES; ++l) {
      if (draw.kind == TRUNCATED_NORMAL) {
        for (u32 attempt = 1; z.value[c][l] > 2.0f || z.value[c][l] < -2.0f; ++attempt) {
          z.value[c][l] = normal_values(draw_words<1>(draw.stream, key, block + (u32)l, attempt)).value[c][0];
        }
      }
      z.value[c][l] = draw.a + draw.b * z.value[c][l];
    }
  }
  return z;
}

// The key whose row a key begins with.
SOK_DEVICE u64 drawn_key(const Draw& draw, u64 key) { return draw.pool ? (u64)owner_of((i64)key, draw.pool) : key; }

#ifndef __CUDACC__
template <class Out>
SOK_DEVICE void initial_row(const Draw& draw, u64 key, i64 dim, Out* out) {
  if (draw.kind == ZEROS || draw.kind == CONSTANT) {
    const float value = draw.kind == CONSTANT ? draw.a : 0.0f;
    for (i64 c = 0; c < dim; ++c) store(out + c, value);
    return;
  }
  key = drawn_key(draw, key);
  for (i64 first = 0; first < dim; first += 4 * INIT_LANES) {
    const Values<INIT_LANES> z = draw_values<INIT_LANES>(draw, key, (u32)(first >> 2));
    for (i64 c = first; c < first + 4 * INIT_LANES && c < dim; ++c) {
      store(out + c, z.value[c & 3][(c - first) >> 2]);
    }
  }
}
#else
// A team writes a row, each lane four columns at a time.
template <class Out>
SOK_DEVICE void initial_row_by_team(const Draw& draw, u64 key, i64 dim, const Team& team, Out* out) {
  key = drawn_key(draw, key);
  for (i64 first = 4 * team.lane; first < dim; first += 4 * team.lanes) {
    Values<1> z;
    if (draw.kind == ZEROS || draw.kind == CONSTANT) {
      for (int c = 0; c < 4; ++c) z.value[c][0] = draw.kind == CONSTANT ? draw.a : 0.0f;
    } else {
      z = draw_values<1>(draw, key, (u32)(first >> 2));
    }
    if (dim % 4 == 0) {
      Vec<4> four = {{z.value[0][0], z.value[1][0], z.value[2][0], z.value[3][0]}};
      store_vec<4>(out + first, four);
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (first + c < dim) store(out + first + c, z.value[c][0]);
      }
    }
  }
}
#endif

#endif  // SOK1X_ROW_INIT_CUH
