// The bridge between TensorFlow's executor and ours: one asynchronous op, under several names (bridge_types.h), and one
// that is several of them at once (bridge_fusing.cc).
//
// A TensorFlow thread that reaches the op makes a Request, puts it into a queue and goes on. One thread of our own,
// written in Python (executor.py), takes requests out of the queue through the C functions of bridge_api.cc, reads the
// inputs' pointers, asks for outputs and temporaries (which TensorFlow's allocator makes), and finishes the request
// with a status. No tensor is copied on the way.
#include <algorithm>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/hash/hash.h"

#include "bridge_alone.h"
#include "bridge_fused.h"
#include "bridge_member.h"
#include "bridge_pins.h"
#include "bridge_queue.h"
#include "bridge_runner.h"
#include "bridge_sessions.h"
#include "bridge_types.h"

namespace sok1x {

namespace {

// Both ops' kernel: hands over requests of its members.
class CallsOp : public tf::AsyncOpKernel {
 public:
  explicit CallsOp(tf::OpKernelConstruction* construction) : tf::AsyncOpKernel(construction) {}

  ~CallsOp() override {
    if (in_session_.load() && Queue::Forked()->load() == nullptr) Sessions::Get()->Leave(session_, direct_);
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    if (const char* forked = Queue::Forked()->load()) {
      context->SetStatus(tf::errors::FailedPrecondition(forked));
      done();
      return;
    }
    std::call_once(entered_, [this, context] {
      const std::string handle(context->session_handle());
      session_ = tf::Hash64(handle);
      direct_ = handle.compare(0, 6, "direct") == 0;  // a tf.train.Server's sessions share its variables, and a number
      Sessions::Get()->Enter(session_);
      in_session_.store(Pins::EndsWithStep(context));  // what is eager goes on, whichever kernels TensorFlow lets go
      first_ = std::count_if(members_.begin(), members_.end(), [](const Member& each) { return each.follows() < 0; });
    });
    std::vector<Queued> queued(first_);
    tf::Status status = BeginMembers(context, session_, &members_, 0, {}, &queued);
    std::shared_ptr<Cancellable> cancellable;
    if (status.ok()) status = Register(context, queued, &cancellable);
    if (!status.ok()) {
      for (const Queued& begun : queued) delete begun.request;
      context->SetStatus(status);
      done();
    } else {
      done = OutsideExecutor(context, std::move(done));
      if (members_.size() == 1) {
        queued[0].request->done = std::move(done);
      } else {
        new Fused(queued, {&members_, session_, std::move(cancellable)}, std::move(done));
      }
      Queue::Get()->Push(queued);
    }
  }

 protected:
  std::vector<Member> members_;

 private:
  // Has requests cancelled when TensorFlow gives up the step; the first one has the token.
  tf::Status Register(tf::OpKernelContext* context, const std::vector<Queued>& queued,
                      std::shared_ptr<Cancellable>* made) {
    tf::CancellationManager* const manager = context->cancellation_manager();
    if (manager == nullptr) return tf::Status();
    const std::vector<int64_t> ids = IdsOf(queued);
    const std::shared_ptr<Cancellable> cancellable(new Cancellable);
    cancellable->Next(ids);  // the step may be given up at any moment from the next line on
    *made = cancellable;
    Request* const first = queued[0].request;
    first->cancellation = manager->get_cancellation_token();
    first->cancellable = manager->RegisterCallback(first->cancellation, [cancellable] { cancellable->Cancel(); });
    if (first->cancellable) return tf::Status();
    Queue::Get()->NotComing(ids);
    return tf::errors::Cancelled("sok1x: the step was cancelled before op '", first->label, "' began");
  }

  std::once_flag entered_;  // a kernel belongs to one session, which it learns of when it first runs
  std::atomic<bool> in_session_{false};
  uint64_t session_ = 0;
  size_t first_ = 0;  // how many members begin when the kernel runs: those that follow others come behind them
  bool direct_ = false;
};

class CallOp : public CallsOp {
 public:
  explicit CallOp(tf::OpKernelConstruction* construction) : CallsOp(construction) {
    OP_REQUIRES_OK(construction, ReadOne(construction, &members_));
    Text function;
    OP_REQUIRES_OK(construction, construction->GetAttr("function", &function));
    sums_ = function == kAllReduce && construction->num_inputs() == construction->num_outputs();
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    if (!sums_ || !Alone()->load()) {
      CallsOp::ComputeAsync(context, std::move(done));
      return;
    }
    for (int i = 0; i < context->num_inputs(); ++i) context->set_output(i, context->input(i));
    done();
  }

