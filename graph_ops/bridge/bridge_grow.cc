// Variables that get larger: found by name, because a lookup is built before the optimizer makes its slots, and given
// larger buffers, one after the other. Called through ctypes by growing.py.
#include <algorithm>
#include <string>
#include <utility>

#include "bridge_calls.h"
#include "bridge_group.h"
#include "bridge_named.h"
#include "bridge_reserved.h"

namespace {

using sok1x::kResourceExhausted;

// In place of a variable's number. Kept in step with growing.py.
constexpr int kAbsent = -1;
constexpr int kWouldWait = -2;

typedef tensorflow::core::RefCountPtr<tensorflow::Var> Variable;

// Its number among a request's variables.
int NumberOf(const sok1x::Request* request, const Variable& variable) {
  const auto& all = request->variables;
  const auto same = [&](const Variable& other) { return other.get() == variable.get(); };
  return static_cast<int>(std::find_if(all.begin(), all.end(), same) - all.begin());
}

// Bytes of a tensor on the host that may be in a range of addresses; 0 for others.
int64_t BytesToReserve(const sok1x::Request* request, tensorflow::DataType dtype,
                       const tensorflow::TensorShape& shape) {
  if (request->stream != nullptr) return 0;
  const int64_t bytes = shape.num_elements() * tensorflow::DataTypeSize(dtype);
  return bytes < sok1x::kLeastReserved ? 0 : bytes;
}

}  // namespace

