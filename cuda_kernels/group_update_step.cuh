// What Adam's step is made of, of a group's member.
#ifndef SOK1X_GROUP_UPDATE_STEP_CUH
#define SOK1X_GROUP_UPDATE_STEP_CUH
#include "adam_rows.cuh"
#include "groups.cuh"

SOK_DEVICE AdamStep step_of(const UpdateMember& m) {
  return adam_step(m.scalars[0], m.scalars[1], m.scalars[2], m.scalars[3], m.scalars[4], m.scalars[5]);
}

#endif  // SOK1X_GROUP_UPDATE_STEP_CUH
