// Distinct row numbers that our own ops have made in a run, by where they lie: what has been fed lies elsewhere.
#ifndef SOK1X_KNOWN_DISTINCT_H
#define SOK1X_KNOWN_DISTINCT_H

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sok1x {

// By table, which stores/known_distinct.py numbers. For the executor's thread.
class KnownDistinct {
 public:
  static KnownDistinct* Get() {
    static KnownDistinct* known = new KnownDistinct;
    return known;
  }

  // `length` distinct row numbers at `address`, made in run `step`.
  void Note(int64_t table, int64_t step, int64_t address, int64_t length) {
    Made& made = made_[table];
    if (made.step != step) {
      made.step = step;
      made.rows.clear();
    }
    if (!Has(made, address, length)) made.rows.emplace_back(address, length);
  }

  // Whether these have been noted in the same run. Where runs of one table overlap it may say no.
  bool Noted(int64_t table, int64_t step, int64_t address, int64_t length) const {
    const auto made = made_.find(table);
    return made != made_.end() && made->second.step == step && Has(made->second, address, length);
  }

 private:
  struct Made {
    int64_t step = -1;  // no run has this number
    std::vector<std::pair<int64_t, int64_t>> rows;
  };
  static bool Has(const Made& made, int64_t address, int64_t length) {
    return std::find(made.rows.begin(), made.rows.end(), std::make_pair(address, length)) != made.rows.end();
  }
  std::unordered_map<int64_t, Made> made_;
};

}  // namespace sok1x

#endif  // SOK1X_KNOWN_DISTINCT_H
