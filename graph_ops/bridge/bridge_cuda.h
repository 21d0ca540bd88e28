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

  // All return CUDA's error, 0 for none.

  // Work that is enqueued on `follower` from now on waits for what `leader` holds now.
  int Follow(void* event, void* leader, void* follower) const {
    const int error = Record(event, leader);
    return error ? error : Wait(event, follower);
  }

  // The same in two: the event is what `leader` holds now; and `follower` waits for what it was last.
  int Record(void* event, void* leader) const { return loaded_ ? record_(event, leader) : kNotLoaded; }
  int Wait(void* event, void* follower) const { return loaded_ ? wait_(follower, event, 0) : kNotLoaded; }

  // Of the thread's current context: a stream whose work comes before that of others where a GPU has not room for both,
  // and which does not wait for the context's default stream; and an event that takes no time.
  int MakeUrgentStream(void** stream) const {
    if (!loaded_ || make_stream_ == nullptr) return kNotLoaded;
    int least = 0, greatest = 0;
    const int error = priorities_(&least, &greatest);
    return error ? error : make_stream_(stream, kNonBlocking, greatest);
  }
  int MakeEvent(void** event) const {
    return loaded_ && make_event_ != nullptr ? make_event_(event, kWithoutTime) : kNotLoaded;
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
  static constexpr unsigned kNonBlocking = 1, kWithoutTime = 2;  // CU_STREAM_NON_BLOCKING, CU_EVENT_DISABLE_TIMING
  static constexpr unsigned kPortable = 1, kMapped = 2;  // CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP

  Cuda() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    record_ = reinterpret_cast<RecordFunction>(dlsym(library, "cuEventRecord"));
    wait_ = reinterpret_cast<WaitFunction>(dlsym(library, "cuStreamWaitEvent"));
    copy_ = reinterpret_cast<CopyFunction>(dlsym(library, "cuMemcpyDtoDAsync_v2"));
    enter_ = reinterpret_cast<EnterFunction>(dlsym(library, "cuCtxSetCurrent"));
    current_ = reinterpret_cast<CurrentFunction>(dlsym(library, "cuCtxGetCurrent"));
    synchronize_ = reinterpret_cast<SynchronizeFunction>(dlsym(library, "cuCtxSynchronize"));
    address_ = reinterpret_cast<AddressFunction>(dlsym(library, "cuMemHostGetDevicePointer_v2"));
    unpin_ = reinterpret_cast<UnpinFunction>(dlsym(library, "cuMemHostUnregister"));
    pin_ = reinterpret_cast<PinFunction>(dlsym(library, "cuMemHostRegister_v2"));
    if (current_ == nullptr || synchronize_ == nullptr || address_ == nullptr || unpin_ == nullptr) pin_ = nullptr;
    priorities_ = reinterpret_cast<PrioritiesFunction>(dlsym(library, "cuCtxGetStreamPriorityRange"));
    make_stream_ = reinterpret_cast<StreamFunction>(dlsym(library, "cuStreamCreateWithPriority"));
    make_event_ = reinterpret_cast<EventFunction>(dlsym(library, "cuEventCreate"));
    if (priorities_ == nullptr) make_stream_ = nullptr;
    loaded_ = record_ != nullptr && wait_ != nullptr && copy_ != nullptr && enter_ != nullptr;
  }

  typedef int (*RecordFunction)(void* event, void* stream);
  typedef int (*WaitFunction)(void* stream, void* event, unsigned flags);
  typedef int (*CopyFunction)(uintptr_t target, uintptr_t source, size_t bytes, void* stream);
  typedef int (*EnterFunction)(void* context);
  typedef int (*CurrentFunction)(void** context);
  typedef int (*SynchronizeFunction)();
  typedef int (*AddressFunction)(uintptr_t* address, void* memory, unsigned flags);
  typedef int (*UnpinFunction)(void* memory);
  typedef int (*PinFunction)(void* memory, size_t bytes, unsigned flags);
  typedef int (*PrioritiesFunction)(int* least, int* greatest);
  typedef int (*StreamFunction)(void** stream, unsigned flags, int priority);
  typedef int (*EventFunction)(void** event, unsigned flags);
  RecordFunction record_ = nullptr;
  WaitFunction wait_ = nullptr;
  CopyFunction copy_ = nullptr;
  EnterFunction enter_ = nullptr;
  CurrentFunction current_ = nullptr;
  SynchronizeFunction synchronize_ = nullptr;
  AddressFunction address_ = nullptr;
  UnpinFunction unpin_ = nullptr;
  PinFunction pin_ = nullptr;
  PrioritiesFunction priorities_ = nullptr;
  StreamFunction make_stream_ = nullptr;
  EventFunction make_event_ = nullptr;
  bool loaded_ = false;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_CUDA_H
