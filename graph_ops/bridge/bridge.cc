// The bridge between TensorFlow's executor and ours: one asynchronous op, "Sok1xCall".
//
// A TensorFlow thread that reaches the op makes a Request, puts it into a queue and goes on. One thread of our own,
// written in Python (executor.py), takes requests out of the queue through the C functions of bridge_api.cc, reads the
// inputs' pointers, asks for outputs and temporaries (which TensorFlow's allocator makes), and finishes the request
// with a status. No tensor is copied on the way.
#include <mutex>
#include <unordered_map>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/hash/hash.h"
#include "tensorflow/core/public/version.h"
#include "tensorflow/stream_executor/stream.h"
#if TF_MAJOR_VERSION == 1
#include "tensorflow/stream_executor/stream_executor_internal.h"
#endif

#include "bridge_queue.h"
#include "bridge_signature.h"

namespace sok1x {

Queue* Queue::Get() {
  static Queue* queue = new Queue;  // never destroyed: TensorFlow's threads may outlive static destruction
  return queue;
}

Scratch* Scratch::Get() {
  static Scratch* scratch = new Scratch;  // never destroyed, as the queue
  return scratch;
}

// The sessions that have kernels of ours. TensorFlow gives every session a handle of its own and keeps a session's
// kernels until the session is deleted.
class Sessions {
 public:
  static Sessions* Get() {
    static Sessions* sessions = new Sessions;  // never destroyed, as the queue
    return sessions;
  }

  void Enter(uint64_t session) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++kernels_[session];
  }

  void Leave(uint64_t session) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (--kernels_[session] > 0) return;
      kernels_.erase(session);
    }
    Queue::Get()->EndSession(session);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, int64_t> kernels_;
};

class CallOp : public tf::AsyncOpKernel {
 public:
  explicit CallOp(tf::OpKernelConstruction* construction) : tf::AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("function", &function_));
    OP_REQUIRES_OK(construction, construction->GetAttr("config", &config_));
    OP_REQUIRES_OK(construction, construction->GetAttr("Nr", &resource_count_));
    host_input_count_ = CountTypes(construction, "Thost_in");
    device_output_count_ = CountTypes(construction, "Tout");
    tf::int64 signature = 0;
    OP_REQUIRES_OK(construction, construction->GetAttr("signature", &signature));
    signature_ = static_cast<uint64_t>(signature);
    label_ = name().substr(0, name().rfind(kSignatureInName));
    static std::atomic<int64_t> next{0};
    id_ = next++;
  }

  ~CallOp() override {
    if (in_session_.load()) Sessions::Get()->Leave(session_);
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    std::call_once(entered_, [this, context] {
      session_ = tf::Hash64(context->session_handle());
      Sessions::Get()->Enter(session_);
      in_session_.store(true);
    });
    std::unique_ptr<Request> request(new Request);
    request->context = context;
    request->stream = StreamOf(context);
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
    queued.info.name = label_.c_str();
    queued.info.inputs = request->inputs.data();
    queued.info.id = id;
    queued.info.kernel = id_;
    queued.info.step = context->step_id() + 1;
    queued.info.session = session_;
    queued.info.signature = signature_;
    queued.info.frame = context->frame_iter().frame_id;
    queued.info.iteration = context->frame_iter().iter_id;
    queued.info.stream = request->stream;
    queued.info.input_count = inputs;
    queued.info.host_input_count = host_input_count_;
    queued.info.device_output_count = device_output_count_;
    queued.info.resource_count = resource_count_;
    request.release();
    Queue::Get()->Push(queued);
  }

 private:
  static int CountTypes(tf::OpKernelConstruction* construction, const char* name) {
    tf::DataTypeVector types;
    construction->SetStatus(construction->GetAttr(name, &types));
    return static_cast<int>(types.size());
  }

  // The stream of TensorFlow's kernels, null on the CPU.
  static void* StreamOf(tf::OpKernelContext* context) {
    if (context->op_device_context() == nullptr || context->op_device_context()->stream() == nullptr) return nullptr;
    auto* stream = context->op_device_context()->stream();
#if TF_MAJOR_VERSION == 1
    return *reinterpret_cast<void**>(stream->implementation()->GpuStreamMemberHack());
#else
    return stream->platform_specific_handle().stream;
#endif
  }

#if TF_MAJOR_VERSION == 1
  tf::string function_, config_, label_;
#else
  std::string function_, config_, label_;
#endif
  int resource_count_ = 0, host_input_count_ = 0, device_output_count_ = 0;
  int64_t id_ = 0;
  std::once_flag entered_;  // a kernel belongs to one session, which it learns of when it first runs
  std::atomic<bool> in_session_{false};
  uint64_t session_ = 0, signature_ = 0;
};

REGISTER_OP("Sok1xCall")
    .Input("resources: Nr * resource")
    .Input("inputs: Tin")
    .Input("host_inputs: Thost_in")
    .Output("outputs: Tout")
    .Output("host_outputs: Thost_out")
    .Attr("function: string")
    .Attr("config: string")
    .Attr("digest: int = 0")     // of an op that communicates: plan.py
    .Attr("signature: int = 0")  // given by bridge_signature.cc
    .Attr("Nr: int >= 0")
    .Attr("Tin: list(type) >= 0")
    .Attr("Thost_in: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("Thost_out: list(type) >= 0")
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
// Harmless in a TensorFlow that knows no GPU.
REGISTER_KERNEL_BUILDER(Name("Sok1xCall")
                            .Device(tf::DEVICE_GPU)
                            .HostMemory("resources")
                            .HostMemory("host_inputs")
                            .HostMemory("host_outputs"),
                        CallOp);

}  // namespace sok1x
