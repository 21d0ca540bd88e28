// Optimizers' steps on the rows of many tables, one table's kernel after the other with no Python in between. What Python
// decides, and the other side of what is declared here: updates.py.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../bridge/bridge_calls.h"
#include "update_run.h"

namespace sok1x {

namespace {

constexpr int kMostScalars = 6, kMostSlots = 2;

typedef const float* Scalar;
typedef void (*Descend)(const void* values, int64_t dim, const void* rows, int64_t n, Scalar, int64_t table_rows,
                        void* table);
typedef void (*LazyAdam)(const void* values, int64_t dim, const void* rows, int64_t n, Scalar, Scalar, Scalar, Scalar,
                         Scalar, Scalar, int64_t table_rows, void* table, void* m, void* v);

// One launch's arguments. Scalars that the op does not have are null.
struct Arguments {
  const void* values;
  int64_t dim;
  const void* rows;
  int64_t n;
  Scalar scalars[kMostScalars];
  int64_t table_rows;
  void* arrays[1 + kMostSlots];
};

// Whether the member is a gradient that fits its table, as its operation demands it; then `a` has all but the arrays.
bool Fits(const Request& request, const UpdateFacts& facts, const UpdateKernel& kernel, int host_inputs,
          Arguments* a) {
  const auto& inputs = request.inputs;
  const int scalars = static_cast<int>(inputs.size()) - host_inputs - 2;
  if (scalars < 1 || scalars > kernel.scalars) return false;
  const TensorInfo &values = inputs[0], &rows = inputs[1];
  if (values.dtype != tf::DT_FLOAT || rows.dtype != tf::DT_INT32 || rows.rank != 1 || values.rank != 2 ||
      values.dims[0] != rows.elements || values.dims[1] != facts.dim) {
    return false;
  }
  for (int i = 0; i < kMostScalars; ++i) {
    if (i < scalars && inputs[2 + i].elements != 1) return false;
    a->scalars[i] = i < scalars ? static_cast<Scalar>(inputs[2 + i].data) : nullptr;
  }
  a->values = values.data;
  a->dim = facts.dim;
  a->rows = rows.data;
  a->n = rows.elements;
  return true;
}

// Whether the variables have a row for each of the table's, as many as there are now; then `a` has the arrays, too.
bool Opens(const TensorInfo* variables, int count, const UpdateFacts& facts, const UpdateKernel& kernel,
           Arguments* a) {
  for (int i = 0; i <= kernel.slots; ++i) {
    const int64_t place = i == 0 ? facts.rows_at : facts.slots_at + i - 1;
    if (place >= count) return false;
    const TensorInfo& variable = variables[place];
    if (i == 0) a->table_rows = variable.dims[0];
    if (variable.dtype != tf::DT_FLOAT || variable.rank != 2 || variable.dims[0] != a->table_rows ||
        variable.dims[1] != facts.dim) {
      return false;
    }
    a->arrays[i] = variable.data;
  }
  return true;
}

int Launch(const UpdateKernel& kernel, const UpdateFacts& facts, const Arguments& a) {
  if (kernel.gpu != nullptr) {
    if (a.n == 0) return 0;
    // All of them take 8 bytes: so each lies at its own alignment.
    int64_t parameters[sizeof(Arguments) / 8];
    static_assert(sizeof(Arguments) == 8 * (4 + kMostScalars + 1 + 1 + kMostSlots), "all of 8 bytes");
    int count = 0;
    const auto put = [&](const void* from, int64_t words) {
      std::memcpy(parameters + count, from, 8 * words);
      count += words;
    };
    put(&a, 4);
    put(a.scalars, kernel.scalars);
    put(&a.table_rows, 1);
    put(a.arrays, 1 + kernel.slots);
    return kernel.launch(kernel.gpu, (a.n * facts.gpu_threads + 1023) / 1024, parameters);
  }
  if (kernel.slots == 0) {
    reinterpret_cast<Descend>(kernel.host)(a.values, a.dim, a.rows, a.n, a.scalars[0], a.table_rows, a.arrays[0]);
  } else {
    reinterpret_cast<LazyAdam>(kernel.host)(a.values, a.dim, a.rows, a.n, a.scalars[0], a.scalars[1], a.scalars[2],
                                            a.scalars[3], a.scalars[4], a.scalars[5], a.table_rows, a.arrays[0],
                                            a.arrays[1], a.arrays[2]);
  }
  return 0;
}

}  // namespace

int MoveRows(Group* group, const UpdateFacts* facts, const UpdateKernel& kernel, int host_inputs, uint8_t* left) {
  const auto& members = group->members();
  const size_t count = members.size();
  size_t width = 0;
  for (const auto* request : members) width = std::max(width, request->variables.size());
  std::vector<Arguments> arguments(count);
  for (size_t i = 0; i < count; ++i) {
    left[i] |= !Fits(*members[i], facts[i], kernel, host_inputs, &arguments[i]);
  }
  std::vector<TensorInfo> variables(count * width);
  std::vector<int32_t> codes(count);
  const int held = group->Lock(true, variables.data(), static_cast<int>(width), codes.data());
  if (held != 0) return held;
  int code = 0;
  for (size_t i = 0; i < count && code == 0; ++i) {
    const int there = static_cast<int>(members[i]->variables.size());
    left[i] |= codes[i] != 0 || !Opens(&variables[i * width], there, facts[i], kernel, &arguments[i]);
    if (!left[i]) code = Launch(kernel, facts[i], arguments[i]);
  }
  group->Unlock();
  return code;
}

}  // namespace sok1x

extern "C" {

int64_t sok1x_update_facts_bytes() { return sizeof(sok1x::UpdateFacts); }
int64_t sok1x_update_kernel_bytes() { return sizeof(sok1x::UpdateKernel); }

// Where the row numbers of each of `count` requests lie, and how many they are: places [count, 2].
void sok1x_update_rows(void* const* requests, int count, int64_t* places) {
  for (int i = 0; i < count; ++i) {
    const auto& rows = static_cast<const sok1x::Request*>(requests[i])->inputs[1];
    places[2 * i] = reinterpret_cast<int64_t>(rows.data);
    places[2 * i + 1] = rows.elements;
  }
}

int sok1x_update_run(void* handle, const sok1x::UpdateFacts* facts, const sok1x::UpdateKernel* kernel, int host_inputs,
                     uint8_t* left) {
  return sok1x::MoveRows(static_cast<sok1x::Group*>(handle), facts, *kernel, host_inputs, left);
}

}  // extern "C"
