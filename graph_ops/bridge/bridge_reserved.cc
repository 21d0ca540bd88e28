// See bridge_reserved.h.
#include "bridge_reserved.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "tensorflow/core/framework/allocation_description.pb.h"

#include "bridge_tier.h"

namespace sok1x {

namespace {

// Addresses for so many times the bytes that are asked for at first. When they are used up the rows move, once.
constexpr int64_t kTimes = 16;

struct Range {
  ~Range();
  Column column;
  int64_t written = 0;  // bytes that may be other than zero
};

// Ranges in use, by where they begin.
struct Ranges {
  std::mutex mutex;
  std::map<const void*, std::weak_ptr<Range>> there;
  static Ranges* Get() {
    static Ranges* ranges = new Ranges;  // never destroyed: variables may outlive static destruction
    return ranges;
  }
};

Range::~Range() {
  std::lock_guard<std::mutex> lock(Ranges::Get()->mutex);
  Ranges::Get()->there.erase(column.info().memory);
}

class Buffer : public tf::TensorBuffer {
 public:
  Buffer(const std::shared_ptr<Range>& range, size_t bytes)
      : tf::TensorBuffer(range->column.info().memory), range_(range), bytes_(bytes) {}
  size_t size() const override { return bytes_; }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(bytes_);
    proto->set_allocator_name("sok1x_reserved");
    proto->set_ptr(reinterpret_cast<uintptr_t>(data()));
  }

 private:
  const std::shared_ptr<Range> range_;
  const size_t bytes_;
};

int64_t MemoryOfMachine() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE); }

bool Make(const std::shared_ptr<Range>& range, tf::DataType dtype, const tf::TensorShape& shape, tf::Tensor* tensor,
          int64_t* clean) {
  const int64_t bytes = shape.num_elements() * tf::DataTypeSize(dtype);
  if (range->column.Grow(bytes, std::max(bytes, std::min(kTimes * bytes, MemoryOfMachine())), 0) != 0) return false;
  *clean = std::min(bytes, range->written);
  range->written = std::max(range->written, bytes);
  auto* const buffer = new Buffer(range, bytes);
  *tensor = tf::Tensor(dtype, shape, buffer);
  buffer->Unref();
  return true;
}

}  // namespace

bool Reserve(tf::DataType dtype, const tf::TensorShape& shape, tf::Tensor* tensor, int64_t* clean) {
  const std::shared_ptr<Range> range(new Range);
  if (!Make(range, dtype, shape, tensor, clean)) return false;
  std::lock_guard<std::mutex> lock(Ranges::Get()->mutex);
  Ranges::Get()->there[range->column.info().memory] = range;
  return true;
}

bool Extend(const tf::Tensor& old, const tf::TensorShape& shape, tf::Tensor* tensor, int64_t* clean) {
  std::shared_ptr<Range> range;
  {
    std::lock_guard<std::mutex> lock(Ranges::Get()->mutex);
    const auto found = Ranges::Get()->there.find(old.tensor_data().data());
    if (found != Ranges::Get()->there.end()) range = found->second.lock();
  }
  return range != nullptr && Make(range, old.dtype(), shape, tensor, clean);
}

}  // namespace sok1x
