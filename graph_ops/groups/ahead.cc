// See ahead.h.
#include "ahead.h"

#include <algorithm>
#include <utility>

namespace sok1x {

Ahead* Ahead::Get() {
  static Ahead* ahead = new Ahead;  // never destroyed, as the queue
  return ahead;
}

bool Ahead::Wanted(const void* table, int64_t step) {
  const auto found = tables_.find(table);
  if (found == tables_.end()) return false;
  std::vector<Made>& made = found->second.made;
  const auto before = std::remove_if(made.begin(), made.end(), [=](const Made& one) { return one.step != step; });
  if (before != made.end()) found->second.wanted = false;
  made.erase(before, made.end());
  return found->second.wanted;
}

void Ahead::Put(const void* table, Made made) { tables_[table].made.push_back(std::move(made)); }

bool Ahead::Take(const void* table, int64_t step, const void* rows, int64_t length, Made* made) {
  Table& of = tables_[table];
  of.wanted = true;
  for (auto one = of.made.begin(); one != of.made.end(); ++one) {
    if (one->step != step || one->rows.tensor_data().data() != rows || one->rows.NumElements() != length) continue;
    ++taken_;
    *made = std::move(*one);
    of.made.erase(one);
    return true;
  }
  return false;
}

int64_t Ahead::waiting() const {
  int64_t count = 0;
  for (const auto& table : tables_) count += table.second.made.size();
  return count;
}

void Ahead::Clear() { tables_.clear(); }

}  // namespace sok1x

extern "C" {

// For tests: ahead.h.
void sok1x_ahead_on_hosts(int on) { sok1x::Ahead::Get()->OnHosts(on != 0); }

int64_t sok1x_ahead_taken() { return sok1x::Ahead::Get()->taken(); }

int64_t sok1x_ahead_waiting() { return sok1x::Ahead::Get()->waiting(); }

}  // extern "C"
