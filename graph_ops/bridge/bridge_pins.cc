// See bridge_pins.h.
#include "bridge_pins.h"

#include <algorithm>
#include <string>

#include "bridge_calls.h"
#include "bridge_clock.h"

namespace sok1x {

// Of one table, in the container of a step that is in flight.
class Pin : public tf::ResourceBase {
 public:
  Pin(const tf::Var* rows, int64_t first) : rows_(rows), first_(first) {}
  ~Pin() override { Pins::Get()->Leave(rows_, first_); }
  std::string DebugString() const override { return "rows that a step in flight has looked up"; }
  const tf::Var* rows() const { return rows_; }

 private:
  const tf::Var* const rows_;
  const int64_t first_;
};

namespace {

constexpr size_t kMostQuiets = 8192;

// The clock is heard from the start on, before anybody can read a time that is meant.
const int64_t kLoaded = Pins::Get()->MomentOf(0);

#if TF_MAJOR_VERSION != 1

typedef std::vector<std::shared_ptr<tf::core::RefCounted>> Held;

std::shared_ptr<tf::core::RefCounted> Shared(tf::core::RefCounted* pin) {
  return std::shared_ptr<tf::core::RefCounted>(pin, [](tf::core::RefCounted* one) { one->Unref(); });
}

// A tensor's memory, and what stays in flight as long as anybody has it.
class PinnedBuffer : public tf::TensorBuffer {
 public:
  PinnedBuffer(const tf::Tensor& tensor, const Held& pins)
      : tf::TensorBuffer(const_cast<char*>(tensor.tensor_data().data())), tensor_(tensor), pins_(pins) {}
  size_t size() const override { return tensor_.TotalBytes(); }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* proto) const override {}
  const Held& pins() const { return pins_; }

 private:
  const tf::Tensor tensor_;
  const Held pins_;
};

#endif

}  // namespace

Pins* Pins::Get() {
  static Pins* pins = new Pins;  // never destroyed: TensorFlow's threads may outlive static destruction
  return pins;
}

// Whether the op's container is that of its step: what runs eagerly, functions too, has one of its kernel.
bool Pins::EndsWithStep(const tf::OpKernelContext* context) {
#if TF_MAJOR_VERSION == 1
  return context->step_container() != nullptr;
#else
  return context->step_container() != nullptr && context->step_container()->StepId() == context->step_id();
#endif
}

tf::Status Pins::Look(Request* request, const tf::Var* rows) {
  tf::OpKernelContext* const context = request->context;
  if (!EndsWithStep(context)) {
#if TF_MAJOR_VERSION == 1
    return tf::errors::Unimplemented("TensorFlow does not say when this run ends");
#else
    for (const auto& pin : request->pins) {
      if (static_cast<const Pin*>(pin.get())->rows() == rows) return tf::Status();
    }
    int64_t first = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      first = Begin(rows, true);
    }
    request->pins.push_back(Shared(new Pin(rows, first)));
    return tf::Status();
#endif
  }
  const std::string name = "sok1x_pin_" + std::to_string(reinterpret_cast<uintptr_t>(rows));
  tf::ResourceMgr* resources = context->resource_manager();
  auto* container = context->step_container();
  Pin* pin = nullptr;
#if TF_MAJOR_VERSION == 1
  tf::Status status = resources->Lookup(container->name(), name, &pin);
#else
  tf::Status status = container->Lookup(resources, name, &pin);
#endif
  const bool known = status.ok();
  if (known) pin->Unref();
  int64_t first = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (known && rows == nullptr) return tf::Status();  // a step is counted once
    first = Begin(rows, !known);
  }
  if (known) return tf::Status();
  // Where it fails the pin is deleted, and the step is in flight no more.
#if TF_MAJOR_VERSION == 1
  return resources->Create(container->name(), name, new Pin(rows, first));
#else
  return container->Create(resources, name, new Pin(rows, first));
#endif
}

int64_t Pins::Begin(const tf::Var* rows, bool step) {
  Flights& flights = tables_[rows];
  if (rows == nullptr) {
    const int64_t now = Now();
    if (flights.first.empty() && now - quiet() >= kPause) {
      paused_.store(quiet());
      KeepQuiet(quiet());
    }
  }
  const int64_t first = ++flights.lookups;
  if (step) flights.first.insert(first);
  return first;
}

int64_t Pins::Now() {
  const int64_t before = MomentNow(), time = MicrosecondsNow(), after = MomentNow();
  shown_.Hear(before, time, after);
  return after;
}

int64_t Pins::MomentOf(int64_t time) {
  std::lock_guard<std::mutex> lock(mutex_);
  Now();
  return shown_.Earliest(time);
}