 private:
  bool sums_;  // over the ranks
};

class FusedOp : public CallsOp {
 public:
  explicit FusedOp(tf::OpKernelConstruction* construction) : CallsOp(construction) {
    OP_REQUIRES_OK(construction, ReadAll(construction, &members_));
  }
};

tf::Status KnownShapes(tf::shape_inference::InferenceContext* c) {
  std::vector<tf::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
  for (size_t i = 0; i < shapes.size(); ++i) {
    tf::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return tf::Status();
}

// digest: of an op that communicates (plan.py). signature: given by bridge_signature.cc. fuse: whether it may become a
// part of a fused node (bridge_fusing.cc). From labels on as of a fused node, where it has been made as one that is
// alone of its kind; else empty.
#define SOK1X_REGISTER_OP(name)               \
  REGISTER_OP(name)                           \
      .Input("resources: Nr * resource")      \
      .Input("inputs: Tin")                   \
      .Input("host_inputs: Thost_in")         \
      .Output("outputs: Tout")                \
      .Output("host_outputs: Thost_out")      \
      .Attr("function: string")               \
      .Attr("config: string")                 \
      .Attr("digest: int = 0")                \
      .Attr("signature: int = 0")             \
      .Attr("fuse: bool = false")             \
      .Attr("Nr: int >= 0")                   \
      .Attr("Tin: list(type) >= 0")           \
      .Attr("Thost_in: list(type) >= 0")      \
      .Attr("Tout: list(type) >= 0")          \
      .Attr("Thost_out: list(type) >= 0")     \
      .Attr("output_shapes: list(shape) >= 0") \
      .Attr("labels: list(string) = []")      \
      .Attr("functions: list(string) = []")   \
      .Attr("configs: list(string) = []")     \
      .Attr("signatures: list(int) = []")     \
      .Attr("keep_sums: list(bool) = []")     \
      .Attr("follows: list(int) = []")        \
      .Attr("counts: list(int) = []")         \
      .Attr("containers: list(string) = []")  \
      .Attr("names: list(string) = []")       \
      .Attr("output_types: list(type) = []")  \
      .Attr("places: list(int) = []")         \
      .SetIsStateful()                        \
      .SetShapeFn(KnownShapes)                \
      .Doc("Hands its inputs to the Python function named by `function`, run by sok1x's executor thread.")

// Of a fused node. What members have, one after the other; of each how many: `counts` has kSpans numbers of each
// member. containers, names: of the resources, which then are no inputs; or empty. output_types: of all outputs, those
// in host memory last; places: where each is among the node's, -1 where nobody reads it and the node has it not.
// keep_sums: of each member Request::keeps_sums. follows: and which member makes its first device input, which is then
// none of the node's; -1: none does. Those that follow others come last.
#define SOK1X_REGISTER_FUSED_OP(name)       \
  REGISTER_OP(name "s")                     \
      .Input("resources: Nr * resource")    \
      .Input("inputs: Tin")                 \
      .Input("host_inputs: Thost_in")       \
      .Output("outputs: Tout")              \
      .Output("host_outputs: Thost_out")    \
      .Attr("labels: list(string)")         \
      .Attr("functions: list(string)")      \
      .Attr("configs: list(string)")        \
      .Attr("signatures: list(int)")        \
      .Attr("keep_sums: list(bool)")        \
      .Attr("follows: list(int)")           \
      .Attr("counts: list(int)")            \
      .Attr("containers: list(string)")     \
      .Attr("names: list(string)")          \
      .Attr("output_types: list(type)")     \
      .Attr("places: list(int)")            \
      .Attr("Nr: int >= 0")                 \
      .Attr("Tin: list(type) >= 0")         \
      .Attr("Thost_in: list(type) >= 0")    \
      .Attr("Tout: list(type) >= 0")        \
      .Attr("Thost_out: list(type) >= 0")   \
      .SetIsStateful()                      \
      .SetShapeFn(tf::shape_inference::UnknownShape) \
      .Doc("Several ops of ours at once, made by sok1x's graph pass; not for graphs that are kept.")

// A kernel for a GPU does no harm in a TensorFlow that knows none.
#define SOK1X_REGISTER_KERNELS_OF(name, kernel)                             \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tf::DEVICE_CPU), kernel);       \
  REGISTER_KERNEL_BUILDER(Name(name)                                        \
                              .Device(tf::DEVICE_GPU)                       \
                              .HostMemory("resources")                      \
                              .HostMemory("host_inputs")                    \
                              .HostMemory("host_outputs"),                  \
                          kernel)
#define SOK1X_REGISTER_KERNELS(name)        \
  SOK1X_REGISTER_KERNELS_OF(name, CallOp);  \
  SOK1X_REGISTER_KERNELS_OF(name "s", FusedOp)

SOK1X_FOR_EACH_TYPE(SOK1X_REGISTER_OP);
SOK1X_FOR_EACH_TYPE(SOK1X_REGISTER_FUSED_OP);
SOK1X_FOR_EACH_TYPE(SOK1X_REGISTER_KERNELS);

}  // namespace

}  // namespace sok1x
