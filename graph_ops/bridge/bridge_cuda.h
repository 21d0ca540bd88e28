// What the bridge needs of CUDA: streams that follow one another, and a copy. Taken from the driver at run time, so that
// one build of the bridge serves machines with and without it.
#ifndef SOK1X_BRIDGE_CUDA_H
#define SOK1X_BRIDGE_CUDA_H

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace sok1x {

class Cuda {
 public:
  static const Cuda* Get() {
    static const Cuda* cuda = new Cuda;
    return cuda;
  }

  // Work that is enqueued on `follower` from now on waits for what `leader` holds now. Returns CUDA's error, 0 for none.
  int Follow(void* event, void* leader, void* follower) const {
    if (!loaded_) return kNotLoaded;
    const int error = record_(event, leader);
    return error ? error : wait_(follower, event, 0);
  }

  // Makes a context the thread's current one. It stays so: TensorFlow 1.15 remembers for each thread which it has set.
  int Enter(void* context) const { return loaded_ ? enter_(context) : kNotLoaded; }

  int Copy(void* target, const void* source, size_t bytes, void* stream) const {
    if (!loaded_) return kNotLoaded;
    return copy_(reinterpret_cast<uintptr_t>(target), reinterpret_cast<uintptr_t>(source), bytes, stream);
  }

 private:
  static constexpr int kNotLoaded = 3;  // CUDA_ERROR_NOT_INITIALIZED

  Cuda() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    record_ = reinterpret_cast<Record>(dlsym(library, "cuEventRecord"));
    wait_ = reinterpret_cast<Wait>(dlsym(library, "cuStreamWaitEvent"));
    copy_ = reinterpret_cast<CopyFunction>(dlsym(library, "cuMemcpyDtoDAsync_v2"));
    enter_ = reinterpret_cast<EnterFunction>(dlsym(library, "cuCtxSetCurrent"));
    loaded_ = record_ != nullptr && wait_ != nullptr && copy_ != nullptr && enter_ != nullptr;
  }

  typedef int (*Record)(void* event, void* stream);
  typedef int (*Wait)(void* stream, void* event, unsigned flags);
  typedef int (*CopyFunction)(uintptr_t target, uintptr_t source, size_t bytes, void* stream);
  typedef int (*EnterFunction)(void* context);
  Record record_ = nullptr;
  Wait wait_ = nullptr;
  CopyFunction copy_ = nullptr;
  EnterFunction enter_ = nullptr;
  bool loaded_ = false;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_CUDA_H
