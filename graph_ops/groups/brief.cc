// See brief.h.
#include "brief.h"

#include <algorithm>
#include <cstring>

namespace sok1x {

namespace {

constexpr int64_t kPlaceBytes = 16, kMostMembers = 1 << 20, kMostNumbers = 1 << 26;

// When the members of a bundle were ready: what their marks, the first number of each header, all have above their
// first bit; 0 where they differ. headers: [T, width].
int64_t ReadyOf(const int64_t* headers, int64_t count, int64_t width) {
  if (width == 0) return 0;
  const int64_t ready = headers[0] >> 1;
  for (int64_t t = 1; t < count && ready != 0; ++t) {
    if (headers[t * width] >> 1 != ready) return 0;
  }
  return ready;
}

// Takes that out of the marks, or puts it in again (below 0: out).
void Mark(int64_t* headers, int64_t count, int64_t width, int64_t ready) {
  for (int64_t t = 0; t < count && ready != 0; ++t) headers[t * width] += 2 * ready;
}

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
  // Headers [rows, width], and before them when the ops were ready.
  void Marked(const std::vector<int64_t>& headers, int64_t rows, int64_t width) {
    const int64_t ready = ReadyOf(headers.data(), rows, width);
    Number(ready);
    if (ready == 0) return Rows(headers.data(), rows, width);
    std::vector<int64_t> bare = headers;
    Mark(bare.data(), rows, width, -ready);
    Rows(bare.data(), rows, width);
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
  bool Marked(int64_t rows, int64_t width, std::vector<int64_t>* headers) {
    const int64_t ready = Number();
    if (!Rows(rows, width, headers)) return false;
    if (width > 0) Mark(headers->data(), rows, width, ready);
    return true;
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

Numbers Shared(std::vector<int64_t> numbers) {
  return std::make_shared<const std::vector<int64_t>>(std::move(numbers));
}

std::string BriefBundle(const Bundle& bundle, int64_t ops, bool said) {
  Writer to(kBriefBundle);
  const Ops& said_of = *bundle.ops;
  to.Number(ops);
  to.Number(said);
  if (!said) {
    to.Number(said_of.context);
    to.Number(static_cast<int64_t>(said_of.signature));
    to.Number(said_of.count);
    to.Text(said_of.places);
    to.Text(said_of.names);
  }
  to.Number(bundle.ticket);
  to.Number(bundle.step);
  to.Rows(bundle.runs->data(), said_of.count, 3);
  to.Number(bundle.width);
  to.Marked(*bundle.headers, said_of.count, bundle.width);
  return *to.data();
}

bool ReadBriefBundle(const std::string& data, KnownOps* known, Bundle* bundle, int64_t* ops, bool* said) {
  Reader from(data);
  const int64_t number = from.Number();
  const bool knows = from.Number() != 0;
  if (knows) {
    if (number < 0 || number >= static_cast<int64_t>(known->size())) return false;
    bundle->ops = (*known)[number];
  } else {
    auto all = std::make_shared<Ops>();
    all->context = from.Number();
    all->signature = static_cast<uint64_t>(from.Number());
    all->count = from.Count();
    all->places = from.Text();
    all->names = from.Text();
    if (!from.good() || static_cast<int64_t>(all->places.size()) != kPlaceBytes * all->count) return false;
    bundle->ops = all;
    if (number == static_cast<int64_t>(known->size())) known->push_back(bundle->ops);  // below 0: said each time
  }
  if (ops != nullptr) *ops = number;
  if (said != nullptr) *said = knows;
  bundle->ticket = from.Number();
  bundle->step = from.Number();
  std::vector<int64_t> runs, headers;
  if (!from.Rows(bundle->ops->count, 3, &runs)) return false;
  bundle->width = from.Number();
  if (!from.Marked(bundle->ops->count, bundle->width, &headers)) return false;
  bundle->runs = Shared(std::move(runs));
  bundle->headers = Shared(std::move(headers));
  return from.ended();
}

std::string PlainBundle(const Bundle& bundle) {
  const Ops& ops = *bundle.ops;
  std::string data(1, static_cast<char>(kPlainBundle));
  AddNumber(&data, bundle.ticket);
  AddNumber(&data, ops.context);
  AddNumber(&data, bundle.step);
  AddNumber(&data, ops.signature);
  AddNumber(&data, static_cast<uint32_t>(ops.count));
  AddNumber(&data, static_cast<uint32_t>(ops.names.size()));
  AddNumber(&data, static_cast<uint32_t>(8 * bundle.headers->size()));
  data += ops.places;
  Add(&data, bundle.runs->data(), 8 * bundle.runs->size());
  for (int64_t t = 0; t < ops.count; ++t) AddNumber(&data, static_cast<uint32_t>(bundle.width));
  data += ops.names;
  Add(&data, bundle.headers->data(), 8 * bundle.headers->size());
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

std::string BriefMerged(const std::vector<Rising>& bundles, size_t bytes, size_t* at) {
  Writer to(kBriefMerged);
  const Bundle& first = bundles[*at].bundle;
  const int64_t count = first.ops->count, size = count * first.width;
  to.Number(bundles[*at].rank);
  to.Number(bundles[*at].ops);
  to.Number(first.ticket);
  to.Number(first.step);
  to.Rows(first.runs->data(), count, 3);
  to.Number(first.width);
  std::vector<int64_t> before = *first.headers, bare;
  int64_t ready = ReadyOf(before.data(), count, first.width);
  Mark(before.data(), count, first.width, -ready);
  to.Number(ready);
  to.Rows(before.data(), count, first.width);
  int64_t regular = 0;  // that follow, each the next rank, which says the same as the one before it
  for (++*at; *at < bundles.size() && to.data()->size() < bytes; ++*at) {
    const Rising &one = bundles[*at], &last = bundles[*at - 1];
    const Bundle& bundle = one.bundle;
    bool alike = bundle.headers == last.bundle.headers;
    int64_t now = ready;
    if (!alike) {
      bare = *bundle.headers;
      now = ReadyOf(bare.data(), count, bundle.width);
      Mark(bare.data(), count, bundle.width, -now);
      alike = bare == before;
    }
    if (alike && one.rank == last.rank + 1 && one.ops == last.ops && bundle.ticket == last.bundle.ticket &&
        bundle.step == last.bundle.step && now == ready) {
      ++regular;
      continue;
    }
    to.Number(regular + 1);
    regular = 0;
    to.Number(one.rank - last.rank);
    to.Number(one.ops - last.ops);
    to.Number(bundle.ticket - last.bundle.ticket);
    to.Number(bundle.step - last.bundle.step);
    to.Number(now - ready);
    to.Number(alike);
    if (!alike) to.Changes(bare.data(), before.data(), size);
    ready = now;
    if (!alike) before.swap(bare);
  }
  if (regular > 0) to.Number(-regular);
  return *to.data();
}

bool ReadBriefMerged(const std::string& data, const std::vector<KnownOps>& known, std::vector<Rising>* bundles) {
  Reader from(data);
  Rising one;
  const int64_t ranks = known.size();
  const auto knows = [&](int64_t rank, int64_t ops) {
    return from.good() && rank >= 0 && rank < ranks && ops >= 0 && ops < static_cast<int64_t>(known[rank].size());
  };
  one.rank = from.Number();
  one.ops = from.Number();
  if (!knows(one.rank, one.ops)) return false;
  Bundle& bundle = one.bundle;
  bundle.ops = known[one.rank][one.ops];
  bundle.ticket = from.Number();
  bundle.step = from.Number();
  const int64_t count = bundle.ops->count;
  std::vector<int64_t> runs, before;
  if (!from.Rows(count, 3, &runs)) return false;
  bundle.runs = Shared(std::move(runs));
  bundle.width = from.Number();
  int64_t ready = from.Number();
  if (!from.Rows(count, bundle.width, &before)) return false;
  const auto add = [&] {
    if (!knows(one.rank, one.ops) || known[one.rank][one.ops]->count != count) return false;
    bundle.ops = known[one.rank][one.ops];
    bundles->push_back(one);
    return true;
  };
  const auto marked = [&] {
    std::vector<int64_t> headers = before;
    if (bundle.width > 0) Mark(headers.data(), count, bundle.width, ready);
    bundle.headers = Shared(std::move(headers));
    return add();
  };
  if (!marked()) return false;
  while (from.good() && !from.ended()) {
    const int64_t told = from.Number(), regular = told < 0 ? -told : told - 1;
    if (regular > ranks) return false;
    for (int64_t i = 0; i < regular; ++i) {
      ++one.rank;
      if (!add()) return false;
    }
    if (told < 0) continue;
    one.rank += from.Number();
    one.ops += from.Number();
    bundle.ticket += from.Number();
    bundle.step += from.Number();
    const int64_t later = from.Number();
    const bool alike = from.Number() != 0;
    ready += later;
    if (!alike) from.Changes(before.data(), before.data(), before.size());
    if (!(alike && later == 0 ? add() : marked())) return false;
  }
  return from.ended();
}

std::string BriefRun(const Word& word, const std::vector<int64_t>& tickets) {
  Writer to(kBriefRun);
  to.Number(word.number);
  to.Number(word.count);
  to.Number(word.ranks);
  to.Number(word.width);
  const int64_t size = word.count * word.width;
  std::vector<int64_t> before(size, 0), bare(size);
  int64_t ticket = 0, ready = 0, alike = 0;  // how many ranks say the same as the one before them
  for (int64_t r = 0; r < word.ranks; ++r) {
    const auto own = word.headers.begin() + r * size;
    if (r > 0 && tickets[r] == ticket && std::equal(own, own + size, own - size)) {
      ++alike;
      continue;
    }
    bare.assign(own, own + size);
    const int64_t now = ReadyOf(bare.data(), word.count, word.width);
    Mark(bare.data(), word.count, word.width, -now);
    const bool same = bare == before;
    if (r > 0 && same && tickets[r] == ticket && now == ready) {
      ++alike;
      continue;
    }
    to.Number(alike);
    alike = 0;
    to.Number(tickets[r] - ticket);
    to.Number(now - ready);
    to.Number(same);
    if (!same) to.Changes(bare.data(), before.data(), size);
    before.swap(bare);
    ticket = tickets[r];
    ready = now;
  }
  if (alike > 0) to.Number(alike);
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
  std::vector<int64_t> before(size, 0);
  int64_t ticket = 0, ready = 0;
  const auto add = [&](int64_t r) {
    int64_t* const headers = word->headers.data() + r * size;
    std::copy(before.begin(), before.end(), headers);
    if (word->width > 0) Mark(headers, word->count, word->width, ready);
    if (r == rank) word->ticket = ticket;
  };
  for (int64_t r = 0; r < ranks;) {
    const int64_t alike = from.Number();
    if (!from.good() || alike < 0 || alike > ranks - r || (alike > 0 && r == 0)) return false;
    for (int64_t i = 0; i < alike; ++i) add(r++);
    if (r == ranks) break;
    ticket += from.Number();
    ready += from.Number();
    if (!from.Number()) from.Changes(before.data(), before.data(), size);
    if (!from.good()) return false;
    add(r++);
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
