// What ranks tell each other of a group that has run before: launch/bundles.py's Bundle and Run, without what the other
// side knows already, and in few bytes. A message of some hundred tables is then one that MPI sends at once.
#ifndef SOK1X_GROUPS_BRIEF_H
#define SOK1X_GROUPS_BRIEF_H

#include <cstdint>
#include <string>
#include <vector>

namespace sok1x {

// First bytes of messages. The plain ones are numbered in launch/messages.py, by which the brief ones are never made.
constexpr uint8_t kPlainBundle = 0, kPlainRun = 3, kBriefBundle = 0xf0, kBriefRun = 0xf1, kBriefSeveral = 0xf2;

// The ops of a bundle, which the sender says once.
struct Ops {
  int64_t context = 0;     // the session, by the sender's number
  uint64_t signature = 0;  // of the kind of session.run
  int64_t count = 0;       // T
  std::string places;      // of each its int64 index and uint64 digest
  std::string names;       // with a zero between two
};

// As launch/bundles.py's Bundle; all members' headers have one width.
struct Bundle {
  Ops ops;
  int64_t ticket = 0, step = 0;
  std::vector<int64_t> runs;  // [T, 3]: tie, frame, iteration
  int64_t width = 0;
  std::vector<int64_t> headers;  // [T, width]
};

// As launch/bundles.py's Run, of one rank's bundle: its members' tickets follow each other, and `ticket` is the first.
struct Word {
  int64_t number = 0, ticket = 0, count = 0, ranks = 0, width = 0;
  std::vector<int64_t> headers;  // [N, T, width]
};

// ops: the number by which the receiver is to know them; said: whether it knows them already.
std::string BriefBundle(const Bundle& bundle, int64_t ops, bool said);
// known: what has been said of ops by this sender, by number; the bundle's are added. False where data is not that.
bool ReadBriefBundle(const std::string& data, std::vector<Ops>* known, Bundle* bundle);
std::string PlainBundle(const Bundle& bundle);

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
