// See bridge_tier.h. Called through ctypes by tiers.py.
#include "bridge_tier.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "bridge_calls.h"
#include "bridge_named.h"

namespace sok1x {

namespace {

constexpr int64_t kPage = 1 << 16;       // a multiple of the machine's pages
constexpr int64_t kLargePage = 2 << 20;  // pieces of this size and more are whole ones of these

int64_t RoundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

// Of a column, or of a field.
ColumnInfo InfoOf(const HostTier& tier, const std::string& name) {
  const auto field = tier.fields.find(name);
  const auto column = tier.columns.find(field == tier.fields.end() ? name : field->second.column);
  ColumnInfo info = column == tier.columns.end() ? ColumnInfo{nullptr, 0, 0, 0, 0} : column->second.info();
  if (field != tier.fields.end()) {
    info.offset = field->second.offset;
    info.stride = field->second.stride;
    if (!field->second.has_begun) info.bytes = info.pinned = 0;
  }
  return info;
}

}  // namespace

Column::~Column() {
  for (const Pinned& piece : pinned_) Cuda::Get()->Unpin(piece.memory, piece.context);
  if (info_.memory != nullptr) munmap(info_.memory, reserved_);
}

int Column::Reserve(int64_t least, int64_t most) {
  const int64_t needed = RoundUp(least, kLargePage);
  for (int64_t asked = std::max(needed, RoundUp(most, kLargePage));;
       asked = std::max(needed, RoundUp(asked / 2, kLargePage))) {
    // Aligned to large pages, for which one more is asked.
    void* memory = mmap(nullptr, asked + kLargePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
      const uintptr_t aligned = (begin + kLargePage - 1) & ~static_cast<uintptr_t>(kLargePage - 1);
      if (aligned > begin) munmap(memory, aligned - begin);
      const uintptr_t end = aligned + asked;
      if (begin + asked + kLargePage > end) munmap(reinterpret_cast<void*>(end), begin + asked + kLargePage - end);
      info_.memory = reinterpret_cast<void*>(aligned);
      reserved_ = asked;
      return 0;
    }
    if (asked == needed) return ENOMEM;
  }
}

int Column::Grow(int64_t bytes, int64_t most, int64_t pin) {
  if (bytes <= info_.bytes) return 0;
  if (info_.memory == nullptr) {
    const int error = Reserve(bytes, most);
    if (error) return error;
  }
  if (bytes > reserved_) return ENOMEM;
  const int64_t more = RoundUp(bytes - info_.bytes, bytes - info_.bytes < kLargePage ? kPage : kLargePage);
  const int64_t size = std::min(more, reserved_ - info_.bytes);
  char* const piece = static_cast<char*>(info_.memory) + info_.bytes;
  if (mprotect(piece, size, PROT_READ | PROT_WRITE)) return errno;
  madvise(piece, size, MADV_HUGEPAGE);
  // Pinned memory is one piece from the first byte on.
  if (size <= pin && info_.pinned == info_.bytes && pin_error_ == 0) {
    void* context = nullptr;
    pin_error_ = Cuda::Get()->Pin(piece, size, &context);
    if (pin_error_ == 0) {
      pinned_.push_back({piece, context});
      info_.pinned += size;
    }
  }
  info_.bytes += size;
  return 0;
}

}  // namespace sok1x

extern "C" {

// For tiers.py, to check that its structure is this.
int sok1x_column_info_bytes() { return sizeof(sok1x::ColumnInfo); }

// The name of the request's variable `index` in its container, until it is asked for the next one's.
const char* sok1x_variable_name(void* handle, int index) {
  static std::string name;  // asked for by the executor's thread alone
  const auto* request = static_cast<sok1x::Request*>(handle);
  name = sok1x::NameOf(request->variables[index].get());  // of an eager variable, whose handle has none
  if (name.empty() && request->names != nullptr) {
    name = request->names[index];
  } else if (name.empty()) {
    name = tensorflow::HandleFromInput(request->context, request->first[sok1x::kResources] + index).name();
  }
  return name.c_str();
}

// The tier of that name in the memory of the request's device, for as long as its container is; made where there is
// none. container: '' for TensorFlow's default, or that of eager variables: as long as the table's rows are.
void* sok1x_tier(void* handle, const char* container, const char* name) {
  if (std::strcmp(container, sok1x::kEagerContainer) == 0) return sok1x::NamedTier(name);
  tensorflow::ResourceMgr* manager = static_cast<sok1x::Request*>(handle)->context->resource_manager();
  const std::string in = *container != '\0' ? std::string(container) : manager->default_container();
  sok1x::HostTier* tier = nullptr;
  const tensorflow::Status status = manager->LookupOrCreate<sok1x::HostTier>(
      in, name, &tier, [](sok1x::HostTier** made) {
        *made = new sok1x::HostTier;
        return tensorflow::Status();
      });
  if (!status.ok()) return nullptr;
  tier->Unref();  // the container's reference stays, while the request runs
  return tier;
}

// A column of a tier, or a field, with no memory where there is none of that name. A field of other rows than of
// row_bytes bytes is given up: another variable has its name now.
void sok1x_tier_column(void* handle, const char* name, int64_t row_bytes, sok1x::ColumnInfo* info) {
  auto* tier = static_cast<sok1x::HostTier*>(handle);
  const auto field = tier->fields.find(name);
  if (field != tier->fields.end() && field->second.row_bytes != row_bytes) tier->fields.erase(field);
  *info = sok1x::InfoOf(*tier, name);
}

// Has a column consist of records of `stride` bytes, in which a variable has row_bytes bytes from `offset` on.
void sok1x_tier_field(void* tier, const char* name, const char* column, int64_t offset, int64_t row_bytes,
                      int64_t stride) {
  static_cast<sok1x::HostTier*>(tier)->fields[name] = {column, offset, row_bytes, stride, false};
}

// Column::Grow of a column, which is made where there is none; of a field, of its column, and the field has begun.
// *pin_error: CUDA's, where pinning has ever failed.
int sok1x_tier_grow(void* handle, const char* name, int64_t bytes, int64_t most, int64_t pin,
                    sok1x::ColumnInfo* info, int* pin_error) {
  auto* tier = static_cast<sok1x::HostTier*>(handle);
  const auto field = tier->fields.find(name);
  const bool is_field = field != tier->fields.end();
  sok1x::Column& grown = tier->columns[is_field ? field->second.column : name];
  const int error = grown.Grow(bytes, most, pin);
  if (error == 0 && is_field) field->second.has_begun = true;
  *info = sok1x::InfoOf(*tier, name);
  *pin_error = grown.pin_error();
  return error;
}

// Forgets what a variable has there; its field stays where it is.
void sok1x_tier_drop(void* handle, const char* name) {
  auto* tier = static_cast<sok1x::HostTier*>(handle);
  const auto field = tier->fields.find(name);
  if (field != tier->fields.end()) {
    field->second.has_begun = false;
  } else {
    tier->columns.erase(name);
  }
}

// Fields that have begun.
int sok1x_tier_fields(void* tier) {
  int count = 0;
  for (const auto& field : static_cast<sok1x::HostTier*>(tier)->fields) count += field.second.has_begun;
  return count;
}

// Bytes of all columns; *pinned: those that are pinned.
int64_t sok1x_tier_bytes(void* tier, int64_t* pinned) {
  int64_t bytes = *pinned = 0;
  for (const auto& column : static_cast<sok1x::HostTier*>(tier)->columns) {
    bytes += column.second.info().bytes;
    *pinned += column.second.info().pinned;
  }
  return bytes;
}

}  // extern "C"
