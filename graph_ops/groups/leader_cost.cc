// What rank 0 does for a word, by itself, for benchmarks/coordinator.py: C functions, called through ctypes.
#include <algorithm>

#include "../bridge/bridge_clock.h"
#include "meeting.h"
#include "post.h"
#include "relay.h"

namespace {

// Of this thread alone: other processes may share its CPU.
double Seconds() { return 1e-9 * sok1x::NanosecondsOf(CLOCK_THREAD_CPUTIME_ID); }

// What ranks say of ops: in whole headers numbers beyond the first two differ from rank to rank; in short ones of
// lookups by bag the third does where ranks wish for different exchanges, here of one table.
enum Says { kAlike, kVaried, kAtOdds };

// A bundle of `tables` ops. tied: gradients, each of which says at the end of its header which lookup's it is.
sok1x::Bundle MakeBundle(int rank, int tables, int width, bool tied, int64_t word, Says says) {
  sok1x::Bundle bundle;
  auto ops = std::make_shared<sok1x::Ops>();
  ops->context = 3;
  ops->signature = 5;
  ops->count = tables;
  for (int t = 0; t < tables; ++t) {
    const int64_t place[2] = {t, 1000003 * t + 17};
    ops->places.append(reinterpret_cast<const char*>(place), sizeof(place));
    ops->names += (t ? std::string(1, '\0') : std::string()) + "embedding_" + std::to_string(t) + "/lookup";
  }
  bundle.ops = ops;
  bundle.ticket = sok1x::Meeting::kFirst + word * tables;
  bundle.step = 100 + word;
  bundle.width = width;
  std::vector<int64_t> headers, runs;
  for (int t = 0; t < tables; ++t) {
    const int64_t tie = tied ? sok1x::Meeting::kFirst + word * tables + t : 0;
    for (int i = 0; i < width; ++i) {
      headers.push_back(i < 2 ? i : tied && i == width - 1 ? tie :
                        says == kVaried ? 7000 + (rank * 97 + t * 31 + i * 53 + word * 11) % 800 :
                        says == kAtOdds && !tied && t == tables / 2 ? (rank * 97 + word * 11) % 13 < 6 : 0);
    }
    runs.insert(runs.end(), {tie, 0, 0});
  }
  bundle.runs = sok1x::Shared(std::move(runs));
  bundle.headers = sok1x::Shared(std::move(headers));
  return bundle;
}

// The ranks of a job, and what they say to rank 0 by way of each other.
struct Ranks {
  Ranks(int ranks, const int64_t* parents) : parents(parents, parents + ranks), children(ranks), below(ranks) {
    for (int r = ranks - 1; r > 0; --r) children[parents[r]].push_back(r);
    for (int r = 0; r < ranks; ++r) below[r].resize(ranks);
    for (int r = 0; r < ranks; ++r) {
      for (int at = r; at >= 0; at = parents[at]) below[at][r] = true;
    }
  }

  // The messages of a rank to its parent. first: nobody knows what ops there are, and all is said as it is.
  std::vector<std::string> From(int rank, const std::vector<std::string>& own,
                                const std::vector<sok1x::KnownOps>& known, bool first, double* most) const {
    if (children[rank].empty()) return {own[rank]};
    std::vector<std::pair<int, std::string>> came;
    for (int child : children[rank]) {
      for (std::string& data : From(child, own, known, first, most)) came.emplace_back(child, std::move(data));
    }
    const double began = Seconds();
    sok1x::Relay relay(below[rank]);
    came.emplace_back(rank, own[rank]);  // which it need not read
    for (auto& one : came) {
      sok1x::Messages messages;
      if (static_cast<uint8_t>(one.second[0]) != sok1x::kUp) {
        messages.push_back(std::move(one));
      } else if (!sok1x::ReadUp(one.second, &messages)) {
        return {};
      }
      for (auto& message : messages) {
        if (first) {
          relay.Add(message.first, std::move(message.second), 0);
          continue;
        }
        std::vector<sok1x::Rising> bundles;
        if (message.first < 0) {
          if (!sok1x::ReadBriefMerged(message.second, known, &bundles)) return {};
        } else {
          sok1x::KnownOps of_rank = known[message.first];
          sok1x::Bundle bundle;
          if (!sok1x::ReadBriefBundle(message.second, &of_rank, &bundle)) return {};
          bundles.push_back({message.first, 0, std::move(bundle)});
        }
        for (sok1x::Rising& bundle : bundles) relay.Add(std::move(bundle), 0);
      }
    }
    std::vector<std::string> taken = relay.Take(sok1x::Post::kLongest);
    *most = std::max(*most, Seconds() - began);
    return taken;
  }

  const std::vector<int64_t> parents;
  std::vector<std::vector<int>> children;
  std::vector<std::vector<bool>> below;
};

}  // namespace