void Pins::KeepQuiet(int64_t time) {
  if (time <= (kept_quiets_.empty() ? 0 : kept_quiets_.back())) return;
  kept_quiets_.push_back(time);
  if (kept_quiets_.size() < kMostQuiets) return;
  std::deque<int64_t> fewer;
  for (size_t i = 0; i < kMostQuiets; i += i < kMostQuiets / 2 ? 2 : 1) fewer.push_back(kept_quiets_[i]);
  kept_quiets_.swap(fewer);
}

int64_t Pins::QuietAfter(int64_t time) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::upper_bound(kept_quiets_.begin(), kept_quiets_.end(), time);
  return found != kept_quiets_.end() ? *found : quiet() > time ? quiet() : 0;
}

void Pins::Keep(Request* request) {
#if TF_MAJOR_VERSION != 1
  tf::OpKernelContext* const context = request->context;
  if (EndsWithStep(context)) return;
  Held pins = request->pins;
  for (int i = 0; i < request->device_inputs; ++i) {
    const tf::Tensor& input = request->Input(i);
    if (input.dtype() != tf::DT_INT32) continue;
    const auto* buffer = dynamic_cast<const PinnedBuffer*>(tf::DMAHelper::buffer(&input));
    if (buffer != nullptr) pins.insert(pins.end(), buffer->pins().begin(), buffer->pins().end());
  }
  if (pins.empty()) return;
  for (int i = 0; i < request->device_outputs; ++i) {
    tf::Tensor* output = request->Output(i);
    if (output == nullptr || output->dtype() != tf::DT_INT32 || output->NumElements() == 0) continue;
    *output = tf::Tensor(tf::DT_INT32, output->shape(),
                         tf::core::RefCountPtr<tf::TensorBuffer>(new PinnedBuffer(*output, pins)));
  }
#endif
}

int64_t Pins::Since(const tf::Var* rows, int64_t* steps) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = tables_.find(rows);
  *steps = found == tables_.end() ? 0 : found->second.first.size();
  return *steps == 0 ? -1 : found->second.lookups - *found->second.first.begin();
}

void Pins::Changing(int64_t* newest, int64_t* oldest) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Flights& flights = tables_[nullptr];
  *newest = flights.lookups;
  *oldest = flights.first.empty() ? 0 : *flights.first.begin();
}

void Pins::Leave(const tf::Var* rows, int64_t first) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = tables_.find(rows);
  found->second.first.erase(found->second.first.find(first));
  // With no step in flight nobody compares with what has been counted.
  if (rows == nullptr) {
    const int64_t now = Now();
    ended_.store(now);
    if (found->second.first.empty()) {
      quiet_.store(now);
      if (kept_quiets_.empty() || now - kept_quiets_.back() >= kPause) KeepQuiet(now);
    }
  } else if (found->second.first.empty()) {
    tables_.erase(found);
  }
}

}  // namespace sok1x

extern "C" {

// Counts a lookup of the table whose rows are the request's variable `rows`, for as long as its step is in flight.
int sok1x_pin(void* handle, int rows) {
  auto* request = static_cast<sok1x::Request*>(handle);
  return sok1x::Report(sok1x::Pins::Get()->Look(request, request->variables[rows].get()));
}

// Has the request's step be known as one that changes tables.
int sok1x_pin_changing(void* handle) {
  return sok1x::Report(sok1x::Pins::Get()->Look(static_cast<sok1x::Request*>(handle), nullptr));
}

// Pins::Changing, Pins::ended, the moment, Pins::quiet and Pins::paused: numbers[6].
void sok1x_changing(int64_t* numbers) {
  sok1x::Pins::Get()->Changing(numbers, numbers + 1);
  numbers[2] = sok1x::Pins::Get()->ended();
  numbers[3] = sok1x::MomentNow();
  numbers[4] = sok1x::Pins::Get()->quiet();
  numbers[5] = sok1x::Pins::Get()->paused();
}

// Pins::QuietAfter.
int64_t sok1x_quiet_after(int64_t time) { return sok1x::Pins::Get()->QuietAfter(time); }

// Pins::MomentOf.
int64_t sok1x_moment_of(int64_t time) { return sok1x::Pins::Get()->MomentOf(time); }

// Pins::Since of that table.
int64_t sok1x_pinned_since(void* handle, int rows, int64_t* steps) {
  auto* request = static_cast<sok1x::Request*>(handle);
  return sok1x::Pins::Get()->Since(request->variables[rows].get(), steps);
}

}  // extern "C"
