// meeting.h as Python sees it: C functions, called through ctypes by bridge/lane_ranks.py; and by the tests, which hold
// it to what launch/leader.py does.
#include <algorithm>

#include "meeting.h"

namespace {

sok1x::Meeting* MeetingOf(void* meeting) { return static_cast<sok1x::Meeting*>(meeting); }

// What ranks have said of ops, with the meeting.
struct Opened : sok1x::Meeting {
  explicit Opened(int ranks) : sok1x::Meeting(ranks), known(ranks) {}
  std::vector<sok1x::KnownOps> known;
};

typedef void (*Tell)(int rank, const char* data, int64_t bytes);

void TellAll(void* meeting, Tell tell) {
  for (const auto& one : MeetingOf(meeting)->TakeAll()) {
    const std::string plain = sok1x::PlainBundle(one.second);
    tell(one.first, plain.data(), plain.size());
  }
}

}  // namespace

extern "C" {

void* sok1x_meeting_open(int ranks) { return static_cast<sok1x::Meeting*>(new Opened(ranks)); }

void sok1x_meeting_close(void* meeting) { delete static_cast<Opened*>(MeetingOf(meeting)); }

// A brief bundle of a rank; returns what becomes of it, below 0 where it cannot be read. Has `tell` called with plain
// messages: the word for each rank, or all that waits, with the ranks from which it came.
int sok1x_meeting_hear(void* meeting, int rank, const char* data, int64_t bytes, Tell tell) {
  sok1x::Bundle bundle;
  sok1x::Word word;
  std::vector<int64_t> tickets;
  auto* opened = static_cast<Opened*>(MeetingOf(meeting));
  if (!sok1x::ReadBriefBundle(std::string(data, bytes), &opened->known[rank], &bundle)) return -1;
  const sok1x::Meeting::Outcome met = opened->Add(rank, bundle, 0, &word, &tickets);
  const std::string brief = tickets.empty() ? "" : sok1x::BriefRun(word, tickets);
  for (size_t r = 0; r < tickets.size(); ++r) {
    sok1x::Word read;
    if (!sok1x::ReadBriefRun(brief, r, &read)) return -1;
    const std::string plain = sok1x::PlainRun(read);
    tell(r, plain.data(), plain.size());
  }
  if (met == sok1x::Meeting::kPython) TellAll(meeting, tell);
  return met;
}

void sok1x_meeting_take(void* meeting, Tell tell) { TellAll(meeting, tell); }

void sok1x_meeting_agree(void* meeting, const int64_t* contexts, const uint64_t* signatures) {
  MeetingOf(meeting)->Agree(contexts, signatures);
}

void sok1x_meeting_disagree(void* meeting) { MeetingOf(meeting)->Forget(); }

void sok1x_meeting_give_up(void* meeting, int rank, int64_t step) { MeetingOf(meeting)->GiveUp(rank, step); }

// The bytes of the op's name, below 0 where the decision is not known; steps: [N].
int64_t sok1x_meeting_undo(void* meeting, int64_t number, int64_t* steps, char* name, int64_t capacity) {
  std::string found;
  std::vector<int64_t> of_ranks;
  if (!MeetingOf(meeting)->Undo(number, &found, &of_ranks)) return -1;
  std::copy(of_ranks.begin(), of_ranks.end(), steps);
  found.resize(std::min<int64_t>(capacity, found.size()));
  std::copy(found.begin(), found.end(), name);
  return found.size();
}

}  // extern "C"
