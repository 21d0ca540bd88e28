// The bridge between TensorFlow's executor and ours: one asynchronous op, "Sok1xCall".
//
// A TensorFlow thread that reaches the op makes a Request, puts it into a queue and goes on. One thread of our own,
// written in Python (executor.py), takes requests out of the queue through the C functions at the end of this file,
// reads the inputs' pointers, asks for outputs and temporaries (which TensorFlow's allocator makes), and finishes
// the request with a status. No tensor is copied on the way.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/public/version.h"

namespace sok1x {

namespace tf = ::tensorflow;

#if TF_MAJOR_VERSION == 1
typedef tf::error::Code Code;
typedef tf::mutex VarMutex;
#else
typedef absl::StatusCode Code;
typedef tf::mutex VarMutex;
#endif

constexpr int kMaxRank = 8;

// What Python sees of a tensor. Kept in step with bridge.py's TensorInfo.
struct TensorInfo {
  void* data;
  int64_t elements;
  int64_t dims[kMaxRank];
  int32_t dtype;
  int32_t rank;
};

// What Python sees of a request. Kept in step with bridge.py's RequestInfo.
struct RequestInfo {
  void* request;
  const char* function;
  const char* config;
  const char* name;
  const TensorInfo* inputs;
  int64_t id;      // of this request: never used again
  int64_t kernel;  // of the node in its session
  int64_t step;    // of the session's run; above 0
  int32_t input_count;
  int32_t resource_count;
};

bool Describe(const tf::Tensor& tensor, TensorInfo* info) {
  if (tensor.dims() > kMaxRank) return false;
  info->data = const_cast<char*>(tensor.tensor_data().data());
  info->elements = tensor.NumElements();
  info->dtype = static_cast<int32_t>(tensor.dtype());
  info->rank = tensor.dims();
  for (int i = 0; i < tensor.dims(); ++i) info->dims[i] = tensor.dim_size(i);
  return true;
}

// One run of one op, from ComputeAsync until sok1x_finish.
struct Request {
  tf::OpKernelContext* context;
  tf::AsyncOpKernel::DoneCallback done;
  std::vector<TensorInfo> inputs;
  std::vector<tf::core::RefCountPtr<tf::Var>> variables;
  std::vector<TensorInfo> variable_infos;
  std::vector<VarMutex*> held;  // the variables' mutexes that are locked now, in order of address
  bool exclusive = false;
  bool cancellable = false;  // a callback is registered under `cancellation`
  tf::CancellationToken cancellation = 0;
  std::vector<std::unique_ptr<tf::Tensor>> temporaries;

  void Unlock() {
    for (auto it = held.rbegin(); it != held.rend(); ++it) {
      if (exclusive) {
        (*it)->unlock();
      } else {
        (*it)->unlock_shared();
      }
    }
    held.clear();
  }

  void Finish(const tf::Status& status) {
    Unlock();
    if (cancellable) context->cancellation_manager()->DeregisterCallback(cancellation);
    if (!status.ok()) context->SetStatus(status);
    temporaries.clear();
    variables.clear();
    tf::AsyncOpKernel::DoneCallback call = std::move(done);
    delete this;
    call();
  }
};

struct Queued {
  Request* request;
  RequestInfo info;
};

// The queue between TensorFlow's threads and the executor. Closed until an executor opens it; a request that meets a
// closed queue fails at once with the reason, so that nothing ever waits for a thread that is not there.
class Queue {
 public:
  static Queue* Get() {
    static Queue* queue = new Queue;  // never destroyed: TensorFlow's threads may outlive static destruction
    return queue;
  }

  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
  }

