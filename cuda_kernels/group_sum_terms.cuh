// What an item of a group's sums is on a GPU: which row its term is, what it is multiplied with, and how wide accesses
// may be. Shared by group_sum.cu and group_sum_update.cu.
#ifndef SOK1X_GROUP_SUM_TERMS_CUH
#define SOK1X_GROUP_SUM_TERMS_CUH
#include "groups.cuh"

SOK_DEVICE i64 row_of_item(const SumMember& m, i64 i) { return m.offsets ? part_of(m.offsets, m.n_bags, i) : i; }

// What a term is multiplied with: of item i, whose row is the value.
SOK_DEVICE float scale_of(const SumMember& m, i64 i, i64 row) {
  if (m.scales) return m.scales[i];
  return m.mean ? 1.0f / (float)(m.offsets[row + 1] - m.offsets[row]) : 1.0f;
}

// Numbers of an access that terms of type T and sums allow. The whole warp asks together.
template <class T>
SOK_DEVICE int width_of(const SumMember& m) {
  if (m.dim % 4 == 0 && aligned(m.values, 4 * sizeof(T)) && aligned(m.sums, 16)) return 4;
  if (m.dim % 2 == 0 && aligned(m.values, 2 * sizeof(T)) && aligned(m.sums, 8)) return 2;
  return 1;
}

// Calls a function template with the width and type of member m's terms, if `here`; all of the warp have the same m.
#define SOK_BY_TERMS(m, here, function, ...)                                      \
  {                                                                               \
    const int width = m.values_half ? width_of<u16>(m) : width_of<float>(m);      \
    if (here) {                                                                   \
      if (m.values_half) {                                                        \
        width == 4   ? function<4, u16>(__VA_ARGS__)                              \
        : width == 2 ? function<2, u16>(__VA_ARGS__)                              \
                     : function<1, u16>(__VA_ARGS__);                             \
      } else {                                                                    \
        width == 4   ? function<4, float>(__VA_ARGS__)                            \
        : width == 2 ? function<2, float>(__VA_ARGS__)                            \
                     : function<1, float>(__VA_ARGS__);                           \
      }                                                                           \
    }                                                                             \
  }

#endif  // SOK1X_GROUP_SUM_TERMS_CUH
