// See brief.h: words of rank 0.
#include "brief_numbers.h"

namespace sok1x {

using namespace briefly;

std::string BriefRun(const Word& word, const std::vector<int64_t>& tickets) {
  Writer to(kBriefRun);
  to.Number(word.number);
  to.Number(word.count);
  to.Number(word.ranks);
  to.Number(word.width);
  const int64_t size = word.count * word.width;
  std::vector<int64_t> before, different, bare(size);
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
    if (r == 0) {
      to.Number(tickets[0]);
      to.Number(now);
      to.Rows(bare.data(), word.count, word.width);
      before = bare;
      ticket = tickets[0];
      ready = now;
      continue;
    }
    const int64_t headers = bare == before ? 0 : bare == different ? kLastButOne : kNew;
    const int64_t otherwise = headers | (tickets[r] != ticket ? kTicket : 0) | (now != ready ? kReady : 0);
    if (otherwise == 0) {
      ++alike;
      continue;
    }
    to.Number(alike);
    alike = 0;
    to.Number(otherwise);
    if (tickets[r] != ticket) to.Number(tickets[r] - ticket);
    if (now != ready) to.Number(now - ready);
    if (headers == kNew) to.Changes(bare.data(), before.data(), size);
    ticket = tickets[r];
    ready = now;
    if (headers == 0) continue;
    different.swap(before);
    before.swap(bare);
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
  std::vector<int64_t> before, different;
  int64_t ticket = from.Number(), ready = from.Number();
  const auto add = [&](int64_t r) {
    int64_t* const headers = word->headers.data() + r * size;
    std::copy(before.begin(), before.end(), headers);
    if (word->width > 0) Mark(headers, word->count, word->width, ready);
    if (r == rank) word->ticket = ticket;
  };
  if (!from.Rows(word->count, word->width, &before)) return false;
  add(0);
  for (int64_t r = 1; r < ranks;) {
    const int64_t alike = from.Number();
    if (!from.good() || alike < 0 || alike > ranks - r) return false;
    for (int64_t i = 0; i < alike; ++i) add(r++);
    if (r == ranks) break;
    const int64_t otherwise = from.Number();
    if ((otherwise & kTicket) != 0) ticket += from.Number();
    if ((otherwise & kReady) != 0) ready += from.Number();
    if (!from.Headers(otherwise, &before, &different)) return false;
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
