// What rank 0 does for a word, by itself, for benchmarks/coordinator.py: C functions, called through ctypes.
#include <algorithm>
#include <ctime>

#include "meeting.h"
#include "post.h"

namespace {

// Of this thread alone: other processes may share its CPU.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// A bundle of `tables` ops; varied: numbers beyond the first two of a header differ from rank to rank.
sok1x::Bundle MakeBundle(int rank, int tables, int width, int64_t word, bool varied) {
  sok1x::Bundle bundle;
  bundle.ops.context = 3;
  bundle.ops.signature = 5;
  bundle.ops.count = tables;
  for (int t = 0; t < tables; ++t) {
    const int64_t place[2] = {t, 1000003 * t + 17};
    bundle.ops.places.append(reinterpret_cast<const char*>(place), sizeof(place));
    bundle.ops.names += (t ? std::string(1, '\0') : std::string()) + "embedding_" + std::to_string(t) + "/lookup";
  }
  bundle.ticket = sok1x::Meeting::kFirst + word * tables;
  bundle.step = 100 + word;
  bundle.runs.assign(3 * tables, 0);
  bundle.width = width;
  for (int t = 0; t < tables; ++t) {
    for (int i = 0; i < width; ++i) {
      bundle.headers.push_back(i < 2 ? i : varied ? 7000 + (rank * 97 + t * 31 + i * 53 + word * 11) % 800 : 7000);
    }
  }
  return bundle;
}

}  // namespace

extern "C" {

// seconds: [3], of one word, an average over `words`: reading and meeting the bundles of all ranks; making the messages
// of the word; reading it, as another rank does. bytes: [2], of a bundle, of a word's message to one rank.
int sok1x_leader_cost(int ranks, int tables, int width, int varied, int words, double* seconds, int64_t* bytes) {
  sok1x::Meeting meeting(ranks);
  const std::vector<int64_t> contexts(ranks, 3);
  const std::vector<uint64_t> signatures(ranks, 5);
  meeting.Agree(contexts.data(), signatures.data());
  std::vector<std::vector<sok1x::Ops>> known(ranks);
  std::fill(seconds, seconds + 3, 0);
  for (int64_t word = -1; word < words; ++word) {  // the first says what ops there are
    std::vector<std::string> data;
    for (int r = 1; r < ranks; ++r) {
      data.push_back(sok1x::BriefBundle(MakeBundle(r, tables, width, word + 1, varied), 0, word >= 0));
    }
    const sok1x::Bundle own = MakeBundle(0, tables, width, word + 1, varied);
    sok1x::Word said;
    std::vector<int64_t> tickets;
    const double began = Seconds();
    sok1x::Meeting::Outcome met = meeting.Add(0, own, 0, &said, &tickets);
    for (int r = 1; r < ranks; ++r) {
      sok1x::Bundle bundle;
      if (!sok1x::ReadBriefBundle(data[r - 1], &known[r], &bundle)) return -1;
      met = meeting.Add(r, std::move(bundle), 0, &said, &tickets);
    }
    if (met != sok1x::Meeting::kDecided) return -2;
    const double decided = Seconds();
    const std::string brief = sok1x::BriefRun(said, tickets);
    const std::vector<std::string> messages(ranks - 1, brief);
    const double made = Seconds();
    sok1x::Word read;
    if (!sok1x::ReadBriefRun(messages.back(), ranks - 1, &read)) return -3;
    const double ended = Seconds();
    bytes[0] = data.back().size();
    bytes[1] = messages.back().size();
    if (word < 0) continue;
    seconds[0] += (decided - began) / words;
    seconds[1] += (made - decided) / words;
    seconds[2] += (ended - made) / words;
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
    for (int i = 0; i < messages; ++i) post.Send(other, data);
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