  void Close(int code, const std::string& reason) {
    std::deque<Queued> left;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_ = false;
      close_status_ = tf::Status(static_cast<Code>(code), reason);
      left.swap(queue_);
      cancelled_.clear();
      size_.store(0, std::memory_order_release);
    }
    ready_.notify_all();
    for (Queued& queued : left) queued.request->Finish(close_status_);
  }

  // TensorFlow has given up the step of request `id`. The request may have finished meanwhile: hence not its pointer.
  void Cancel(int64_t id) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      cancelled_.push_back(id);
      size_.fetch_add(1, std::memory_order_release);
    }
    ready_.notify_one();
  }

  void Push(const Queued& queued) {
    tf::Status refused;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (open_) {
        queue_.push_back(queued);
        size_.store(queue_.size(), std::memory_order_release);
      } else {
        refused = close_status_;
      }
    }
    if (refused.ok()) {
      ready_.notify_one();
    } else {
      queued.request->Finish(refused);
    }
  }

  void Wake() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      woken_ = true;
    }
    ready_.notify_all();
  }

  // Takes a request (1) or the id of a cancelled one (2); 0 after wait_us microseconds (negative: no limit) or a Wake.
  // Spins for spin_us first: a thread that sleeps costs about 50 us to wake, and a step's next op often comes sooner.
  int Pop(int64_t spin_us, int64_t wait_us, RequestInfo* info) {
    if (spin_us > 0 && size_.load(std::memory_order_acquire) == 0) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us);
      while (size_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < end) {
      }
    }
    std::unique_lock<std::mutex> lock(mutex_);
    auto something = [this] { return !queue_.empty() || !cancelled_.empty() || woken_; };
    if (wait_us < 0) {
      ready_.wait(lock, something);
    } else {
      ready_.wait_for(lock, std::chrono::microseconds(wait_us), something);
    }
    woken_ = false;
    int taken = 0;
    if (!queue_.empty()) {
      *info = queue_.front().info;
      queue_.pop_front();
      taken = 1;
    } else if (!cancelled_.empty()) {  // after the queue, so that a request is always known before its cancellation
      info->id = cancelled_.front();
      cancelled_.pop_front();
      taken = 2;
    }
    size_.store(queue_.size() + cancelled_.size(), std::memory_order_release);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Queued> queue_;
  std::deque<int64_t> cancelled_;
  std::atomic<size_t> size_{0};
  bool open_ = false;
  bool woken_ = false;
  tf::Status close_status_ = tf::Status(
      static_cast<Code>(9), "sok1x's executor is not running in this process (forked after the graph was built?)");
};

class CallOp : public tf::AsyncOpKernel {
 public:
  explicit CallOp(tf::OpKernelConstruction* construction) : tf::AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("function", &function_));
    OP_REQUIRES_OK(construction, construction->GetAttr("config", &config_));
    OP_REQUIRES_OK(construction, construction->GetAttr("Nr", &resource_count_));
    static std::atomic<int64_t> next{0};
    id_ = next++;
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    std::unique_ptr<Request> request(new Request);
    request->context = context;
    request->variables.resize(resource_count_);
    for (int i = 0; i < resource_count_; ++i) {
      // A variable that was never initialized does not exist. sok1x_lock says so: that sok1x.Init comes before
      // the initializers is the executor's to say first.
      const tf::Status found = tf::LookupResource(context, tf::HandleFromInput(context, i), &request->variables[i]);
      OP_REQUIRES_ASYNC(context, found.ok() || tf::errors::IsNotFound(found), found, done);
    }
    const int inputs = context->num_inputs() - resource_count_;
    request->inputs.resize(inputs);
    for (int i = 0; i < inputs; ++i) {
      OP_REQUIRES_ASYNC(
          context, Describe(context->input(resource_count_ + i), &request->inputs[i]),
          tf::errors::InvalidArgument("sok1x: got a tensor of more than ", kMaxRank, " dimensions"), done);
    }
    static std::atomic<int64_t> next_request{1};
    const int64_t id = next_request++;
    tf::CancellationManager* cancellation = context->cancellation_manager();
    if (cancellation != nullptr) {
      request->cancellation = cancellation->get_cancellation_token();
      request->cancellable =
          cancellation->RegisterCallback(request->cancellation, [id] { Queue::Get()->Cancel(id); });
      OP_REQUIRES_ASYNC(context, request->cancellable,
                        tf::errors::Cancelled("sok1x: the step was cancelled before op '", name(), "' began"), done);
    }
    request->done = std::move(done);
    Queued queued;
    queued.request = request.get();
    queued.info.request = request.get();
    queued.info.function = function_.c_str();
    queued.info.config = config_.c_str();
    queued.info.name = name().c_str();
    queued.info.inputs = request->inputs.data();
    queued.info.id = id;
    queued.info.kernel = id_;
    queued.info.step = context->step_id() + 1;
    queued.info.input_count = inputs;
    queued.info.resource_count = resource_count_;
    request.release();
    Queue::Get()->Push(queued);
  }

 private:
#if TF_MAJOR_VERSION == 1
  tf::string function_, config_;
#else
  std::string function_, config_;
#endif
  int resource_count_ = 0;
  int64_t id_ = 0;
};

REGISTER_OP("Sok1xCall")
    .Input("resources: Nr * resource")
    .Input("inputs: Tin")
    .Output("outputs: Tout")
    .Attr("function: string")
    .Attr("config: string")
    .Attr("Nr: int >= 0")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("output_shapes: list(shape) >= 0")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      std::vector<tf::PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
      for (size_t i = 0; i < shapes.size(); ++i) {
        tf::shape_inference::ShapeHandle shape;
        TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
        c->set_output(i, shape);
      }
      return tf::Status();
    })
    .Doc("Hands its inputs to the Python function named by `function`, run by sok1x's executor thread.");

