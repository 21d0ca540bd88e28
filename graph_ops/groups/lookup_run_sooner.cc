// See lookup_run.h: on several ranks, on a GPU, what goes to other ranks is made first, so that its exchange runs
// beside the making of this rank's own part, which does not travel. Without this one comes after the other.
#include "fork.h"
#include "lookup_run.h"

namespace sok1x {

namespace {

// Below it, what this rank reads for itself takes no longer than the events and one launch more: some 10 us of an H200.
constexpr int64_t kLeastBytes = int64_t{16} << 20;
constexpr int64_t kMostRecords = 256;  // for a record is a table's rows for one rank, and they are uploaded

}  // namespace

int64_t LookupRun::OwnBytes() const {
  int64_t bytes = 0;
  for (int t = 0; t < size(); ++t) {
    const i64* const from = &keys_.starts[t * (ranks_ + 1) + rank_];
    bytes += 4 * facts_[t].dim * (from[1] - from[0]);
  }
  return bytes;
}

bool LookupRun::SendsSooner() const {
  return fork_ != nullptr && on_gpu() && size() * ranks_ <= kMostRecords && OwnBytes() >= kLeastBytes;
}

int LookupRun::LookUpSooner(i64* missing, const std::vector<InitialMember>& begins, bool asks) {
  int code = Find(found_, missing, asks);
  // It writes the rows that are not found, and the copies below those that are.
  if (code == 0 && !begins.empty()) code = steps_->initial(Work(), begins.data(), begins.size());
  std::vector<GatherMember> others, own;
  for (int t = 0; t < size(); ++t) {
    const FindMember& m = found_[t];
    if (m.n == 0) continue;
    const i64* const starts = &keys_.starts[t * (ranks_ + 1)];
    for (int r = 0; r < ranks_; ++r) {
      if (starts[r + 1] == starts[r]) continue;
      GatherMember copy = GatherMember();
      copy.source.base = reinterpret_cast<char*>(const_cast<float*>(m.table));
      copy.dim = m.dim;
      copy.n = starts[r + 1] - starts[r];
      copy.rows = m.rows + starts[r];
      copy.out.base = answers_.base + answers_.offsets[t * ranks_ + r];
      copy.out_half = m.out_half;
      (r == rank_ ? own : others).push_back(copy);
    }
  }
  if (code == 0 && !others.empty()) code = steps_->gather(Work(), others.data(), others.size());
  if (code == 0) code = fork_->Mark();
  sooner_ = code == 0;
  return code || own.empty() ? code : steps_->gather(Work(), own.data(), own.size());
}

int LookupRun::CombineSooner(const std::vector<CombineMember>& bags) {
  std::vector<CombineMember> others, own;
  for (int t = 0; t < size(); ++t) {
    int64_t first = 0;
    for (int r = 0; r < ranks_; ++r) {
      const int64_t n_bags = bags_[t * ranks_ + r];
      if (n_bags > 0 && bags[t].n_bags > 0) {
        CombineMember m = bags[t];
        m.offsets += first;
        m.n_bags = n_bags;
        m.out = Blocks();
        m.out.base = values_.base + values_.offsets[t * ranks_ + r];
        (r == rank_ ? own : others).push_back(m);
      }
      first += n_bags;
    }
  }
  int code = others.empty() ? 0 : steps_->combine(Work(), others.data(), others.size());
  if (code == 0) code = fork_->Mark();
  sooner_ = code == 0;
  return code || own.empty() ? code : steps_->combine(Work(), own.data(), own.size());
}

}  // namespace sok1x
