// Partial sums that all ranks have made of the same bags, added up: rows of 16-bit floats, summed as 32-bit ones.
#include "half_rows.cuh"

// out[b] = sum over p of parts[p][b], over the number of keys of bag b where there are offsets; zeros for no keys.
SOK_KERNEL sok1x_sum_parts(const u16* SOK_RESTRICT parts, i64 n_parts, i64 n_bags, i64 dim,
                           const i64* SOK_RESTRICT offsets, u16* SOK_RESTRICT out) {
  const i64 part = n_bags * dim;
#ifdef __CUDACC__
  const Team team = make_team(dim);
  for (i64 b = team.first; b < n_bags; b += team.stride) {
    const i64 keys = offsets ? offsets[b + 1] - offsets[b] : 1;
    SOK_TEAM_COLUMNS(1, team, dim, c) {
      float sum = 0.0f;
      for (i64 p = 0; p < n_parts; ++p) sum += half_to_float(parts[p * part + b * dim + c]);
      out[b * dim + c] = float_to_half(keys > 0 ? sum / (float)keys : 0.0f);
    }
  }
#else
  SOK_PARALLEL_FOR(b, n_bags, (n_parts + 1) * dim * 2) {
    const i64 keys = offsets ? offsets[b + 1] - offsets[b] : 1;
    for (i64 c = b * dim; c < (b + 1) * dim; ++c) {
      float sum = 0.0f;
      for (i64 p = 0; p < n_parts; ++p) sum += half_to_float(parts[p * part + c]);
      out[c] = float_to_half(keys > 0 ? sum / (float)keys : 0.0f);
    }
  };
#endif
}
