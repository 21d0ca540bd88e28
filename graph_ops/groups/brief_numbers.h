// See brief.h: how its messages are written and read. For brief*.cc alone.
#ifndef SOK1X_GROUPS_BRIEF_NUMBERS_H
#define SOK1X_GROUPS_BRIEF_NUMBERS_H

#include <algorithm>
#include <cstring>

#include "brief.h"

namespace sok1x {
namespace briefly {

constexpr int64_t kMostMembers = 1 << 20, kMostNumbers = 1 << 26;

// Of several ranks each says in one number what it says otherwise than the one before it, and then that: which rank it
// is, if not the next, its number for the ops, its ticket, its step, when it was ready. Its headers are those of the
// one before, or, where ranks say one of two things, the last that were different; or new ones.
enum Otherwise { kRank = 1, kOps = 2, kTicket = 4, kStep = 8, kReady = 16, kLastButOne = 32, kNew = 64 };

// When the members of a bundle were ready: what their marks, the first number of each header, all have above their
// first bit; 0 where they differ. headers: [T, width].
inline int64_t ReadyOf(const int64_t* headers, int64_t count, int64_t width) {
  if (width == 0) return 0;
  const int64_t ready = headers[0] >> 1;
  for (int64_t t = 1; t < count && ready != 0; ++t) {
    if (headers[t * width] >> 1 != ready) return 0;
  }
  return ready;
}

// Takes that out of the marks, or puts it in again (below 0: out).
inline void Mark(int64_t* headers, int64_t count, int64_t width, int64_t ready) {
  for (int64_t t = 0; t < count && ready != 0; ++t) headers[t * width] += 2 * ready;
}

// By how much a number of a table is more than the one above it.
inline uint64_t More(const int64_t* values, int64_t at, int64_t width) {
  return static_cast<uint64_t>(values[at]) - static_cast<uint64_t>(values[at - width]);
}

// Numbers as differences, in as many groups of seven bits as they need.
class Writer {
 public:
  explicit Writer(uint8_t kind) : data_(1, static_cast<char>(kind)) {}

  void Number(int64_t value) { Bits((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  // A table [rows, width]: the first row, then each as what it differs in from the one before, once for as many as
  // differ alike. Tables of one model have much in common, and what counts them goes up by one.
  void Rows(const int64_t* values, int64_t rows, int64_t width) {
    if (width == 0) return;
    if (rows > 0) Changes(values, nullptr, width);
    const auto alike = [&](int64_t one, int64_t other) {
      for (int64_t i = 0; i < width; ++i) {
        if (More(values, one * width + i, width) != More(values, other * width + i, width)) return false;
      }
      return true;
    };
    for (int64_t row = 1, next; row < rows; row = next) {
      for (next = row + 1; next < rows && alike(next, row);) ++next;
      Number(next - row);
      Changes(values + row * width, values + (row - 1) * width, width);
    }
  }
  // Numbers [size], as what they differ in from others (null: from 0); of zeros, how many there are.
  void Changes(const int64_t* values, const int64_t* before, int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
      const auto more = [&](int64_t at) {
        return static_cast<uint64_t>(values[at]) - (before == nullptr ? 0 : static_cast<uint64_t>(before[at]));
      };
      const uint64_t value = more(i);
      Number(static_cast<int64_t>(value));
      if (value != 0) continue;
      const int64_t first = i;
      while (i + 1 < size && more(i + 1) == 0) ++i;
      Number(i - first);
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
    if (!good_ || rows < 0 || rows > kMostMembers || width < 0 || width > kMostNumbers ||
        rows * width > kMostNumbers) {
      return good_ = false;
    }
    values->assign(rows * width, 0);
    if (width == 0) return true;
    int64_t* const all = values->data();
    if (rows > 0) Changes(all, all, width);
    for (int64_t row = 1; row < rows && good_;) {
      const int64_t alike = Number();
      if (alike < 1 || alike > rows - row) return good_ = false;
      Changes(all + row * width, all + (row - 1) * width, width);
      for (const int64_t end = row + alike; ++row < end;) {
        for (int64_t i = row * width; i < (row + 1) * width; ++i) {
          all[i] = static_cast<int64_t>(static_cast<uint64_t>(all[i - width]) + More(all, i - width, width));
        }
      }
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
    for (int64_t i = 0, zeros = 0; i < size && good_; ++i) {
      uint64_t value = 0;
      if (zeros > 0) {
        --zeros;
      } else if ((value = static_cast<uint64_t>(Number())) == 0) {
        zeros = Number();
        good_ = good_ && zeros >= 0 && zeros < size - i;
      }
      values[i] = static_cast<int64_t>(value + static_cast<uint64_t>(before[i]));
    }
  }
  // Headers of the next rank, from those before it and the last that were different from these.
  bool Headers(int64_t otherwise, std::vector<int64_t>* before, std::vector<int64_t>* different) {
    if ((otherwise & kLastButOne) != 0) {
      good_ = good_ && before->size() == different->size();
      before->swap(*different);
    } else if ((otherwise & kNew) != 0) {
      *different = *before;
      Changes(before->data(), before->data(), before->size());
    }
    return good_;
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

inline void Add(std::string* data, const void* from, size_t bytes) {
  data->append(static_cast<const char*>(from), bytes);
}

template <typename Type>
void AddNumber(std::string* data, Type value) {
  Add(data, &value, sizeof(value));
}

}  // namespace briefly
}  // namespace sok1x

#endif