extern "C" {

// width, tied, says: of the headers; see MakeBundle. parents: [N], the next rank on the way to rank 0, -1 for that.
// seconds: [4], of one word, an average over `words`:
// reading and meeting the bundles of all ranks; making the messages of the word; reading it, as another rank does; what
// the busiest of the ranks on the way takes, to read and make one of them. sizes: [4]: messages that come to rank 0,
// their bytes, the word's messages, the bytes of each.
int sok1x_leader_cost(int ranks, int tables, int width, int tied, int says, int words, const int64_t* parents,
                      double* seconds, int64_t* sizes) {
  const auto make = [=](int rank, int64_t word) {
    return MakeBundle(rank, tables, width, tied != 0, word, static_cast<Says>(says));
  };
  sok1x::Meeting meeting(ranks);
  const std::vector<int64_t> contexts(ranks, 3);
  const std::vector<uint64_t> signatures(ranks, 5);
  meeting.Agree(contexts.data(), signatures.data());
  const Ranks job(ranks, parents);
  std::vector<sok1x::KnownOps> known(ranks);
  std::fill(seconds, seconds + 4, 0);
  for (int64_t word = -1; word < words; ++word) {  // the first says what ops there are
    std::vector<std::string> own(ranks), came;
    for (int r = 1; r < ranks; ++r) {
      own[r] = sok1x::BriefBundle(make(r, word + 1), 0, word >= 0);
    }
    std::vector<std::pair<int, std::string>> data;
    double most = 0;
    for (int child : job.children[0]) {
      for (std::string& one : job.From(child, own, known, word < 0, &most)) data.emplace_back(child, std::move(one));
    }
    const sok1x::Bundle bundle = make(0, word + 1);
    sok1x::Word said;
    std::vector<int64_t> tickets;
    sizes[0] = data.size();
    sizes[1] = 0;
    for (const auto& one : data) sizes[1] += one.second.size();
    const double began = Seconds();
    sok1x::Meeting::Outcome met = meeting.Add(0, bundle, 0, &said, &tickets);
    for (auto& one : data) {
      sok1x::Messages messages;
      if (static_cast<uint8_t>(one.second[0]) != sok1x::kUp) {
        messages.push_back(std::move(one));
      } else if (!sok1x::ReadUp(one.second, &messages)) {
        return -1;
      }
      for (const auto& message : messages) {
        std::vector<sok1x::Rising> bundles;
        if (message.first < 0) {
          if (!sok1x::ReadBriefMerged(message.second, known, &bundles)) return -1;
        } else {
          bundles.resize(1);
          bundles[0].rank = message.first;
          if (!sok1x::ReadBriefBundle(message.second, &known[message.first], &bundles[0].bundle)) return -1;
        }
        for (sok1x::Rising& one : bundles) met = meeting.Add(one.rank, std::move(one.bundle), 0, &said, &tickets);
      }
    }
    if (met != sok1x::Meeting::kDecided) return -2;
    const double decided = Seconds();
    const std::string brief = sok1x::BriefRun(said, tickets);
    const std::vector<std::string> messages(job.children[0].size(), brief);
    const double made = Seconds();
    sok1x::Word read;
    if (!sok1x::ReadBriefRun(messages.back(), ranks - 1, &read)) return -3;
    const double ended = Seconds();
    if (read.headers != said.headers || read.ticket != tickets[ranks - 1]) return -4;
    sizes[2] = messages.size();
    sizes[3] = messages.back().size();
    if (word < 0) continue;
    seconds[0] += (decided - began) / words;
    seconds[1] += (made - decided) / words;
    seconds[2] += (ended - made) / words;
    seconds[3] += most / words;
  }
  return 0;
}

// Between two ranks, of messages of `bytes`: the one with `sends` sends them, the other receives those that are there.
// Returns the seconds that one takes this rank, below 0 where MPI has refused a call. barrier: called between.
double sok1x_post_cost(const sok1x::Inbox* inbox, int sends, int other, int64_t bytes, int messages,
                       void (*barrier)()) {
  sok1x::Post post;
  post.Use(inbox);
  const std::string data(bytes, 'x');
  const double began = Seconds();
  if (sends) {
    for (int i = 0; i < messages; ++i) post.Send(other, data, true);
    const double ended = Seconds();
    barrier();
    const bool gone = post.Flush(10000000);
    return gone && !post.broken() ? (ended - began) / messages : -1;
  }
  barrier();  // they are all under way
  const double comes = Seconds();
  for (int taken = 0; taken < messages;) {
    int source;
    std::string came;
    bool longer;
    if (post.Receive(&source, &came, &longer)) ++taken;
    if (longer || post.broken()) return -1;
  }
  return (Seconds() - comes) / messages;
}

}  // extern "C"