extern "C" {

// Adds the variable of that name, in the memory of the request's device, to those of the request; to be called while
// nothing is locked. container: '' for TensorFlow's default, or that of eager variables (bridge_named.h). Returns its
// number among them, or -1 where there is no such variable, or none with a value.
int sok1x_reach(void* handle, const char* container, const char* name) {
  auto* request = static_cast<sok1x::Request*>(handle);
  Variable found = sok1x::FindVariable(request, container, name);
  if (found == nullptr) return kAbsent;
  {
    tensorflow::tf_shared_lock lock(*found->mu());
    if (!sok1x::HasValue(found.get())) return kAbsent;
  }
  const int number = NumberOf(request, found);
  if (number == static_cast<int>(request->variables.size())) request->variables.push_back(std::move(found));
  return number;
}

// The same while the request has its variables locked exclusively, and so that they stay locked: the variable is locked
// too, if that needs no waiting. (To wait for one with others in hand could be for ever.) Else -2, and nothing changes.
int sok1x_reach_at_once(void* handle, const char* container, const char* name) {
  auto* request = static_cast<sok1x::Request*>(handle);
  Variable found = sok1x::FindVariable(request, container, name);
  if (found == nullptr) return kAbsent;
  const int number = NumberOf(request, found);
  if (number < static_cast<int>(request->variables.size())) return number;
  if (!found->mu()->try_lock()) return kWouldWait;
  const bool there = sok1x::HasValue(found.get());
  if (!there || !sok1x::MakeWritable(request, found.get()).ok()) {
    found->mu()->unlock();
    return there ? kWouldWait : kAbsent;
  }
  request->held.push_back(found->mu());
  request->variables.push_back(std::move(found));
  return number;
}

// Describes all variables of a request, which are locked, and may be used from now on.
void sok1x_describe(void* handle, sok1x::TensorInfo* infos) {
  auto* request = static_cast<sok1x::Request*>(handle);
  request->FollowTensorFlow();
  for (const auto& variable : request->variables) {
    sok1x::Describe(*variable->tensor(), infos++);
  }
}

// Unlocks and drops what sok1x_reach_at_once has added after the first `count`; those stay locked.
void sok1x_let_go(void* handle, int count) {
  auto* request = static_cast<sok1x::Request*>(handle);
  request->LetTensorFlowFollow();
  for (size_t i = count; i < request->variables.size(); ++i) {
    auto* const mutex = request->variables[i]->mu();
    request->held.erase(std::find(request->held.begin(), request->held.end(), mutex));
    mutex->unlock();
  }
  request->variables.resize(count);
}

// Drops what sok1x_reach has added after the first `count`; while nothing is locked.
void sok1x_keep_variables(void* handle, int count) {
  static_cast<sok1x::Request*>(handle)->variables.resize(count);
}

int sok1x_variable_count(void* handle) {
  return static_cast<int>(static_cast<sok1x::Request*>(handle)->variables.size());
}

// A buffer for variable `index`, which is locked exclusively, with another number of rows: described in *info, not
// filled, and not the variable's yet. in_place: it may be the variable's own memory, with what is there; then it is no
// more to be given back. *clean: what has been there from that byte on is zero. Returns 0 or a status code; the
// allocator does not wait for memory.
int sok1x_larger(void* handle, int index, int64_t rows, int in_place, sok1x::TensorInfo* info, int64_t* clean) {
  auto* request = static_cast<sok1x::Request*>(handle);
  const tensorflow::Tensor* tensor = request->variables[index]->tensor();
  tensorflow::TensorShape shape = tensor->shape();
  shape.set_dim(0, rows);
  *clean = shape.num_elements() * tensorflow::DataTypeSize(tensor->dtype());
  if (in_place && BytesToReserve(request, tensor->dtype(), shape) > 0) {
    if (!sok1x::Extend(*tensor, shape, &request->larger, clean) &&
        !sok1x::Reserve(tensor->dtype(), shape, &request->larger, clean)) {
      return kResourceExhausted;
    }
    sok1x::Describe(request->larger, info);
    return 0;
  }
  tensorflow::AllocationAttributes once;
#if TF_MAJOR_VERSION == 1
  once.no_retry_on_failure = true;
#else
  once.retry_on_failure = false;
#endif
  if (request->larger.NumElements() > 0) request->LetTensorFlowFollow();  // one that was not taken
  const tensorflow::Status status = request->context->allocate_temp(
      tensor->dtype(), shape, &request->larger, tensorflow::AllocatorAttributes(), once);
  if (!status.ok()) return sok1x::Report(status);
  request->FollowTensorFlow();
  sok1x::Describe(request->larger, info);
  return 0;
}

// Makes the buffer of the last sok1x_larger variable `index`'s own; the one that it had is released.
void sok1x_take_larger(void* handle, int index) {
  auto* request = static_cast<sok1x::Request*>(handle);
  request->LetTensorFlowFollow();  // which may give the old memory to others from now on
  *request->variables[index]->tensor() = request->larger;
  request->larger = tensorflow::Tensor();
}

// Leaves variable `index`, which is locked exclusively, its first `rows` rows, in place: this cannot fail. What is
// behind them is released when the variable next gets another buffer.
void sok1x_cut(void* handle, int index, int64_t rows, sok1x::TensorInfo* info) {
  tensorflow::Tensor* tensor = static_cast<sok1x::Request*>(handle)->variables[index]->tensor();
  *tensor = tensor->Slice(0, rows);
  sok1x::Describe(*tensor, info);
}

// Output `index`, the value of a variable that may grow, as sok1x_output gives it.
int sok1x_output_to_grow(void* handle, int index, int rank, const int64_t* dims, void** data) {
  auto* request = static_cast<sok1x::Request*>(handle);
  tensorflow::TensorShape shape;
  for (int i = 0; i < rank; ++i) shape.AddDim(dims[i]);
  const tensorflow::DataType dtype = request->output_types[index];
  tensorflow::Tensor tensor;
  int64_t clean;
  if (BytesToReserve(request, dtype, shape) > 0 && sok1x::Reserve(dtype, shape, &tensor, &clean)) {
    request->SetOutput(index, tensor);
  }
  const int code = sok1x::Allocate(request, index, rank, dims, data);  // where it is there already, that one
  if (code == 0) request->FollowTensorFlow();
  return code;
}

// Rows of variable `index`, which need not be locked; -1 where it has not been initialized.
int64_t sok1x_rows(void* handle, int index) { return sok1x::RowsOf(*static_cast<sok1x::Request*>(handle), index); }

// Bytes that the allocator of the request's device may still give; -1 where it does not say.
int64_t sok1x_bytes_left(void* handle) {
  auto* request = static_cast<sok1x::Request*>(handle);
  const auto stats = request->context->get_allocator(tensorflow::AllocatorAttributes())->GetStats();
  if (!stats || !stats->bytes_limit) return -1;
  return *stats->bytes_limit - stats->bytes_in_use;
}

}  // extern "C"
