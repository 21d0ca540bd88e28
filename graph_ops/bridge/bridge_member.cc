// See bridge_member.h.
#include "bridge_member.h"

#include <algorithm>
#include <atomic>

#if TF_MAJOR_VERSION == 1
#include "tensorflow/stream_executor/stream.h"
#include "tensorflow/stream_executor/stream_executor_internal.h"
#else
#include "xla/stream_executor/stream.h"
#endif

#include "bridge_foreign.h"
#include "bridge_queue.h"
#include "bridge_signature.h"

namespace sok1x {

namespace {

const char* const kTypes[] = {"Tin", "Thost_in", "Tout", "Thost_out"};  // from kDeviceInputs on

}  // namespace

int64_t Member::NextId() {
  static std::atomic<int64_t> next{0};
  return next++;
}

void Member::Place(const tf::int64* counts, const int* first) {
  std::copy(counts, counts + kSpans, counts_);
  std::copy(first, first + kSpans, first_);
  label_ = label_.substr(0, label_.rfind(kSignatureInName));
  id_ = NextId();
}

tf::Status Member::Read(tf::OpKernelConstruction* construction) {
  TF_RETURN_IF_ERROR(construction->GetAttr("function", &function_));
  TF_RETURN_IF_ERROR(construction->GetAttr("config", &config_));
  TF_RETURN_IF_ERROR(OfThisRank(construction, config_));
  tf::int64 signature = 0, counts[kSpans];
  TF_RETURN_IF_ERROR(construction->GetAttr("signature", &signature));
  signature_ = static_cast<uint64_t>(signature);
  TF_RETURN_IF_ERROR(construction->GetAttr("Nr", &counts[kResources]));
  for (int span = kDeviceInputs; span < kSpans; ++span) {
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(construction->GetAttr(kTypes[span - kDeviceInputs], &types));
    counts[span] = types.size();
    if (span < kDeviceOutputs) continue;
    for (tf::DataType type : types) {
      places_.push_back(places_.size());
      output_types_.push_back(type);
    }
  }
  label_ = construction->def().name();
  const int first[kSpans] = {0, static_cast<int>(counts[0]), static_cast<int>(counts[0] + counts[1])};
  Place(counts, first);
  return tf::Status();
}

tf::Status ReadOne(tf::OpKernelConstruction* construction, std::vector<Member>* members) {
  std::vector<Text> labels;
  TF_RETURN_IF_ERROR(construction->GetAttr("labels", &labels));
  if (!labels.empty()) return ReadAll(construction, members);
  members->resize(1);
  return members->front().Read(construction);
}

tf::Status ReadAll(tf::OpKernelConstruction* construction, std::vector<Member>* members) {
  std::vector<Text> labels, functions, configs, containers, names;
  std::vector<tf::int64> signatures, follows, counts, places;
  std::vector<bool> keep;
  tf::DataTypeVector types;
  TF_RETURN_IF_ERROR(construction->GetAttr("labels", &labels));
  TF_RETURN_IF_ERROR(construction->GetAttr("functions", &functions));
  TF_RETURN_IF_ERROR(construction->GetAttr("configs", &configs));
  TF_RETURN_IF_ERROR(construction->GetAttr("signatures", &signatures));
  TF_RETURN_IF_ERROR(construction->GetAttr("keep_sums", &keep));
  TF_RETURN_IF_ERROR(construction->GetAttr("follows", &follows));
  TF_RETURN_IF_ERROR(construction->GetAttr("counts", &counts));
  TF_RETURN_IF_ERROR(construction->GetAttr("containers", &containers));
  TF_RETURN_IF_ERROR(construction->GetAttr("names", &names));
  TF_RETURN_IF_ERROR(construction->GetAttr("output_types", &types));
  TF_RETURN_IF_ERROR(construction->GetAttr("places", &places));
  if (!configs.empty()) TF_RETURN_IF_ERROR(OfThisRank(construction, configs[0]));  // one process has built all
  const size_t size = labels.size();
  bool ordered = true;
  for (size_t i = 0; i < follows.size(); ++i) {
    ordered = ordered && (follows[i] < 0 ? i == 0 || follows[i - 1] < 0 : follows[i] < i && follows[follows[i]] < 0);
  }
  std::vector<size_t> all(kSpans);  // what members have of each span
  for (size_t i = 0; i < counts.size(); ++i) all[i % kSpans] += counts[i];
  const bool named = !names.empty();
  if (functions.size() != size || configs.size() != size || signatures.size() != size ||
      keep.size() != size || follows.size() != size || counts.size() != size * kSpans ||
      containers.size() != names.size() ||
      (named && names.size() != all[kResources]) || places.size() != all[kDeviceOutputs] + all[kHostOutputs] ||
      types.size() != places.size() || !ordered) {
    return tf::errors::InvalidArgument("sok1x: a fused node whose lists do not belong to ", size, " ops");
  }
  int first[kSpans] = {};
  if (!named) first[kDeviceInputs] = all[kResources];
  const size_t given = std::count_if(follows.begin(), follows.end(), [](tf::int64 member) { return member >= 0; });
  first[kHostInputs] = first[kDeviceInputs] + all[kDeviceInputs] - given;
  members->resize(size);
  size_t output = 0;
  for (size_t i = 0; i < size; ++i) {
    Member& member = (*members)[i];
    const tf::int64* const has = &counts[i * kSpans];
    member.function_ = functions[i];
    member.config_ = configs[i];
    member.label_ = labels[i];
    member.signature_ = static_cast<uint64_t>(signatures[i]);
    member.keeps_sums_ = keep[i];
    member.follows_ = static_cast<int>(follows[i]);
    if (member.follows_ >= 0) --first[kDeviceInputs];  // where the first would be, which is none of the kernel's
    if (named) {
      const int begin = first[kResources], end = begin + has[kResources];
      member.containers_.assign(containers.begin() + begin, containers.begin() + end);
      member.names_.assign(names.begin() + begin, names.begin() + end);
    }
    const size_t end = output + has[kDeviceOutputs] + has[kHostOutputs];
    member.places_.assign(places.begin() + output, places.begin() + end);
    member.output_types_.assign(types.begin() + output, types.begin() + end);
    output = end;
    member.Place(has, first);
    for (int span = 0; span < kDeviceOutputs; ++span) first[span] += has[span];
  }
  return tf::Status();
}

// A variable that was never initialized does not exist. sok1x_lock says so: that sok1x.Init comes before the
// initializers is the executor's to say first.
tf::Status Member::FindVariables(tf::OpKernelContext* context, Request* request) {
  request->variables.resize(counts_[kResources]);
  if (!names_.empty()) {
    request->names = names_.data();
    KnownVariables::Get()->Find(context->resource_manager(), containers_, names_, &known_, request->variables.data());
    return tf::Status();
  }
  for (int i = 0; i < counts_[kResources]; ++i) {
    const tf::Status found = tf::LookupResource(context, tf::HandleFromInput(context, first_[kResources] + i),
                                                &request->variables[i]);
    if (!found.ok() && !tf::errors::IsNotFound(found)) return found;
  }
  return tf::Status();
}

tf::Status Member::Begin(tf::OpKernelContext* context, uint64_t session, const tf::Tensor* given, Queued* queued) {
  std::unique_ptr<Request> request(new Request);
  request->context = context;
  request->stream = StreamOf(context);
  request->label = label_.c_str();
  request->function = function_.c_str();
  request->keeps_sums = keeps_sums_;
  request->Come(kStampReady);
  for (int span = 0; span < kSpans; ++span) request->first[span] = first_[span];
  request->device_inputs = counts_[kDeviceInputs];
  request->device_outputs = counts_[kDeviceOutputs];
  request->places = places_.data();
  request->output_types = output_types_.data();
  if (given != nullptr) {
    request->follows = true;
    request->given = *given;
  }
  TF_RETURN_IF_ERROR(FindVariables(context, request.get()));
  const int inputs = counts_[kDeviceInputs] + counts_[kHostInputs];
  request->inputs.resize(inputs);
  for (int i = 0; i < inputs; ++i) {
    if (!Describe(request->Input(i), &request->inputs[i])) {
      return tf::errors::InvalidArgument("sok1x: got a tensor of more than ", kMaxRank, " dimensions");
    }
  }
  static std::atomic<int64_t> next_request{1};
  const int64_t id = next_request++;
  RequestInfo& info = queued->info;
  info.request = request.get();
  info.function = function_.c_str();
  info.config = config_.c_str();
  info.name = label_.c_str();
  info.inputs = request->inputs.data();
  info.id = id;
  info.kernel = id_;
  info.step = context->step_id() + 1;
  info.session = session;
  info.signature = signature_;
  info.frame = context->frame_iter().frame_id;
  info.iteration = context->frame_iter().iter_id;
  info.stream = request->stream;
  info.input_count = inputs;
  info.host_input_count = counts_[kHostInputs];
  info.device_output_count = counts_[kDeviceOutputs];
  info.resource_count = counts_[kResources];
  queued->request = request.release();
  return tf::Status();
}

void* Member::StreamOf(tf::OpKernelContext* context) {
  if (context->op_device_context() == nullptr || context->op_device_context()->stream() == nullptr) return nullptr;
  auto* stream = context->op_device_context()->stream();
#if TF_MAJOR_VERSION == 1
  return *reinterpret_cast<void**>(stream->implementation()->GpuStreamMemberHack());
#else
  return stream->platform_specific_handle().stream;
#endif
}

}  // namespace sok1x
