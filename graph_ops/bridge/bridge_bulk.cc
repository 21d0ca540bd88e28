// The bridge's calls for many requests at once, called through ctypes by bulk.py.
#include "bridge_calls.h"
#include "bridge_group.h"
#include "bridge_queue.h"

namespace {

sok1x::Group* GroupOf(void* group) { return static_cast<sok1x::Group*>(group); }

}  // namespace

extern "C" {

// For the tests, which compare it with launch's.
int sok1x_inbox_bytes() { return sizeof(sok1x::Inbox); }

// bridge_group.h says what each of these does. Python enqueues what it likes between two of them.
void* sok1x_group_open(void* const* requests, int count) { return new sok1x::Group(requests, count); }

void sok1x_group_close(void* group) { GroupOf(group)->Close(); }

void sok1x_group_begin(void* group, void* own_stream, void* event) {
  GroupOf(group)->Begin(own_stream, event);
  GroupOf(group)->Ready();
}

void sok1x_group_inputs(void* group, sok1x::TensorInfo* infos, int width) { GroupOf(group)->Inputs(infos, width); }

int sok1x_group_lock(void* group, int exclusive, sok1x::TensorInfo* infos, int width, int32_t* codes) {
  const int code = GroupOf(group)->Lock(exclusive != 0, infos, width, codes);
  GroupOf(group)->Ready();
  return code;
}

void sok1x_group_unlock(void* group) {
  GroupOf(group)->Enqueues();
  GroupOf(group)->Unlock();
}

void sok1x_group_outputs(void* group, int count, const int32_t* members, const int32_t* indices, const int32_t* ranks,
                         const int64_t* dims, void** data, int32_t* codes) {
  GroupOf(group)->Enqueues();
  GroupOf(group)->Outputs(count, members, indices, ranks, dims, data, codes);
}

int sok1x_group_temporary(void* group, int64_t bytes, void** data) {
  const int code = GroupOf(group)->Temporary(bytes, data);
  GroupOf(group)->Ready();
  return code;
}

void sok1x_group_finish(void* group) {
  GroupOf(group)->Enqueues();
  GroupOf(group)->Finish();
}

}  // extern "C"
