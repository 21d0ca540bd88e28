// What the bridge needs of CUDA: streams that follow one another, a copy, and pinned memory. Taken from the driver at
// run time, so that one build of the bridge serves machines with and without it.
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

  // Work that is enqueued on `follower` from now on waits for what `leader` holds now. Returns CUDA's error, 0 for
  // none.
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

  // Pins host memory, so that kernels of all contexts reach it under its own address; *context: the thread's current
  // one.
  int Pin(void* memory, size_t bytes, void** context) const {
    if (!loaded_ || pin_ == nullptr) return kNotLoaded;
    const int error = current_(context);
    if (error) return error;
    const int pinned = pin_(memory, bytes, kPortable | kMapped);
    if (pinned) return pinned;
    uintptr_t seen = 0;
    const int mapped = address_(&seen, memory, 0);
    if (!mapped && seen == reinterpret_cast<uintptr_t>(memory)) return 0;
    unpin_(memory);
    return mapped ? mapped : kNotSupported;
  }

  // The reverse, when all work of the context is done.
  void Unpin(void* memory, void* context) const {
    Enter(context);
    synchronize_();
    unpin_(memory);
  }

 private:
  static constexpr int kNotLoaded = 3;  // CUDA_ERROR_NOT_INITIALIZED
  static constexpr int kNotSupported = 801;
  static constexpr unsigned kPortable = 1, kMapped = 2;  // CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP

  Cuda() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    record_ = reinterpret_cast<Record>(dlsym(library, "cuEventRecord"));
    wait_ = reinterpret_cast<Wait>(dlsym(library, "cuStreamWaitEvent"));
    copy_ = reinterpret_cast<CopyFunction>(dlsym(library, "cuMemcpyDtoDAsync_v2"));
    enter_ = reinterpret_cast<EnterFunction>(dlsym(library, "cuCtxSetCurrent"));
    current_ = reinterpret_cast<CurrentFunction>(dlsym(library, "cuCtxGetCurrent"));
    synchronize_ = reinterpret_cast<SynchronizeFunction>(dlsym(library, "cuCtxSynchronize"));
    address_ = reinterpret_cast<AddressFunction>(dlsym(library, "cuMemHostGetDevicePointer_v2"));
    unpin_ = reinterpret_cast<UnpinFunction>(dlsym(library, "cuMemHostUnregister"));
    pin_ = reinterpret_cast<PinFunction>(dlsym(library, "cuMemHostRegister_v2"));
    if (current_ == nullptr || synchronize_ == nullptr || address_ == nullptr || unpin_ == nullptr) pin_ = nullptr;
    loaded_ = record_ != nullptr && wait_ != nullptr && copy_ != nullptr && enter_ != nullptr;
  }

  typedef int (*Record)(void* event, void* stream);
  typedef int (*Wait)(void* stream, void* event, unsigned flags);
  typedef int (*CopyFunction)(uintptr_t target, uintptr_t source, size_t bytes, void* stream);
  typedef int (*EnterFunction)(void* context);
  typedef int (*CurrentFunction)(void** context);
  typedef int (*SynchronizeFunction)();
  typedef int (*AddressFunction)(uintptr_t* address, void* memory, unsigned flags);
  typedef int (*UnpinFunction)(void* memory);
  typedef int (*PinFunction)(void* memory, size_t bytes, unsigned flags);
  Record record_ = nullptr;
  Wait wait_ = nullptr;
  CopyFunction copy_ = nullptr;
  EnterFunction enter_ = nullptr;
  CurrentFunction current_ = nullptr;
  SynchronizeFunction synchronize_ = nullptr;
  AddressFunction address_ = nullptr;
  UnpinFunction unpin_ = nullptr;
  PinFunction pin_ = nullptr;
  bool loaded_ = false;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_CUDA_H
