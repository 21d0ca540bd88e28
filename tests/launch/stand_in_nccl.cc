// A stand-in for libnccl.so.2 on machines without GPUs: the functions that nccl_library.py binds, on host memory,
// between processes of one host, over Unix sockets, in streams that are as asynchronous as CUDA's. Like NCCL it never
// gives up: an exchange whose peer is missing holds its stream until ncclCommAbort. Messages carry their kind and size,
// so that ranks that do not match are found out.
//
// Trouble is made by environment variables, read when a function is called:
//   STAND_IN_NCCL_FAIL=ncclX   that function fails
//   STAND_IN_NCCL_HANG=ncclX   that function does not return
//   STAND_IN_NCCL_ASYNC=1      the next exchange ends in an asynchronous error
//   STAND_IN_NCCL_DEAF=1       the next exchange never begins
//   STAND_IN_NCCL_DEAD=1       the next exchange closes this rank's connections, as the death of its process would
//   STAND_IN_NCCL_VERSION      what ncclGetVersion says
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "stand_in_exchange.h"
#include "stand_in_stream.h"

namespace {

const char* const kWords[] = {
    "no error",         "unhandled cuda error", "unhandled system error", "internal error",
    "invalid argument", "invalid usage",        "remote process exited or there was a network error"};

thread_local std::string last_error;
thread_local int group_depth = 0, group_error = kSuccess;
thread_local std::vector<Operation> group;
thread_local Comm* group_comm = nullptr;
thread_local Stream* group_stream = nullptr;

bool Told(const char* variable, const char* value) {
  const char* text = getenv(variable);
  return text != nullptr && strcmp(text, value) == 0;
}

int Begin(const char* function) {
  last_error.clear();
  while (Told("STAND_IN_NCCL_HANG", function)) usleep(1000);
  if (!Told("STAND_IN_NCCL_FAIL", function)) return kSuccess;
  last_error = std::string("the stand-in was told to fail ") + function;
  return kSystemError;
}

int Launch() {
  Comm* comm = group_comm;
  std::vector<Operation> operations;
  operations.swap(group);
  if (operations.empty()) return kSuccess;
  const bool broken = Told("STAND_IN_NCCL_ASYNC", "1"), deaf = Told("STAND_IN_NCCL_DEAF", "1");
  const bool dead = Told("STAND_IN_NCCL_DEAD", "1");
  ++comm->running;
  group_stream->Enqueue([=] {
    if (broken) comm->error = kRemoteError;
    for (int socket : comm->sockets) if (dead && socket >= 0) shutdown(socket, SHUT_RDWR);
    if (broken || deaf || dead) Spin(comm);
    else Run(comm, operations);
    --comm->running;
  });
  return kSuccess;
}

int Add(const char* function, Operation op, Comm* comm, Stream* stream) {
  int code = Begin(function);
  if (code && group_depth) group_error = code;
  if (code) return code;
  group_comm = comm;
  group_stream = stream;
  group.push_back(op);
  return group_depth ? kSuccess : Launch();
}

sockaddr_un Address(const char* id, int rank, socklen_t* length) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;  // a name that begins with 0 is in no file system
  int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s-%d", id, rank);
  *length = offsetof(sockaddr_un, sun_path) + 1 + n;
  return address;
}

}  // namespace

