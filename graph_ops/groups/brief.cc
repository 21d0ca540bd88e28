// See brief.h.
#include "brief.h"

#include <algorithm>
#include <cstring>

namespace sok1x {

namespace {

constexpr int64_t kPlaceBytes = 16, kMostMembers = 1 << 20, kMostNumbers = 1 << 26;

// Numbers as differences, in as many groups of seven bits as they need.
class Writer {
 public:
  explicit Writer(uint8_t kind) : data_(1, static_cast<char>(kind)) {}

  void Number(int64_t value) { Bits((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  // A table [rows, width], each row as what it differs in from the one before.
  void Rows(const int64_t* values, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows * width; ++i) {
      Number(static_cast<int64_t>(static_cast<uint64_t>(values[i]) -
                                  static_cast<uint64_t>(i < width ? 0 : values[i - width])));
    }
  }
  // Numbers [size], as what they differ in from others (null: from 0).
  void Changes(const int64_t* values, const int64_t* before, int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
      Number(static_cast<int64_t>(static_cast<uint64_t>(values[i]) -
                                  (before == nullptr ? 0 : static_cast<uint64_t>(before[i]))));
    }
  }
  void Text(const std::string& text) {
    Number(text.size());
    data_ += text;
  }
  std::string* data() { return &data_; }

 private:
  void Bits(uint64_t bits) {
    for (; bits >= 128; bits >>= 7) data_ += static_cast<char>(bits | 128);
    data_ += static_cast<char>(bits);
  }
  std::string data_;
};

class Reader {
 public:
  explicit Reader(const std::string& data) : at_(data.data() + 1), end_(data.data() + data.size()) {}

  int64_t Number() {
    uint64_t bits = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) break;
      const uint8_t byte = *at_++;
      bits |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
    }
    good_ = false;
    return 0;
  }
  bool Rows(int64_t rows, int64_t width, std::vector<int64_t>* values) {
    // Each number takes a byte at least.
    if (!good_ || rows < 0 || width < 0 || width > kMostNumbers || rows * width > end_ - at_) return good_ = false;
    values->resize(rows * width);
    for (int64_t i = 0; i < rows * width; ++i) {
      const uint64_t before = i < width ? 0 : (*values)[i - width];
      (*values)[i] = static_cast<int64_t>(before + static_cast<uint64_t>(Number()));
    }
    return good_;
  }
  void Changes(int64_t* values, const int64_t* before, int64_t size) {
    for (int64_t i = 0; i < size && good_; ++i) {
      values[i] = static_cast<int64_t>(static_cast<uint64_t>(Number()) +
                                       (before == nullptr ? 0 : static_cast<uint64_t>(before[i])));
    }
  }
  std::string Text() {
    const int64_t bytes = Number();
    if (!good_ || bytes < 0 || bytes > end_ - at_) {
      good_ = false;
      return "";
    }
    at_ += bytes;
    return std::string(at_ - bytes, bytes);
  }
  // A number of members.
  int64_t Count() {
    const int64_t count = Number();
    good_ = good_ && count > 0 && count < kMostMembers;
    return good_ ? count : 0;
  }
  bool good() const { return good_; }
  bool ended() const { return good_ && at_ == end_; }

 private:
  const char *at_, *end_;
  bool good_ = true;
};

void Add(std::string* data, const void* from, size_t bytes) { data->append(static_cast<const char*>(from), bytes); }

template <typename Type>
void AddNumber(std::string* data, Type value) {
  Add(data, &value, sizeof(value));
}

}  // namespace

std::string BriefBundle(const Bundle& bundle, int64_t ops, bool said) {
  Writer to(kBriefBundle);
  to.Number(ops);
  to.Number(said);
  if (!said) {
    to.Number(bundle.ops.context);
    to.Number(static_cast<int64_t>(bundle.ops.signature));
    to.Number(bundle.ops.count);
    to.Text(bundle.ops.places);
    to.Text(bundle.ops.names);
  }
  to.Number(bundle.ticket);
  to.Number(bundle.step);
  to.Rows(bundle.runs.data(), bundle.ops.count, 3);
  to.Number(bundle.width);
  to.Rows(bundle.headers.data(), bundle.ops.count, bundle.width);
  return *to.data();
}

bool ReadBriefBundle(const std::string& data, std::vector<Ops>* known, Bundle* bundle) {
  Reader from(data);
  const int64_t number = from.Number();
  if (from.Number()) {
    if (number < 0 || number >= static_cast<int64_t>(known->size())) return false;
    bundle->ops = (*known)[number];
  } else {
    Ops& ops = bundle->ops;
    ops.context = from.Number();
    ops.signature = static_cast<uint64_t>(from.Number());
    ops.count = from.Count();
    ops.places = from.Text();
    ops.names = from.Text();
    if (!from.good() || static_cast<int64_t>(ops.places.size()) != kPlaceBytes * ops.count) return false;
    if (number == static_cast<int64_t>(known->size())) known->push_back(ops);  // below 0: said each time
  }
  bundle->ticket = from.Number();
  bundle->step = from.Number();
  if (!from.Rows(bundle->ops.count, 3, &bundle->runs)) return false;
  bundle->width = from.Number();
  return from.Rows(bundle->ops.count, bundle->width, &bundle->headers) && from.ended();
}