REGISTER_KERNEL_BUILDER(Name("Sok1xCall").Device(tf::DEVICE_CPU), CallOp);

// The sparse-update rule of TensorFlow's own optimizers: the first in-place write switches the variable to
// copy-on-read; if a reader still shares the buffer at that moment, the variable gets its own copy first.
tf::Status MakeWritable(tf::OpKernelContext* context, tf::Var* variable) {
  if (variable->copy_on_read_mode.load()) return tf::Status();
  tf::Tensor* tensor = variable->tensor();
  const tf::TensorBuffer* buffer = tf::DMAHelper::buffer(tensor);
  if (buffer != nullptr && !buffer->RefCountIsOne()) {
    tf::Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
    const tf::StringPiece from = tensor->tensor_data();
    std::memcpy(const_cast<char*>(copy.tensor_data().data()), from.data(), from.size());
    *tensor = copy;
  }
  variable->copy_on_read_mode.store(true);
  return tf::Status();
}

tf::TensorShape ShapeOf(int32_t rank, const int64_t* dims) {
  tf::TensorShape shape;
  for (int i = 0; i < rank; ++i) shape.AddDim(dims[i]);
  return shape;
}

int Report(const tf::Status& status) { return static_cast<int>(status.code()); }

}  // namespace sok1x

extern "C" {

// For bridge.py, to check that its structures are these.
int sok1x_tensor_info_bytes() { return sizeof(sok1x::TensorInfo); }
int sok1x_request_info_bytes() { return sizeof(sok1x::RequestInfo); }

void sok1x_open() { sok1x::Queue::Get()->Open(); }

void sok1x_close(int code, const char* reason) { sok1x::Queue::Get()->Close(code, reason); }

void sok1x_wake() { sok1x::Queue::Get()->Wake(); }

int sok1x_pop(int64_t spin_us, int64_t wait_us, sok1x::RequestInfo* info) {
  return sok1x::Queue::Get()->Pop(spin_us, wait_us, info);
}

// Locks the request's variables, exclusively (for writing) or shared, and describes their tensors in infos.
// Returns 0, a status code, or -1-i where variable i has not been initialized. After a failure nothing is locked.
int sok1x_lock(void* handle, int exclusive, sok1x::TensorInfo* infos) {
  auto* request = static_cast<sok1x::Request*>(handle);
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
  for (size_t i = 0; i < request->variables.size(); ++i) {
    tensorflow::Var* variable = request->variables[i].get();
    if (!variable->is_initialized) {
      request->Unlock();
      return -1 - static_cast<int>(i);
    }
    if (exclusive) {
      const tensorflow::Status status = sok1x::MakeWritable(request->context, variable);
      if (!status.ok()) {
        request->Unlock();
        return sok1x::Report(status);
      }
    }
    sok1x::Describe(*variable->tensor(), &infos[i]);
  }
  return 0;
}

void sok1x_unlock(void* handle) { static_cast<sok1x::Request*>(handle)->Unlock(); }

int sok1x_output(void* handle, int index, int rank, const int64_t* dims, void** data) {
  auto* request = static_cast<sok1x::Request*>(handle);
  tensorflow::Tensor* tensor = nullptr;
  const tensorflow::Status status =
      request->context->allocate_output(index, sok1x::ShapeOf(rank, dims), &tensor);
  if (!status.ok()) return sok1x::Report(status);
  *data = const_cast<char*>(tensor->tensor_data().data());
  return 0;
}

// Output `index` becomes input `input` itself: the same buffer, no copy.
int sok1x_forward(void* handle, int index, int input) {
  auto* request = static_cast<sok1x::Request*>(handle);
  const int resources = static_cast<int>(request->variables.size());
  request->context->set_output(index, request->context->input(resources + input));
  return 0;
}

int sok1x_temporary(void* handle, int dtype, int rank, const int64_t* dims, void** data) {
  auto* request = static_cast<sok1x::Request*>(handle);
  std::unique_ptr<tensorflow::Tensor> tensor(new tensorflow::Tensor);
  const tensorflow::Status status = request->context->allocate_temp(
      static_cast<tensorflow::DataType>(dtype), sok1x::ShapeOf(rank, dims), tensor.get());
  if (!status.ok()) return sok1x::Report(status);
  *data = const_cast<char*>(tensor->tensor_data().data());
  request->temporaries.push_back(std::move(tensor));
  return 0;
}

void sok1x_finish(void* handle, int code, const char* message) {
  auto* request = static_cast<sok1x::Request*>(handle);
  if (code == 0) {
    request->Finish(tensorflow::Status());
  } else {
    request->Finish(tensorflow::Status(static_cast<sok1x::Code>(code), message));
  }
}

}  // extern "C"
