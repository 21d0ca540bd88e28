// See lane_ranks.h: sums of dense tensors over ranks, as operations/collectives.py makes them.
#include <algorithm>
#include <cstring>

#include "lane_ranks.h"

namespace sok1x {

namespace {

// Of the host's memory: what one thread brings together and back in less time than Python takes to have all do it.
constexpr int64_t kMostBytes = 1 << 20;

int64_t Bytes(const RequestInfo& member) {
  int64_t bytes = 0;
  for (int i = 0; i < member.input_count; ++i) {
    bytes += member.inputs[i].elements * (member.inputs[i].dtype == tf::DT_DOUBLE ? 8 : 4);
  }
  return bytes;
}

template <typename Type>
void Divide(void* numbers, int64_t count, Type by) {
  Type* const values = static_cast<Type*>(numbers);
  for (int64_t i = 0; i < count; ++i) values[i] /= by;
}

}  // namespace

bool LaneRanks::PrepareSums(Held* held) {
  const RequestInfo& member = held->members[0];
  const bool gpu = held->ops[0]->context != nullptr;
  if (!gpu && Bytes(member) > kMostBytes) return false;
  held->width = held->whole_width = 1 + member.input_count;
  held->whole.assign(1, gpu);
  for (int i = 0; i < member.input_count; ++i) held->whole.push_back(member.inputs[i].elements);
  held->headers = held->whole;
  return true;
}

int LaneRanks::Sums(Held* held, std::vector<uint8_t>* left) {
  const RequestInfo& member = held->members[0];
  const bool gpu = held->ops[0]->context != nullptr, average = held->ops[0]->average != 0;
  const int count = member.input_count;
  const int64_t most = Bytes(member);
  // Python says what is wrong, where anything is, and the others need not know who sums.
  (*left)[0] = 1;
  if (!exchanges_.Sums(gpu, most / 4, average)) return 0;
  std::vector<int32_t> members(count, 0), indices(count), ranks(count), codes(count);
  std::vector<int64_t> dims(count * kMaxRank);
  std::vector<void*> outputs(count);
  for (int i = 0; i < count; ++i) {
    const TensorInfo& input = member.inputs[i];
    indices[i] = i;
    ranks[i] = input.rank;
    std::copy(input.dims, input.dims + input.rank, dims.begin() + i * kMaxRank);
  }
  held->group->Outputs(count, members.data(), indices.data(), ranks.data(), dims.data(), outputs.data(), codes.data());
  void* buffer = nullptr;
  if (std::count(codes.begin(), codes.end(), 0) != count) return 0;
  if (!gpu && held->group->Piece(most, &buffer) != 0) return 0;
  held->group->Ready();
  (*left)[0] = 0;
  for (const auto type : {tf::DT_FLOAT, tf::DT_DOUBLE}) {  // one exchange for each, in Python's order
    const bool doubles = type == tf::DT_DOUBLE;
    std::vector<Summed> arrays;
    int64_t total = 0;
    for (int i = 0; i < count; ++i) {
      const TensorInfo& input = member.inputs[i];
      if (input.dtype != type) continue;
      arrays.push_back({reinterpret_cast<int64_t>(input.data), reinterpret_cast<int64_t>(outputs[i]), input.elements});
      total += input.elements;
    }
    if (total == 0) continue;
    const int code = gpu ? exchanges_.SumByNccl(member.name, arrays, doubles, average)
                         : SumOnHost(member.name, arrays, total, doubles, average, static_cast<char*>(buffer));
    (*left)[0] = code < 0;
    if (code != 0) return code < 0 ? 0 : kPythonKnows;
  }
  return 0;
}

int LaneRanks::SumOnHost(const char* op, const std::vector<Summed>& arrays, int64_t total, bool doubles, bool average,
                         char* buffer) {
  const int64_t item = doubles ? 8 : 4;
  char* at = buffer;
  for (const Summed& array : arrays) {
    std::memcpy(at, reinterpret_cast<const void*>(array.give), array.count * item);
    at += array.count * item;
  }
  const int code = exchanges_.SumByMpi(op, buffer, total, doubles);
  if (code != 0) return code;
  if (average && doubles) Divide<double>(buffer, total, ranks());
  if (average && !doubles) Divide<float>(buffer, total, ranks());
  at = buffer;
  for (const Summed& array : arrays) {
    std::memcpy(reinterpret_cast<void*>(array.take), at, array.count * item);
    at += array.count * item;
  }
  return 0;
}

}  // namespace sok1x
