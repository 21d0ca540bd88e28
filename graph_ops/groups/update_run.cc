// See update_run.h.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "../bridge/bridge_calls.h"
#include "kept_sums.h"
#include "update_run.h"

namespace sok1x {

namespace {

// Whether the member is a gradient that fits its table, as its operation demands it; then `a` has all but table and
// slots; scalars that the op does not have stay null.
bool Fits(const Request& request, const UpdateFacts& facts, const UpdateKernel& kernel, int host_inputs,
          UpdateMember* a) {
  const auto& inputs = request.inputs;
  const int scalars = static_cast<int>(inputs.size()) - host_inputs - 2;
  if (scalars < 1 || scalars > kernel.scalars) return false;
  const TensorInfo &values = inputs[0], &rows = inputs[1];
  if (values.dtype != tf::DT_FLOAT || rows.dtype != tf::DT_INT32 || rows.rank != 1 || values.rank != 2 ||
      values.dims[0] != rows.elements || values.dims[1] != facts.dim) {
    return false;
  }
  for (int i = 0; i < scalars; ++i) {
    if (inputs[2 + i].elements != 1) return false;
    a->scalars[i] = static_cast<const float*>(inputs[2 + i].data);
  }
  a->values = static_cast<const float*>(values.data);
  a->dim = facts.dim;
  a->rows = static_cast<const i32*>(rows.data);
  a->n = rows.elements;
  return true;
}

// Whether the variables have a row for each of the table's, as many as there are now; then `a` has them, too.
bool Opens(const TensorInfo* variables, int count, const UpdateFacts& facts, const UpdateKernel& kernel,
           UpdateMember* a) {
  for (int i = 0; i <= kernel.slots; ++i) {
    const int64_t place = i == 0 ? facts.rows_at : facts.slots_at + i - 1;
    if (place >= count) return false;
    const TensorInfo& variable = variables[place];
    if (i == 0) a->table_rows = variable.dims[0];
    if (variable.dtype != tf::DT_FLOAT || variable.rank != 2 || variable.dims[0] != a->table_rows ||
        variable.dims[1] != facts.dim) {
      return false;
    }
    (i == 0 ? a->table : a->slots[i - 1]) = static_cast<float*>(variable.data);
  }
  return true;
}

// A member, by its number in the group, and what moves its rows.
struct Step {
  size_t number;
  UpdateMember arguments;
};

// Moves the rows of those that wait, of each table the first: two steps of one table at the same time would each move
// what the other has not seen. Afterwards those wait that have not been moved.
int MoveTables(const UpdateKernel& kernel, GroupWork* work, std::vector<Step>* waiting) {
  std::set<const float*> tables;
  std::vector<Step> plain, others;
  std::vector<UpdateMember> moved, moved_by_sums;
  std::vector<SumMember> sums;
  for (const Step& step : *waiting) {
    SumMember sum;
    if (!tables.insert(step.arguments.table).second) {
      others.push_back(step);
    } else if (KeptSums::At(step.arguments.values, &sum)) {
      sums.push_back(sum);
      moved_by_sums.push_back(step.arguments);
    } else {
      plain.push_back(step);
      moved.push_back(step.arguments);
    }
  }
  // What lacks memory has moved nothing.
  int code = sums.empty() ? 0 : kernel.sum_and_move(work, sums.data(), sums.size(), moved_by_sums.data());
  if (code != 0) return code;
  if (!moved.empty()) code = kernel.move(work, moved.data(), moved.size());
  if (code != 0) others.insert(others.begin(), plain.begin(), plain.end());
  waiting->swap(others);
  return code;
}

}  // namespace

int MoveRows(Group* group, const UpdateFacts* facts, const UpdateKernel& kernel, int host_inputs, uint8_t* left) {
  const auto& members = group->members();
  const size_t count = members.size();
  size_t width = 0;
  for (const auto* request : members) width = std::max(width, request->variables.size());
  std::vector<UpdateMember> arguments(count, UpdateMember());
  for (size_t i = 0; i < count; ++i) {
    left[i] |= !Fits(*members[i], facts[i], kernel, host_inputs, &arguments[i]) || KeptSums::IsCopy(*members[i]);
  }
  std::vector<TensorInfo> variables(count * width);
  std::vector<int32_t> codes(count);
  const int held = group->Lock(true, variables.data(), static_cast<int>(width), codes.data());
  if (held != 0) return held;
  std::vector<Step> waiting;
  for (size_t i = 0; i < count; ++i) {
    const int there = static_cast<int>(members[i]->variables.size());
    left[i] |= codes[i] != 0 || !Opens(&variables[i * width], there, facts[i], kernel, &arguments[i]);
    if (!left[i] && arguments[i].n > 0) waiting.push_back({i, arguments[i]});
  }
  GroupWork work = {kernel.device, [](void* owner, i64 nbytes) -> void* {
    auto* const of = static_cast<Group*>(owner);
    void* data = nullptr;
    const int code = of->Piece(nbytes, &data);
    of->Ready();
    return code == 0 ? data : nullptr;
  }, group};
  int code = 0;
  const size_t all = waiting.size();
  while (code == 0 && !waiting.empty()) code = MoveTables(kernel, &work, &waiting);
  if (code != 0 && waiting.size() < all) {  // some have moved theirs, and must not fail: the others say what is wrong
    for (const Step& step : waiting) left[step.number] = 1;
    code = 0;
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
