// A second stream of a GPU, for an exchange that begins before all that is enqueued ahead of it has ended: when what
// goes to others is there. What is enqueued after the exchange waits for it as ever.
//
// One exchange at a time: Mark, when what it needs is enqueued; later, around what is put on `second`, Begin and Join.
#ifndef SOK1X_GROUPS_FORK_H
#define SOK1X_GROUPS_FORK_H

#include "../bridge/bridge_cuda.h"

namespace sok1x {

class Fork {
 public:
  // Makes it, of the thread's current context, beside `stream`; once. Returns whether there is one.
  bool Open(void* stream) {
    const Cuda& cuda = *Cuda::Get();
    if (!tried_) {
      tried_ = true;
      void* second = nullptr;
      if (cuda.MakeEvent(&there_) == 0 && cuda.MakeEvent(&ended_) == 0 && cuda.MakeUrgentStream(&second) == 0) {
        first_ = stream;
        second_ = second;  // kept as long as the process: NCCL may still look at it
      }
    }
    return second_ != nullptr && first_ == stream;
  }
  void* second() const { return second_; }

  // All return CUDA's error, 0 for none.
  int Mark() const { return Cuda::Get()->Record(there_, first_); }
  int Begin() const { return Cuda::Get()->Wait(there_, second_); }
  int Join() const { return Cuda::Get()->Follow(ended_, second_, first_); }

 private:
  bool tried_ = false;
  void *first_ = nullptr, *second_ = nullptr;
  void *there_ = nullptr, *ended_ = nullptr;  // events
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_FORK_H
