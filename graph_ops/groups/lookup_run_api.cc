// lookup_run.h as Python sees it: C functions, called through ctypes by lookup_run.py.
#include <cstring>

#include "lookup_run.h"

namespace {

// A run and its group, which it ends with.
struct Opened {
  sok1x::Group* group;
  sok1x::LookupRun run;
  int64_t* expected;

  Opened(sok1x::Group* made, const sok1x::LookupFacts* facts, const GroupSteps* steps, GroupDevice* device,
         int64_t* scratch)
      : group(made), run(made, facts, steps, device), expected(scratch) {
    group->Expect(*expected);
  }

  ~Opened() {
    *expected = group->pieces_bytes();
    group->Close();
  }
};

sok1x::LookupRun* RunOf(void* opened) { return &static_cast<Opened*>(opened)->run; }

}  // namespace

extern "C" {

int64_t sok1x_lookup_facts_bytes() { return sizeof(sok1x::LookupFacts); }
int64_t sok1x_lookup_new_bytes() { return sizeof(sok1x::NewRows); }
int64_t sok1x_lookup_steps_bytes() { return sizeof(GroupSteps); }

// expected: bytes of scratch memory that the last run of the same kernels took, written anew when the run is closed.
// On a GPU the members' streams are those given.
void* sok1x_lookup_open(void* const* requests, int count, void* own_stream, void* event,
                       const sok1x::LookupFacts* facts, const void* steps, void* device, int64_t* expected) {
  auto* group = new sok1x::Group(requests, count);
  for (sok1x::Request* request : group->members()) {
    request->own_stream = own_stream;
    request->event = event;
  }
  return new Opened(group, facts, static_cast<const GroupSteps*>(steps), static_cast<GroupDevice*>(device), expected);
}

void sok1x_lookup_close(void* opened) { delete static_cast<Opened*>(opened); }

// Python may have exchanged something on the stream.
void sok1x_lookup_unlock(void* opened) {
  static_cast<Opened*>(opened)->group->Enqueues();
  static_cast<Opened*>(opened)->group->Unlock();
}

void sok1x_lookup_finish(void* opened) {
  static_cast<Opened*>(opened)->group->Enqueues();
  static_cast<Opened*>(opened)->group->Finish();
}

// The text of what has failed, and the member that it is about.
int sok1x_lookup_error(void* opened, char* text, int capacity) {
  std::strncpy(text, RunOf(opened)->error().c_str(), capacity - 1);
  text[capacity - 1] = 0;
  return RunOf(opened)->failed();
}

// Bytes of scratch memory that a run has taken until now, and of an output that a member has, 0 for none.
int64_t sok1x_lookup_scratch_bytes(void* opened) { return static_cast<Opened*>(opened)->group->pieces_bytes(); }

int64_t sok1x_lookup_output_bytes(void* opened, int member, int index) {
  sok1x::Request* request = static_cast<Opened*>(opened)->group->members()[member];
  const auto* output = request->Output(index);
  return output == nullptr ? 0 : output->TotalBytes();
}

// lookup_run.h says what each of these does.
int sok1x_lookup_forward_alone(void* opened, int training, uint8_t* left, int64_t* fresh) {
  return RunOf(opened)->ForwardAlone(training != 0, left, fresh);
}

int sok1x_lookup_forward_insert(void* opened, const sok1x::NewRows* rows, const uint8_t* left) {
  return RunOf(opened)->ForwardInsert(rows, left);
}

int sok1x_lookup_backward_alone(void* opened, uint8_t* left) { return RunOf(opened)->BackwardAlone(left); }

int sok1x_lookup_weights_gradient(void* opened, uint8_t* left) { return RunOf(opened)->WeightsGradient(left); }

int sok1x_lookup_distinct(void* opened, int alone, const int64_t* ahead, int64_t* at_least, int64_t* rows,
                         int64_t* counts, uint8_t* left) {
  return RunOf(opened)->Distinct(alone != 0, ahead, at_least, rows, counts, left);
}

int sok1x_lookup_prepare(void* opened, int ranks, int training, int width, int64_t* headers, int64_t* begins,
                         int64_t* sent, uint8_t* left) {
  return RunOf(opened)->Prepare(ranks, training != 0, false, width, headers, begins, sent, left);
}

int sok1x_lookup_forward_ask(void* opened, int rank, int ranks, const int64_t* given, const int64_t* taken,
                             const int64_t* numbers, const int64_t* sent, const int64_t* begins, int whole,
                             int64_t* pointers, int64_t* gives, int64_t* takes) {
  return RunOf(opened)->ForwardAsk(rank, ranks, given, taken, numbers, sent, begins, whole != 0, pointers, gives,
                                   takes);
}

int sok1x_lookup_forward_answer(void* opened, int training, int64_t* missing, int64_t* fresh, int64_t* pointers,
                               int64_t* gives, int64_t* takes) {
  return RunOf(opened)->ForwardAnswer(training != 0, missing, fresh, pointers, gives, takes);
}

int sok1x_lookup_forward_take(void* opened, const uint8_t* left) { return RunOf(opened)->ForwardTake(left); }

int sok1x_lookup_backward_headers(void* opened, int width, int64_t* headers, uint8_t* fits) {
  return RunOf(opened)->BackwardHeaders(width, headers, fits);
}

int sok1x_lookup_backward_send(void* opened, int rank, int ranks, int width, const int64_t* headers, int counted,
                               uint8_t* left, int64_t* pointers, int64_t* gives, int64_t* takes) {
  return RunOf(opened)->BackwardSend(rank, ranks, width, headers, counted != 0, left, pointers, gives, takes);
}

int sok1x_lookup_pairs_count(void* opened, int ranks, const int64_t* keys_at, int64_t* told) {
  return RunOf(opened)->PairsCount(ranks, keys_at, told);
}

int sok1x_lookup_pairs_ask(void* opened, int rank, const int64_t* told, const int64_t* heard, const int64_t* numbers,
                           int64_t* pointers, int64_t* gives, int64_t* takes) {
  return RunOf(opened)->PairsAsk(rank, told, heard, numbers, pointers, gives, takes);
}

int sok1x_lookup_pairs_answer(void* opened, int training, int64_t* missing, int64_t* fresh, int64_t* pointers,
                              int64_t* gives, int64_t* takes) {
  return RunOf(opened)->PairsAnswer(training != 0, missing, fresh, pointers, gives, takes);
}

int sok1x_lookup_sums_take(void* opened, const uint8_t* left) { return RunOf(opened)->SumsTake(left); }

int sok1x_lookup_gradients_send(void* opened, int rank, int ranks, int width, int saved, const int64_t* headers,
                                uint8_t* left, int64_t* pointers, int64_t* takes) {
  return RunOf(opened)->GradientsSend(rank, ranks, width, saved, headers, left, pointers, takes);
}

int sok1x_lookup_gradients_take(void* opened) { return RunOf(opened)->GradientsTake(); }

int sok1x_lookup_near_ask(void* opened, int ranks, const int64_t* given, const int64_t* taken, const int64_t* sent,
                          const int64_t* begins, int whole, int64_t* pointers, int64_t* gives, int64_t* takes) {
  return RunOf(opened)->NearAsk(ranks, given, taken, sent, begins, whole != 0, pointers, gives, takes);
}

int sok1x_lookup_near_relay(void* opened, int64_t* counts, int64_t* begins, int64_t* sent) {
  return RunOf(opened)->NearRelay(counts, begins, sent);
}

int sok1x_lookup_near_answer(void* opened, int64_t* pointers, int64_t* gives, int64_t* takes) {
  return RunOf(opened)->NearAnswer(pointers, gives, takes);
}

int sok1x_lookup_near_sum(void* opened, int64_t* pointers, int64_t* gives, int64_t* takes) {
  return RunOf(opened)->NearSum(pointers, gives, takes);
}

int sok1x_lookup_backward_take(void* opened) { return RunOf(opened)->BackwardTake(); }

}  // extern "C"
