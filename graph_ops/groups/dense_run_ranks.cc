// See dense_run.h: several ranks.
#include <algorithm>

#include "../bridge/bridge_calls.h"
#include "dense_run.h"

namespace sok1x {

namespace {

constexpr int kKeyInt64 = 0;                                        // common.cuh
enum Lookup { kEmbeddings, kInverse, kRows, kRequested, kCounts };  // outputs: operations/dense_lookup.py

void Tell(const Buffer& given, const Buffer& taken, int64_t* pointers, int64_t* gives, int64_t* takes) {
  pointers[0] = reinterpret_cast<int64_t>(given.base);
  pointers[1] = reinterpret_cast<int64_t>(taken.base);
  pointers[2] = given.unit;
  std::copy(given.units.begin(), given.units.end(), gives);
  std::copy(taken.units.begin(), taken.units.end(), takes);
}

}  // namespace

template <class Counts, class RowBytes>
int DenseRun::Make(Buffer* buffer, int ranks, int64_t align, const Counts& counts, const RowBytes& row_bytes) {
  const int count = size();
  buffer->ranks = ranks;
  buffer->unit = align;
  buffer->starts.assign(count * (ranks + 1), 0);
  buffer->offsets.resize(count * ranks);
  buffer->units.resize(ranks);
  int64_t at = 0;
  for (int r = 0; r < ranks; ++r) {
    const int64_t begin = at;
    for (int t = 0; t < count; ++t) {
      i64* const starts = &buffer->starts[t * (ranks + 1)];
      starts[r + 1] = starts[r] + counts(r, t);
      buffer->offsets[t * ranks + r] = at;
      at += (counts(r, t) * row_bytes(t) + align - 1) / align * align;
    }
    buffer->units[r] = (at - begin) / align;
  }
  buffer->base = Scratch(at);
  return buffer->base == nullptr ? Done(GROUP_NO_MEMORY) : Place(buffer);
}

int DenseRun::Place(Buffer* buffer) {
  const void* arrays[] = {buffer->starts.data(), buffer->offsets.data()};
  const i64 nbytes[] = {8 * static_cast<i64>(buffer->starts.size()), 8 * static_cast<i64>(buffer->offsets.size())};
  void* placed[2];
  const int code = steps_->place(Work(), 2, arrays, nbytes, placed);
  buffer->starts_at = static_cast<const i64*>(placed[0]);
  buffer->offsets_at = static_cast<const i64*>(placed[1]);
  return Done(code);
}

int DenseRun::Prepare(int ranks, int64_t* counts, int64_t* begins, int64_t* outside, int64_t* inverse, int64_t* sent) {
  if (!Shapely()) return kTooManyDimensions;
  const int count = size();
  int64_t total = 0;
  bool direct = false;
  for (int t = 0; t < count; ++t) {
    total += input(t, 0).elements;
    direct = direct || !facts_[t].hashed;
  }
  i64* const values = reinterpret_cast<i64*>(Scratch(8 * total));
  i64* const by_owner = reinterpret_cast<i64*>(Scratch(8 * total));
  i32* const position = reinterpret_cast<i32*>(Scratch(4 * total));
  i64* const distinct = reinterpret_cast<i64*>(Scratch(8 * count * (ranks + 1)));
  if (values == nullptr || by_owner == nullptr || position == nullptr || distinct == nullptr) {
    return Done(GROUP_NO_MEMORY);
  }
  i64* const owned = distinct + count;
  std::vector<UniqueMember> keys(count, UniqueMember());
  std::vector<PartitionMember> parts(count, PartitionMember());
  int64_t first = 0;
  for (int t = 0; t < count; ++t) {
    const TensorInfo& given = input(t, 0);
    void* out;
    const int code = Output(t, kInverse, {given.elements}, &out);
    if (code != 0) return code;
    inverse[t] = reinterpret_cast<int64_t>(out);
    UniqueMember& m = keys[t];
    m.keys.base = static_cast<char*>(given.data);
    m.key_type = KeyType(t);
    m.n = given.elements;
    m.values = values + first;
    m.inverse = static_cast<i32*>(out);
    PartitionMember& p = parts[t];
    p.values = m.values;
    p.n = p.n_inverse = m.n;
    p.position = position + first;
    p.inverse = m.inverse;
    p.parts = facts_[t].parts_of(ranks);
    p.first = facts_[t].first;
    first += given.elements;
  }
  int code = Done(steps_->unique(Work(), keys.data(), count, distinct));
  if (code == 0) code = Done(steps_->partition(Work(), parts.data(), count, distinct, ranks, owned, by_owner));
  if (code == 0) code = Done(steps_->read(Work(), owned, count * ranks, reinterpret_cast<i64*>(counts)));
  if (code != 0) return code;
  for (int64_t i = 0, at = 0; i < count * ranks; ++i) {
    begins[i] = at;
    at += counts[i];
  }
  *sent = reinterpret_cast<int64_t>(by_owner);
  std::fill(outside, outside + count, 0);
  if (!direct) return 0;
  i32* const rows = reinterpret_cast<i32*>(Scratch(4 * total));
  i64* const missing = reinterpret_cast<i64*>(Scratch(8 * count));
  if (rows == nullptr || missing == nullptr) return Done(GROUP_NO_MEMORY);
  std::vector<FindMember> asked(count, FindMember());
  first = 0;
  for (int t = 0; t < count; ++t) {
    FindMember& m = asked[t];
    m.keys.base = reinterpret_cast<char*>(keys[t].values);
    m.key_type = kKeyInt64;
    for (int r = 0; r < ranks && !facts_[t].hashed; ++r) m.n += counts[r * count + t];
    m.ranks = facts_[t].parts_of(ranks);
    m.limit = facts_[t].keys_of(ranks);
    m.rows = rows + first;
    first += input(t, 0).elements;
  }
  code = Done(steps_->find(Work(), asked.data(), count, missing));
  return code ? code : Done(steps_->read(Work(), missing, count, reinterpret_cast<i64*>(outside)));
}

int DenseRun::ForwardAsk(int rank, int ranks, int width, const int64_t* headers, const int64_t* numbers,
                         const int64_t* sent, const int64_t* begins, const int64_t* inverse, bool whole,
                         int64_t* pointers, int64_t* gives, int64_t* takes) {
  if (!Shapely()) return kTooManyDimensions;
  const int count = size();
  ranks_ = ranks;
  inverse_.assign(inverse, inverse + count);
  out_.resize(count);
  requested_.resize(count);
  // What `from` sends to `to` of member t.
  const auto goes = [=](int t, int from, int to) { return headers[(t * ranks + from + 1) * width - ranks + to]; };
  std::vector<int64_t> given(count * ranks), taken(count * ranks);  // [T, N]
  for (int t = 0; t < count; ++t) {
    int64_t received = 0;
    for (int r = 0; r < ranks; ++r) {
      given[t * ranks + r] = goes(t, rank, r);
      received += taken[t * ranks + r] = goes(t, r, rank);
    }
    int code = Embeddings(t, &out_[t]);
    if (code == 0) code = Output(t, kRequested, {received}, &requested_[t]);
    void* data = nullptr;
    if (code == 0) code = Output(t, kCounts, {2 * ranks + 1}, &data);
    if (code != 0) return code;
    int64_t* const saved = static_cast<int64_t*>(data);  // exchanges/ties.py
    std::copy(&given[t * ranks], &given[t * ranks] + ranks, saved);
    std::copy(&taken[t * ranks], &taken[t * ranks] + ranks, saved + ranks);
    saved[2 * ranks] = numbers[t];
  }
  const auto gives_of = [&](int r, int t) { return given[t * ranks + r]; };
  const auto takes_of = [&](int r, int t) { return taken[t * ranks + r]; };
  const auto key_bytes = [](int) { return 8; };
  const auto row_bytes = [this](int t) { return facts_[t].dim * (facts_[t].half ? 2 : 4); };
  int code = Make(&keys_, ranks, 8, takes_of, key_bytes);
  const int64_t align = Align(row_bytes(0));
  if (code == 0) code = Make(&answers_, ranks, align, takes_of, row_bytes);
  if (code == 0) code = Make(&values_, ranks, align, gives_of, row_bytes);
  if (code != 0) return code;
  Buffer collected;
  if (whole) {
    collected.base = reinterpret_cast<char*>(sent[0]);
    collected.unit = 8;
    collected.units.assign(ranks, 0);
    for (int r = 0; r < ranks; ++r) {
      for (int t = 0; t < count; ++t) collected.units[r] += gives_of(r, t);
    }
  } else {
    code = Make(&collected, ranks, 8, gives_of, key_bytes);
    Buffer prepared = collected;  // the same sizes, where `Prepare` has left them
    for (int i = 0; i < count * ranks; ++i) prepared.offsets[i] = 8 * begins[i];
    if (code == 0) code = Place(&prepared);
    std::vector<GatherMember> copies(count, GatherMember());
    for (int t = 0; t < count; ++t) {
      prepared.base = reinterpret_cast<char*>(sent[t]);
      GatherMember& m = copies[t];
      m.source = prepared.of(t);
      m.dim = 2;  // a key moves as two 32-bit numbers
      m.n = collected.starts[(t + 1) * (ranks + 1) - 1];
      m.out = collected.of(t);
    }
    if (code == 0) code = Done(steps_->gather(Work(), copies.data(), count));
    if (code != 0) return code;
  }
  group_->Ready();
  Tell(collected, keys_, pointers, gives, takes);
  return 0;
}

int DenseRun::ForwardAnswer(bool training, int64_t* missing, int64_t* fresh, int64_t* pointers, int64_t* gives,
                            int64_t* takes) {
  const int count = size();
  std::fill(fresh, fresh + count, 0);
  int code = Lock(training);
  if (code != 0) return code;
  found_.assign(count, FindMember());
  for (int t = 0; t < count; ++t) {
    FindMember& m = found_[t];
    m.keys = keys_.of(t);
    m.key_type = kKeyInt64;
    m.n = keys_.starts[(t + 1) * (ranks_ + 1) - 1];
    m.ranks = facts_[t].parts_of(ranks_);
    m.rows = static_cast<i32*>(requested_[t]);
    m.dim = facts_[t].dim;
    m.out = answers_.of(t);
    m.out_half = facts_[t].half;
    Open(t);
  }
  code = LookUp(missing);
  for (int t = 0; t < count; ++t) missing[t] += codes_[t] != 0;
  if (code == 0 && training) code = Unseen(missing, fresh);
  if (inserts_.empty()) group_->Unlock();
  Tell(answers_, values_, pointers, gives, takes);
  return code;
}

int DenseRun::ForwardTake(const uint8_t* left) {
  const int count = size();
  std::vector<GatherMember> members(count, GatherMember());
  for (int t = 0; t < count; ++t) {
    GatherMember& m = members[t];
    m.dim = facts_[t].dim;
    if (left[t]) continue;
    void* nothing;
    const int code = Output(t, kRows, {0}, &nothing);
    if (code != 0) return code;
    m.source = values_.of(t);
    m.source_half = m.out_half = facts_[t].half;
    m.n = input(t, 0).elements;
    m.rows = reinterpret_cast<const i32*>(inverse_[t]);
    m.out.base = static_cast<char*>(out_[t]);
  }
  return Done(steps_->gather(Work(), members.data(), count));
}

int DenseRun::BackwardHeaders(int width, int64_t* headers, uint8_t* fits) {
  for (int t = 0; t < size(); ++t) {
    const TensorInfo& counts = member(t)->inputs.back();
    fits[t] = Fits(t) && counts.elements == width - 2;
    if (!fits[t]) continue;
    const auto* from = static_cast<const int64_t*>(counts.data);
    std::copy(from, from + counts.elements, headers + t * width + 2);
  }
  return 0;
}

int DenseRun::BackwardSend(int rank, int ranks, int width, const int64_t* headers, uint8_t* left, int64_t* pointers,
                           int64_t* gives, int64_t* takes) {
  const int count = size(), counted = 2 * ranks + 1;
  ranks_ = ranks;
  left_.assign(count, 0);
  std::vector<int64_t> given(count * ranks), taken(count * ranks);
  for (int t = 0; t < count; ++t) {
    const auto of = [=](int r) { return headers + (t * ranks + r + 1) * width - counted; };
    for (int r = 0; r < ranks; ++r) {
      for (int to = 0; to < ranks; ++to) left_[t] |= of(r)[to] != of(to)[ranks + r];
      left_[t] |= of(r)[2 * ranks] != of(0)[2 * ranks];
    }
    for (int r = 0; r < ranks && !left_[t]; ++r) {
      given[t * ranks + r] = of(rank)[r];
      taken[t * ranks + r] = of(rank)[ranks + r];
    }
    left[t] = left_[t];
  }
  const auto half = [this](int t) { return input(t, 0).dtype == tf::DT_HALF; };
  const auto row_bytes = [&](int t) { return facts_[t].dim * (half(t) ? 2 : 4); };
  const int64_t align = Align(row_bytes(0));
  int code = Make(&values_, ranks, align, [&](int r, int t) { return given[t * ranks + r]; }, row_bytes);
  if (code == 0) code = Make(&answers_, ranks, align, [&](int r, int t) { return taken[t * ranks + r]; }, row_bytes);
  if (code != 0) return code;
  std::vector<SumMember> members(count, SumMember());
  int64_t wide = 0;
  for (int t = 0; t < count; ++t) {
    SumMember& m = members[t];
    m.dim = facts_[t].dim;
    if (left_[t]) continue;
    m.values.base = static_cast<char*>(input(t, 0).data);
    m.values_half = half(t);
    m.segments = static_cast<const i32*>(input(t, 1).data);
    m.n = input(t, 1).elements;
    m.num_segments = values_.starts[(t + 1) * (ranks + 1) - 1];
    (m.values_half ? m.half : m.sums) = values_.of(t);
    if (m.values_half) wide += m.num_segments * m.dim;
  }
  if (wide > 0) {  // summed as float32 elsewhere, and rounded once into what is sent
    float* at = reinterpret_cast<float*>(Scratch(4 * wide));
    if (at == nullptr) return Done(GROUP_NO_MEMORY);
    for (SumMember& m : members) {
      if (!m.values_half) continue;
      m.sums.base = reinterpret_cast<char*>(at);
      at += m.num_segments * m.dim;
    }
  }
  code = Done(steps_->segment_sum(Work(), members.data(), count));
  Tell(values_, answers_, pointers, gives, takes);
  return code;
}

int DenseRun::BackwardTake() {
  const int count = size();
  std::vector<SumMember> members(count, SumMember());
  for (int t = 0; t < count; ++t) {
    SumMember& m = members[t];
    m.dim = facts_[t].dim;
    if (left_[t]) continue;
    const TensorInfo &rows = input(t, 2), &requested = input(t, 3);
    void* out;
    const int code = Output(t, 0, {rows.elements, facts_[t].dim}, &out);
    if (code != 0) return code;
    m.values = answers_.of(t);
    m.values_half = input(t, 0).dtype == tf::DT_HALF;
    m.segments = static_cast<const i32*>(requested.data);
    m.n = requested.elements;
    m.num_segments = rows.elements;
    m.sums.base = static_cast<char*>(out);
  }
  return Done(steps_->segment_sum(Work(), members.data(), count));
}

}  // namespace sok1x
