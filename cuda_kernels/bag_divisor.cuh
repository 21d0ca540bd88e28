// What the sums of bags with weights are divided by.
#ifndef SOK1X_BAG_DIVISOR_CUH
#define SOK1X_BAG_DIVISOR_CUH
#include "common.cuh"
#include "group_members.h"

// Besides in a `mean`, of bags with weights: of one whose divisor is zero all is zero, sum, scales and gradients, as
// TensorFlow 2 has it. Without it numbers are divided by that zero, as TensorFlow 1.15 does.
#define OR_NOTHING 4

// What a weight adds to that of which the divisor is made.
SOK_DEVICE float part_of_divisor(i64 mean, float weight) { return mean & BY_ROOT ? weight * weight : weight; }

SOK_DEVICE float divisor_of(i64 mean, float parts) { return mean & BY_ROOT ? sqrtf(parts) : parts; }

SOK_DEVICE bool is_nothing(i64 mean, float divisor) { return (mean & OR_NOTHING) && divisor == 0.0f; }

#endif  // SOK1X_BAG_DIVISOR_CUH
