// The bridge as Python sees it: C functions, called through ctypes by bridge.py.
#include <algorithm>
#include <cstring>

#include "tensorflow/core/common_runtime/device_mgr.h"

#include "bridge_calls.h"
#include "bridge_group.h"
#include "bridge_queue.h"

extern "C" {

// For bridge.py, to check that its structures are these.
int sok1x_tensor_info_bytes() { return sizeof(sok1x::TensorInfo); }
int sok1x_request_info_bytes() { return sizeof(sok1x::RequestInfo); }

void sok1x_open() { sok1x::Queue::Get()->Open(); }

void sok1x_close(int code, const char* reason) { sok1x::Queue::Get()->Close(code, reason); }

int64_t sok1x_refused() { return sok1x::Queue::Get()->Refused(); }

// The words stay for as long as the process: any thread may be saying them.
void sok1x_forked(const char* words) { sok1x::Queue::Forked()->store(strdup(words)); }

void sok1x_wake() { sok1x::Queue::Get()->Wake(); }

// See Queue::PushAgain.
void sok1x_push_again(const sok1x::RequestInfo* info) { sok1x::Queue::Get()->PushAgain(*info); }

// Begins a request on a GPU: what is enqueued on `own_stream` from now on comes after what TensorFlow has enqueued.
void sok1x_begin(void* handle, void* own_stream, void* event) {
  auto* request = static_cast<sok1x::Request*>(handle);
  request->own_stream = own_stream;
  request->event = event;
  request->FollowTensorFlow();
}

// Locks the request's variables, exclusively (for writing) or shared, and describes their tensors in infos.
// Returns 0, a status code, -1-i where variable i has not been initialized, or kGroupHolds where the request's group
// holds locks: to wait for another then could be for ever. After a failure nothing is locked.
int sok1x_lock(void* handle, int exclusive, sok1x::TensorInfo* infos) {
  auto* request = static_cast<sok1x::Request*>(handle);
  if (request->group != nullptr && request->group->holds()) return sok1x::kGroupHolds;
  std::vector<sok1x::VarMutex*> order;
  for (size_t i = 0; i < request->variables.size(); ++i) {
    if (request->variables[i].get() == nullptr) return -1 - static_cast<int>(i);
    order.push_back(request->variables[i]->mu());
  }
  std::sort(order.begin(), order.end());  // TensorFlow's rule for ops that lock several variables
  order.erase(std::unique(order.begin(), order.end()), order.end());
  request->exclusive = exclusive != 0;
  for (auto* mutex : order) {
    if (exclusive) {
      mutex->lock();
    } else {
      mutex->lock_shared();
    }
    request->held.push_back(mutex);
  }
  request->FollowTensorFlow();
  for (size_t i = 0; i < request->variables.size(); ++i) {
    tensorflow::Var* variable = request->variables[i].get();
    if (!sok1x::HasValue(variable)) {
      request->Unlock();
      return -1 - static_cast<int>(i);
    }
    if (exclusive) {
      const tensorflow::Status status = sok1x::MakeWritable(request, variable);
      if (!status.ok()) {
        request->Unlock();
        return sok1x::Report(status);
      }
    }
    sok1x::Describe(*variable->tensor(), &infos[i]);
  }
  return 0;
}

// Returns 0 where all variables of the request have been initialized, -1-i where variable i has not, or kGroupHolds.
int sok1x_initialized(void* handle) {
  auto* request = static_cast<sok1x::Request*>(handle);
  if (request->group != nullptr && request->group->holds()) return sok1x::kGroupHolds;
  for (size_t i = 0; i < request->variables.size(); ++i) {
    tensorflow::Var* variable = request->variables[i].get();
    if (variable == nullptr) return -1 - static_cast<int>(i);
    tensorflow::tf_shared_lock lock(*variable->mu());
    if (!sok1x::HasValue(variable)) return -1 - static_cast<int>(i);
  }
  return 0;
}

// Whether sok1x_initialized returns 0 for each of `count` requests.
int sok1x_all_initialized(void* const* handles, int count) {
  return std::all_of(handles, handles + count, [](void* handle) { return sok1x_initialized(handle) == 0; });
}

// Whether the request's session has a GPU, the device that it runs on or another.
int sok1x_has_gpu(void* handle) {
  const auto* library = static_cast<sok1x::Request*>(handle)->context->function_library();
  if (library == nullptr || library->device_mgr() == nullptr) return 0;
  const std::vector<tensorflow::Device*> devices = library->device_mgr()->ListDevices();
  return std::any_of(devices.begin(), devices.end(), [](const tensorflow::Device* device) {
    return device->device_type() == tensorflow::DEVICE_GPU;
  });
}

void sok1x_unlock(void* handle) { static_cast<sok1x::Request*>(handle)->Unlock(); }

int sok1x_output(void* handle, int index, int rank, const int64_t* dims, void** data) {
  auto* request = static_cast<sok1x::Request*>(handle);
  const int code = sok1x::Allocate(request, index, rank, dims, data);
  if (code == 0) request->FollowTensorFlow();
  return code;
}

// The op's outputs from the first on, `count` of them. dims: [count, kMaxRank]. Stops at the first that fails.
int sok1x_outputs(void* handle, int count, const int32_t* ranks, const int64_t* dims, void** data) {
  auto* request = static_cast<sok1x::Request*>(handle);
  for (int i = 0; i < count; ++i) {
    const int code = sok1x::Allocate(request, i, ranks[i], dims + sok1x::kMaxRank * i, &data[i]);
    if (code != 0) return code;
  }
  request->FollowTensorFlow();
  return 0;
}

// Output `index` becomes input `input` itself: the same buffer, no copy.
int sok1x_forward(void* handle, int index, int input) {
  auto* request = static_cast<sok1x::Request*>(handle);
  if (request->Output(index) != nullptr) return 0;  // its group has done so
  request->SetOutput(index, request->Input(input));
  return 0;
}

int sok1x_temporary(void* handle, int64_t bytes, void** data) {
  return sok1x::TakeTemporary(static_cast<sok1x::Request*>(handle), bytes, data);
}

void sok1x_finish(void* handle, int code, const char* message) {
  auto* request = static_cast<sok1x::Request*>(handle);
  request->Finish(sok1x::StatusOf(code, message));
}

}  // extern "C"
