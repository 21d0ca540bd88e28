// What the GPU ran, and when, as NVIDIA's profiling library (CUPTI) records it. Used through gpu_trace.py.
//
// CUPTI calls back from any thread, in the middle of CUDA's calls and with locks of its own held: no place for Python.
// Needs no header of CUDA's: what stands here of cupti_activity.h is the same in CUDA 11 to 13.
#include <cxxabi.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

const int kMemcpy = 1, kMemset = 2, kKernel = 10;  // CUPTI_ACTIVITY_KIND_..., the last CONCURRENT_KERNEL
const size_t kBufferBytes = 8 << 20;

struct Activity {  // as in gpu_trace.py
  int64_t start, end, bytes;
  int32_t kind, copy_kind, stream, name;
};

typedef void (*Request)(uint8_t**, size_t*, size_t*);
typedef void (*Complete)(void*, uint32_t, uint8_t*, size_t, size_t);
struct Cupti {
  int (*register_callbacks)(Request, Complete);
  int (*enable)(int);
  int (*disable)(int);
  int (*flush)(uint32_t);
  int (*next)(uint8_t*, size_t, void**);
  int (*explain)(int, const char**);
} cupti;

std::mutex mutex;
std::vector<Activity> activities;
std::vector<std::string> names;
std::map<std::string, int32_t> numbers;
std::string trouble;

template <class T>
T at(const void* record, size_t offset) {
  T value;
  memcpy(&value, (const char*)record + offset, sizeof value);
  return value;
}

int32_t number_of(const char* name) {
  auto found = numbers.find(name);
  if (found != numbers.end()) return found->second;
  int status = 0;
  char* readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  names.push_back(readable && !status ? readable : name);
  free(readable);
  return numbers[name] = (int32_t)names.size() - 1;
}

void take(const void* record) {
  const int32_t kind = at<int32_t>(record, 0);
  if (kind != kMemcpy && kind != kMemset && kind != kKernel) return;
  Activity activity = {at<int64_t>(record, 16), at<int64_t>(record, 24), 0, kind, 0, 0, -1};
  if (activity.start <= 0 || activity.end < activity.start) return;  // not timed
  if (kind == kKernel) {
    const char* name = at<const char*>(record, 104);
    activity.stream = at<int32_t>(record, 48);
    activity.name = number_of(name ? name : "?");
  } else {
    activity.bytes = at<int64_t>(record, 8);
    activity.stream = at<int32_t>(record, 40);
    if (kind == kMemcpy) activity.copy_kind = at<uint8_t>(record, 4);
  }
  activities.push_back(activity);
}

void request(uint8_t** buffer, size_t* size, size_t* most) {
  *size = kBufferBytes;
  *most = 0;  // as many as there is room for
  if (posix_memalign((void**)buffer, 64, kBufferBytes)) {
    *buffer = nullptr;
    *size = 0;
  }
}

void complete(void*, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  std::lock_guard<std::mutex> lock(mutex);
  void* record = nullptr;
  while (filled && cupti.next(buffer, filled, &record) == 0) take(record);
  free(buffer);
}

const char* failed(const char* what, int code) {
  const char* text = nullptr;
  if (cupti.explain) cupti.explain(code, &text);
  trouble = std::string(what) + ": " + (text ? text : "error " + std::to_string(code));
  return trouble.c_str();
}

template <class T>
bool load(void* library, const char* name, T* function) {
  *function = (T)dlsym(library, name);
  if (!*function) trouble = std::string("no ") + name;
  return *function != nullptr;
}

}  // namespace

// All return null, or what is wrong.
extern "C" const char* trace_open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    trouble = dlerror();
    return trouble.c_str();
  }
  load(library, "cuptiGetResultString", &cupti.explain);
  if (!load(library, "cuptiActivityRegisterCallbacks", &cupti.register_callbacks) ||
      !load(library, "cuptiActivityEnable", &cupti.enable) || !load(library, "cuptiActivityDisable", &cupti.disable) ||
      !load(library, "cuptiActivityFlushAll", &cupti.flush) ||
      !load(library, "cuptiActivityGetNextRecord", &cupti.next)) {
    return trouble.c_str();
  }
  const int code = cupti.register_callbacks(request, complete);
  return code ? failed("cuptiActivityRegisterCallbacks", code) : nullptr;
}

extern "C" const char* trace_start() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    activities.clear();
  }
  for (int kind : {kKernel, kMemcpy, kMemset}) {
    const int code = cupti.enable(kind);
    if (code) return failed("cuptiActivityEnable", code);
  }
  return nullptr;
}

// Stops; the GPU must have come by everything.
extern "C" const char* trace_stop() {
  cupti.flush(0);
  const int code = cupti.flush(1);  // buffers too that CUPTI would still keep
  for (int kind : {kKernel, kMemcpy, kMemset}) cupti.disable(kind);
  return code ? failed("cuptiActivityFlushAll", code) : nullptr;
}

// How many there are, and the first `room` of them.
extern "C" int64_t trace_read(Activity* out, int64_t room) {
  std::lock_guard<std::mutex> lock(mutex);
  const int64_t count = (int64_t)activities.size();
  if (count && room) memcpy(out, activities.data(), sizeof(Activity) * (size_t)(count < room ? count : room));
  return count;
}

extern "C" const char* trace_name(int32_t number) {
  std::lock_guard<std::mutex> lock(mutex);
  return names[number].c_str();
}
