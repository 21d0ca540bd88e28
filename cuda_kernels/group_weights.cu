// Gradients of what the rows of bags are multiplied with (group_combine.cu), of many tables in one launch.
#include "bag_divisor.cuh"
#include "groups.cuh"

#ifdef __CUDACC__
#define SOK_MEMBER __device__ __forceinline__
#else
#define SOK_MEMBER inline
#endif

// With d(k) the product of key k's row with its bag's gradient, a weight w(k) of a sum has d(k). Of a bag that is
// divided by W, the sum of its weights, it has (d(k) - q) / W, where q is the sum of w d, divided by W; if W is the
// root of the sum of their squares it has (d(k) - q w(k) / W) / W. Where W may be zero (OR_NOTHING) it then has zero.
struct Divided {
  i64 mean;
  float weights, products;

  SOK_MEMBER Divided(i64 how) : mean(how), weights(0.0f), products(0.0f) {}
  SOK_MEMBER void add(float weight, float product) {
    weights += part_of_divisor(mean, weight);
    products += weight * product;
  }
  SOK_MEMBER float gradient(float weight, float product) const {
    const float divisor = divisor_of(mean, weights);
    if (is_nothing(mean, divisor)) return 0.0f;
    return (product - products / divisor * (mean & BY_ROOT ? weight / divisor : 1.0f)) / divisor;
  }
};

SOK_DEVICE i64 place_of(const WeightsMember& m, i64 k) { return m.order ? m.order[k] : k; }

#ifdef __CUDACC__

// The sum over a team's lanes, which all are given.
SOK_DEVICE float sum_of_lanes(float value, int lanes, u32 team) {
  for (int step = lanes / 2; step; step /= 2) value += __shfl_xor_sync(team, value, step);
  return value;
}

template <class G, class R>
SOK_DEVICE void weigh_bag(const WeightsMember& m, i64 b, int lanes, u32 team) {
  const i64 dim = m.dim, first = m.offsets[b], last = m.offsets[b + 1];
  const int lane = warp_lane() & (lanes - 1);
  const G* const gradient = (const G*)m.gradient + b * dim;
  Divided divided(m.mean);
  for (i64 k = first; k < last; ++k) {
    const R* const row = (const R*)m.rows + k * dim;
    float product = 0.0f;
    for (i64 c = lane; c < dim; c += lanes) product += load(gradient + c) * load(row + c);
    product = sum_of_lanes(product, lanes, team);
    const i64 place = place_of(m, k);
    divided.add(m.weights[place], product);
    if (lane == 0) m.out[place] = product;
  }
  for (i64 k = first; m.mean && lane == 0 && k < last; ++k) {
    const i64 place = place_of(m, k);
    m.out[place] = divided.gradient(m.weights[place], m.out[place]);
  }
}

// A tile has a bag for each team of the warp.
SOK_KERNEL sok1x_group_weights(const WeightsMember* SOK_RESTRICT members, const i64* SOK_RESTRICT starts, i64 count,
                               i64 tiles) {
  SOK_GROUP_TILES(tile, tiles) {
    const WeightsMember& m = members[part_of(starts, count, tile)];
    const int lanes = lanes_of_row(m.dim), team_of_warp = warp_lane() / lanes;
    const i64 b = (tile - starts[part_of(starts, count, tile)]) * (32 / lanes) + team_of_warp;
    if (b >= m.n_bags) continue;
    const u32 team = (lanes == 32 ? 0xffffffffu : (1u << lanes) - 1) << (team_of_warp * lanes);
    if (m.gradient_half) {
      m.rows_half ? weigh_bag<u16, u16>(m, b, lanes, team) : weigh_bag<u16, float>(m, b, lanes, team);
    } else {
      m.rows_half ? weigh_bag<float, u16>(m, b, lanes, team) : weigh_bag<float, float>(m, b, lanes, team);
    }
  }
}

#else

namespace {

template <class G, class R>
void weigh_bags(const WeightsMember& m, i64 begin, i64 end) {
  const i64 LANES = 8;  // sums that are made side by side
  for (i64 b = begin; b < end; ++b) {
    const i64 first = m.offsets[b], last = m.offsets[b + 1];
    const G* const gradient = (const G*)m.gradient + b * m.dim;
    Divided divided(m.mean);
    for (i64 k = first; k < last; ++k) {
      const R* const row = (const R*)m.rows + k * m.dim;
      float sums[LANES] = {}, product = 0.0f;
      i64 c = 0;
      for (; c + LANES <= m.dim; c += LANES) {
        for (i64 lane = 0; lane < LANES; ++lane) sums[lane] += load(gradient + c + lane) * load(row + c + lane);
      }
      for (; c < m.dim; ++c) product += load(gradient + c) * load(row + c);
      for (i64 lane = 0; lane < LANES; ++lane) product += sums[lane];
      const i64 place = place_of(m, k);
      divided.add(m.weights[place], product);
      m.out[place] = product;
    }
    for (i64 k = first; m.mean && k < last; ++k) {
      const i64 place = place_of(m, k);
      m.out[place] = divided.gradient(m.weights[place], m.out[place]);
    }
  }
}

}  // namespace

SOK_EXPORT void sok1x_group_weights(const WeightsMember* members, const i64* starts, i64 count, i64 items) {
  i64 bytes = 0;
  for (i64 t = 0; t < count; ++t) bytes += (members[t].n + members[t].n_bags) * members[t].dim * 4;
  sok1x::for_group(starts, count, bytes / std::max<i64>(1, items), [=](i64 t, i64 begin, i64 end) {
    const WeightsMember& m = members[t];
    if (m.gradient_half) {
      m.rows_half ? weigh_bags<u16, u16>(m, begin, end) : weigh_bags<u16, float>(m, begin, end);
    } else {
      m.rows_half ? weigh_bags<float, u16>(m, begin, end) : weigh_bags<float, float>(m, begin, end);
    }
  });
}

SOK_EXPORT i64 sok1x_group_weights_member_bytes() { return sizeof(WeightsMember); }

#endif
