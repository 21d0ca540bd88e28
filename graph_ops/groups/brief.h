// What ranks tell each other of a group that has run before: launch/bundles.py's Bundle and Run, without what the other
// side knows already, and in few bytes. A message of some hundred tables is then one that MPI sends at once.
#ifndef SOK1X_GROUPS_BRIEF_H
#define SOK1X_GROUPS_BRIEF_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sok1x {

// First bytes of messages. The plain ones are numbered in launch/messages.py, by which the brief ones are never made.
constexpr uint8_t kPlainBundle = 0, kPlainRun = 3, kBriefBundle = 0xf0, kBriefRun = 0xf1, kBriefSeveral = 0xf2,
                  kBriefMerged = 0xf7;

constexpr int64_t kPlaceBytes = 16;  // of an op: its int64 index and its uint64 digest

// The ops of a bundle, which the sender says once.
struct Ops {
  int64_t context = 0;     // the session, by the sender's number
  uint64_t signature = 0;  // of the kind of session.run
  int64_t count = 0;       // T
  std::string places;      // of each its int64 index and uint64 digest
  std::string names;       // with a zero between two
};

// Numbers that bundles of many ranks may share.
typedef std::shared_ptr<const std::vector<int64_t>> Numbers;
Numbers Shared(std::vector<int64_t> numbers);
inline bool Equal(const Numbers& one, const Numbers& other) { return one == other || *one == *other; }

// As launch/bundles.py's Bundle; all members' headers have one width.
struct Bundle {
  std::shared_ptr<const Ops> ops;
  int64_t ticket = 0, step = 0;
  Numbers runs;  // [T, 3]: tie, frame, iteration
  int64_t width = 0;
  Numbers headers;  // [T, width]
};

// As launch/bundles.py's Run, of one rank's bundle: its members' tickets follow each other, and `ticket` is the first.
struct Word {
  int64_t number = 0, ticket = 0, count = 0, ranks = 0, width = 0;
  std::vector<int64_t> headers;  // [N, T, width]
};

// What a rank has said of ops, by its numbers for them. Who has said too many begins anew with number 0.
typedef std::vector<std::shared_ptr<const Ops>> KnownOps;

// A bundle on its way to rank 0, with the rank that said it and that rank's number for its ops.
struct Rising {
  int rank;
  int64_t ops;
  Bundle bundle;
};

// When an op was ready, if there is a timeline, is in its header's mark, and differs from rank to rank (devices.mark).
// In brief messages it comes once for a bundle, whose members all have the same: so what ranks say alike is alike.

// ops: the number by which the receiver is to know them; said: whether it knows them already.
std::string BriefBundle(const Bundle& bundle, int64_t ops, bool said);
// known: what has been said of ops by this sender, by number; the bundle's are added. ops: the bundle's number of them;
// said: as above. False where data is not that.
bool ReadBriefBundle(const std::string& data, KnownOps* known, Bundle* bundle, int64_t* ops = nullptr,
                     bool* said = nullptr);
std::string PlainBundle(const Bundle& bundle);

// Bundles of several ranks as one: what they say alike is in it once. All have the same ops, runs and widths, each rank
// one, in the order of the ranks; from *at on, as many of them as fit into some `bytes`, one at least.
std::string BriefMerged(const std::vector<Rising>& bundles, size_t bytes, size_t* at);
// known: of each rank, as for ReadBriefBundle.
bool ReadBriefMerged(const std::string& data, const std::vector<KnownOps>& known, std::vector<Rising>* bundles);

// Several messages as one, and the other way round.
std::string BriefSeveral(const std::vector<std::string>& messages);
bool ReadBriefSeveral(const std::string& data, std::vector<std::string>* messages);

// One message for all ranks. tickets: [N], the first of each rank. What ranks have said alike is in it once.
std::string BriefRun(const Word& word, const std::vector<int64_t>& tickets);
// As `rank` reads it.
bool ReadBriefRun(const std::string& data, int rank, Word* word);
// For one rank: the tickets are its own, also where those of others belong.
std::string PlainRun(const Word& word);
// False also where a plain Run's tickets of this rank do not follow each other, or widths differ; then `tickets` says
// them all the same. False without tickets where data is not a Run.
bool ReadPlainRun(const std::string& data, int rank, Word* word, std::vector<int64_t>* tickets);

}  // namespace sok1x

#endif  // SOK1X_GROUPS_BRIEF_H