std::string PlainBundle(const Bundle& bundle) {
  const Ops& ops = bundle.ops;
  std::string data(1, static_cast<char>(kPlainBundle));
  AddNumber(&data, bundle.ticket);
  AddNumber(&data, ops.context);
  AddNumber(&data, bundle.step);
  AddNumber(&data, ops.signature);
  AddNumber(&data, static_cast<uint32_t>(ops.count));
  AddNumber(&data, static_cast<uint32_t>(ops.names.size()));
  AddNumber(&data, static_cast<uint32_t>(8 * bundle.headers.size()));
  data += ops.places;
  Add(&data, bundle.runs.data(), 8 * bundle.runs.size());
  for (int64_t t = 0; t < ops.count; ++t) AddNumber(&data, static_cast<uint32_t>(bundle.width));
  data += ops.names;
  Add(&data, bundle.headers.data(), 8 * bundle.headers.size());
  return data;
}

std::string BriefSeveral(const std::vector<std::string>& messages) {
  Writer to(kBriefSeveral);
  to.Number(messages.size());
  for (const std::string& message : messages) to.Text(message);
  return *to.data();
}

bool ReadBriefSeveral(const std::string& data, std::vector<std::string>* messages) {
  Reader from(data);
  for (int64_t left = from.Count(); left > 0 && from.good(); --left) messages->push_back(from.Text());
  return from.ended();
}

std::string BriefRun(const Word& word, const std::vector<int64_t>& tickets) {
  Writer to(kBriefRun);
  to.Number(word.number);
  to.Number(word.count);
  to.Number(word.ranks);
  to.Number(word.width);
  const int64_t size = word.count * word.width;
  const int64_t* before = nullptr;
  int64_t ticket = 0;
  for (int64_t r = 0; r < word.ranks; ++r) {
    const int64_t* const headers = word.headers.data() + r * size;
    const bool alike = before != nullptr && tickets[r] == ticket && std::equal(headers, headers + size, before);
    to.Number(alike);  // to the rank before
    if (!alike) {
      to.Number(tickets[r] - ticket);
      to.Changes(headers, before, size);
    }
    before = headers;
    ticket = tickets[r];
  }
  return *to.data();
}

bool ReadBriefRun(const std::string& data, int rank, Word* word) {
  Reader from(data);
  word->number = from.Number();
  word->count = from.Count();
  word->ranks = from.Count();
  word->width = from.Number();
  const int64_t size = word->count * word->width, ranks = word->ranks;
  if (!from.good() || word->width < 0 || word->width > kMostNumbers || rank >= ranks ||
      size > kMostNumbers / ranks) {
    return false;
  }
  word->headers.resize(ranks * size);
  int64_t ticket = 0;
  for (int64_t r = 0; r < ranks && from.good(); ++r) {
    int64_t* const headers = word->headers.data() + r * size;
    const int64_t* const before = r == 0 ? nullptr : headers - size;
    if (from.Number()) {
      if (before == nullptr) return false;
      std::copy(before, before + size, headers);
    } else {
      ticket += from.Number();
      from.Changes(headers, before, size);
    }
    if (r == rank) word->ticket = ticket;
  }
  return from.ended();
}

std::string PlainRun(const Word& word) {
  std::string data(1, static_cast<char>(kPlainRun));
  AddNumber(&data, word.number);
  AddNumber(&data, static_cast<uint32_t>(word.count));
  AddNumber(&data, static_cast<uint32_t>(word.ranks));
  for (int64_t t = 0; t < word.count; ++t) AddNumber(&data, static_cast<uint32_t>(word.width));
  for (int64_t i = 0; i < word.ranks * word.count; ++i) AddNumber(&data, word.ticket + i % word.count);
  Add(&data, word.headers.data(), 8 * word.headers.size());
  return data;
}

bool ReadPlainRun(const std::string& data, int rank, Word* word, std::vector<int64_t>* tickets) {
  constexpr size_t kHead = 1 + 8 + 4 + 4;
  uint32_t count, ranks, width = 0;
  tickets->clear();
  if (data.size() < kHead) return false;
  std::memcpy(&word->number, data.data() + 1, 8);
  std::memcpy(&count, data.data() + 9, 4);
  std::memcpy(&ranks, data.data() + 13, 4);
  const uint64_t headers = kHead + 4ull * count + 8ull * ranks * count;
  if (count == 0 || ranks <= static_cast<uint32_t>(rank) || data.size() < headers) return false;
  tickets->resize(count);
  std::memcpy(tickets->data(), data.data() + kHead + 4 * count + 8ull * count * rank, 8ull * count);
  std::memcpy(&width, data.data() + kHead, 4);
  for (uint32_t t = 0; t < count; ++t) {
    if (std::memcmp(data.data() + kHead + 4 * t, &width, 4) != 0 || (*tickets)[t] != (*tickets)[0] + t) return false;
  }
  if (data.size() != headers + 8ull * ranks * count * width) return false;
  word->ticket = (*tickets)[0];
  word->count = count;
  word->ranks = ranks;
  word->width = width;
  word->headers.resize(1ull * ranks * count * width);
  std::memcpy(word->headers.data(), data.data() + headers, 8 * word->headers.size());
  return true;
}

}  // namespace sok1x
