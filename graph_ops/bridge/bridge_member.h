// What is known of an op before it runs, and how a run of it becomes a request.
#ifndef SOK1X_BRIDGE_MEMBER_H
#define SOK1X_BRIDGE_MEMBER_H

#include <string>
#include <vector>

#include "bridge_known.h"
#include "bridge_request.h"

namespace sok1x {

class Member {
 public:
  // From the attributes of an op of ours.
  tf::Status Read(tf::OpKernelConstruction* construction);

  // Makes the request of one run. given: of one that follows another its first input, else null. Any thread.
  tf::Status Begin(tf::OpKernelContext* context, uint64_t session, const tf::Tensor* given, Queued* queued);

  // Which of its kernel's members makes its first input, as its first output, and comes before it; -1: none does.
  int follows() const { return follows_; }

  // The op's name in the graph that was built.
  const char* label() const { return label_.c_str(); }

 private:
  friend tf::Status ReadAll(tf::OpKernelConstruction* construction, std::vector<Member>* members);

  tf::Status FindVariables(tf::OpKernelContext* context, Request* request);

  // counts: kSpans. Inputs of a kernel are in the order of Span; first: of each what comes before it.
  void Place(const tf::int64* counts, const int* first);

  // The stream of TensorFlow's kernels, null on the CPU.
  static void* StreamOf(tf::OpKernelContext* context);
  static int64_t NextId();

  Text function_, config_, label_;
  std::vector<Text> containers_, names_;  // of variables that are no inputs (bridge_handles.h)
  KnownVariables::List known_;            // the same
  uint64_t signature_ = 0;
  bool keeps_sums_ = false;
  int follows_ = -1;
  int64_t id_ = 0;
  int counts_[kSpans] = {};
  int first_[kSpans] = {};
  std::vector<int> places_;  // of outputs, as a request has them
  std::vector<tf::DataType> output_types_;
};

// Of a node of one op of ours, as it was built or as a fused one is made.
tf::Status ReadOne(tf::OpKernelConstruction* construction, std::vector<Member>* members);

// Of a fused node. Members that follow others come last.
tf::Status ReadAll(tf::OpKernelConstruction* construction, std::vector<Member>* members);

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_MEMBER_H
