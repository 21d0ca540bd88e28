// lane.h as Python sees it: C functions, called through ctypes by bridge.py and lane.py.
#include "../bridge/known_distinct.h"
#include "lane.h"

extern "C" {

int64_t sok1x_lane_op_bytes() { return sizeof(sok1x::LaneOp); }

void sok1x_lane_begin(const void* steps) { sok1x::Lane::Get()->Begin(static_cast<const GroupSteps*>(steps)); }

// step, session, signature, frame, iteration: of the request by which the kernel is learned.
void sok1x_lane_learn(const sok1x::LaneOp* op, int64_t alike, int64_t kernel, int64_t step, uint64_t session,
                      uint64_t signature, uint64_t frame, int64_t iteration) {
  sok1x::RequestInfo request = sok1x::RequestInfo();
  request.kernel = kernel;
  request.step = step;
  request.session = session;
  request.signature = signature;
  request.frame = frame;
  request.iteration = iteration;
  sok1x::Lane::Get()->Learn(request, op, alike);
}

void sok1x_lane_forget(int64_t kernel) { sok1x::Lane::Get()->Forget(kernel); }

void sok1x_lane_allow(int allowed) { sok1x::Lane::Get()->Allow(allowed != 0); }

void sok1x_lane_watch(sok1x::Lane::Watcher watcher) { sok1x::Lane::Get()->Watch(watcher); }

// See Lane::Take.
int sok1x_take(int64_t spin_us, int64_t wait_us, const sok1x::Inbox* inbox, int64_t pause_us, int64_t lane_us,
               sok1x::RequestInfo* infos, int capacity, int32_t* count) {
  return sok1x::Lane::Get()->Take(spin_us, wait_us, inbox, pause_us, lane_us, infos, capacity, count);
}

// lane_ranks.h. Python's structures are as large as these: ways, standing, event, direct.
void sok1x_ranks_bytes(int64_t* sizes) {
  sizes[0] = sizeof(sok1x::Ways);
  sizes[1] = sizeof(sok1x::Standing);
  sizes[2] = sizeof(sok1x::EventInfo);
  sizes[3] = sizeof(sok1x::Direct);
}

// host, gpu: null where the communicator is Python's alone.
void sok1x_ranks_begin(const sok1x::Ways* ways, sok1x::Direct* host, sok1x::Standing* standing, int parent,
                       const int64_t* hops) {
  sok1x::Lane::Get()->ranks()->Begin(ways, host, standing, parent, hops);
}

void sok1x_ranks_gpu(sok1x::Direct* gpu) { sok1x::Lane::Get()->ranks()->SetGpu(gpu); }

void sok1x_ranks_hear(int source, const char* data, int64_t bytes) {
  sok1x::Lane::Get()->ranks()->Hear(source, std::string(data, bytes));
}

int sok1x_ranks_stop() { return sok1x::Lane::Get()->ranks()->Stop(); }

int sok1x_ranks_event(sok1x::EventInfo* event) { return sok1x::Lane::Get()->ranks()->Next(event); }

// Has `tell` called for each message that one is without briefness, with the rank that has said it.
void sok1x_ranks_plain(int source, const char* data, int64_t bytes,
                       void (*tell)(int rank, const char* data, int64_t bytes)) {
  for (const auto& one : sok1x::Lane::Get()->ranks()->Plain(source, std::string(data, bytes))) {
    tell(one.first, one.second.data(), one.second.size());
  }
}

// Has all that is held become events.
void sok1x_ranks_hand_over() { sok1x::Lane::Get()->ranks()->HandOver(); }

// On rank 0: what the functions of meeting_api.cc are to be called with.
void* sok1x_ranks_meeting() { return sok1x::Lane::Get()->ranks()->meeting(); }

// known_distinct.h.
void sok1x_note_distinct(int64_t table, int64_t step, int64_t address, int64_t length) {
  sok1x::KnownDistinct::Get()->Note(table, step, address, length);
}

int sok1x_noted_distinct(int64_t table, int64_t step, int64_t address, int64_t length) {
  return sok1x::KnownDistinct::Get()->Noted(table, step, address, length);
}

}  // extern "C"