extern "C" {

struct ncclUniqueId { char internal[128]; };

int ncclGetVersion(int* version) {
  const char* text = getenv("STAND_IN_NCCL_VERSION");
  *version = text ? atoi(text) : 22005;
  return kSuccess;
}
const char* ncclGetErrorString(int code) { return code < 7 ? kWords[code] : "unknown result code"; }
const char* ncclGetLastError(Comm*) { return last_error.c_str(); }

int ncclGetUniqueId(ncclUniqueId* id) {
  int code = Begin("ncclGetUniqueId");
  if (code) return code;
  memset(id, 0xA5, sizeof *id);  // all 128 bytes must come through
  snprintf(id->internal, 64, "stand-in-nccl-%d-%p", getpid(), static_cast<void*>(id));
  return kSuccess;
}

int ncclCommInitRank(Comm** out, int size, ncclUniqueId id, int rank) {
  int code = Begin("ncclCommInitRank");
  if (code) return code;
  for (size_t i = 64; i < sizeof id; ++i) if (id.internal[i] != char(0xA5)) return kInvalidUsage;
  Comm* comm = new Comm;
  comm->rank = rank;
  comm->size = size;
  comm->sockets.assign(size, -1);
  socklen_t length;
  sockaddr_un address = Address(id.internal, rank, &length);
  int door = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(door, reinterpret_cast<sockaddr*>(&address), length) || listen(door, size)) return kSystemError;
  for (int peer = 0; peer < rank; ++peer) {
    address = Address(id.internal, peer, &length);
    int fd = comm->sockets[peer] = socket(AF_UNIX, SOCK_STREAM, 0);
    while (connect(fd, reinterpret_cast<sockaddr*>(&address), length)) usleep(1000);
    if (send(fd, &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank) return kSystemError;
  }
  for (int others = rank + 1; others < size; ++others) {
    int peer, fd = accept(door, nullptr, nullptr);
    if (recv(fd, &peer, sizeof peer, MSG_WAITALL) != sizeof peer) return kSystemError;
    comm->sockets[peer] = fd;
  }
  close(door);
  *out = comm;
  return kSuccess;
}

int ncclCommGetAsyncError(Comm* comm, int* error) {
  *error = comm->error;
  return Begin("ncclCommGetAsyncError");
}
// Connections stay: the peers of a rank that aborts notice nothing.
int ncclCommAbort(Comm* comm) {
  int code = Begin("ncclCommAbort");
  comm->aborted = true;
  return code;
}
int ncclCommDestroy(Comm* comm) {
  int code = Begin("ncclCommDestroy");
  if (code) return code;
  while (comm->running) usleep(1000);
  for (int socket : comm->sockets) if (socket >= 0) close(socket);
  delete comm;
  return kSuccess;
}

int ncclGroupStart() {
  int code = Begin("ncclGroupStart");
  if (!code) ++group_depth;
  return code;
}
int ncclGroupEnd() {
  if (--group_depth) return kSuccess;
  int code = Begin("ncclGroupEnd");
  if (!code) code = group_error;  // of a call inside; the group comes to nothing
  if (!code && group.empty()) code = kInvalidUsage;  // NCCL 2.28 takes it, and keeps 176 bytes each time
  group_error = kSuccess;
  if (code) group.clear();
  return code ? code : Launch();
}

typedef const char* In;
int ncclSend(In data, size_t n, int type, int peer, Comm* comm, Stream* stream) {
  return Add("ncclSend", {Operation::kSend, data, nullptr, n, type, peer}, comm, stream);
}
int ncclRecv(char* data, size_t n, int type, int peer, Comm* comm, Stream* stream) {
  return Add("ncclRecv", {Operation::kRecv, nullptr, data, n, type, peer}, comm, stream);
}
int ncclReduceScatter(In send, char* recv, size_t n, int type, int, Comm* comm, Stream* stream) {
  return Add("ncclReduceScatter", {Operation::kReduceScatter, send, recv, n, type, 0}, comm, stream);
}
int ncclReduce(In send, char* recv, size_t n, int type, int, int root, Comm* comm, Stream* stream) {
  return Add("ncclReduce", {Operation::kReduce, send, recv, n, type, root}, comm, stream);
}
int ncclAllGather(In send, char* recv, size_t n, int type, Comm* comm, Stream* stream) {
  return Add("ncclAllGather", {Operation::kAllGather, send, recv, n, type, 0}, comm, stream);
}
int ncclBroadcast(In send, char* recv, size_t n, int type, int root, Comm* comm, Stream* stream) {
  return Add("ncclBroadcast", {Operation::kBroadcast, send, recv, n, type, root}, comm, stream);
}
int ncclAllReduce(In send, char* recv, size_t n, int type, int op, Comm* comm, Stream* stream) {
  if (op != kSum && op != kAverage) return kInvalidUsage;
  const auto kind = op == kSum ? Operation::kAllReduce : Operation::kAllReduceAverage;
  return Add("ncclAllReduce", {kind, send, recv, n, type, 0}, comm, stream);
}

Stream* stand_in_stream() { return new Stream; }
int64_t stand_in_record(Stream* stream) { return stream->Enqueued(); }
int stand_in_reached(Stream* stream, int64_t mark) { return stream->Reached(mark); }
void stand_in_wait(Stream* stream, int64_t mark) { stream->Wait(mark); }
void stand_in_copy(Stream* stream, char* to, const char* from, size_t n) {
  stream->Enqueue([=] { memmove(to, from, n); });
}
void stand_in_sleep(Stream* stream, int milliseconds) {
  stream->Enqueue([=] { usleep(milliseconds * 1000); });
}

}  // extern "C"
