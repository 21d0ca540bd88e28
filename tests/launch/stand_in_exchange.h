// What the stand-in for NCCL does when an exchange's turn has come in its stream: messages over sockets, and sums.
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <vector>

// As nccl.h numbers them.
enum { kSuccess = 0, kSystemError = 2, kInvalidUsage = 5, kRemoteError = 6 };
enum { kSum = 0, kAverage = 4 };
const size_t kTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8};

struct Comm {
  int rank, size;
  std::vector<int> sockets;
  std::atomic<int> error{kSuccess};
  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};
};

struct Head {  // goes before every message
  uint64_t kind, bytes;
};

struct Part {  // of a message under way
  char* at;
  size_t left;
  bool head;
};

struct Way {  // all that goes to, or comes from, one peer
  std::deque<Part> parts;
  std::deque<Head> heads;  // sent; or as expected
  std::deque<Head> read;
};

struct Operation {
  enum Kind { kSend, kRecv, kReduceScatter, kReduce, kAllGather, kBroadcast, kAllReduce, kAllReduceAverage } kind;
  const char* send;
  char* recv;
  size_t count;
  int type, peer;
};

// What a kernel does whose peer is gone.
inline void Spin(Comm* comm) {
  while (!comm->aborted) usleep(1000);
}

// Sends and receives at once, to and from all peers. False where it came to nothing.
class Round {
 public:
  explicit Round(Comm* comm, uint64_t kind) : comm_(comm), kind_(kind), out_(comm->size), in_(comm->size) {}
  void Send(int peer, const char* data, size_t bytes) { Add(&out_[peer], const_cast<char*>(data), bytes); }
  void Recv(int peer, char* data, size_t bytes) { Add(&in_[peer], data, bytes); }

  bool Run() {
    Way &to = out_[comm_->rank], &from = in_[comm_->rank];
    if (to.parts.size() != from.parts.size()) return Fail(kInvalidUsage);
    for (size_t i = 1; i < to.parts.size(); i += 2) {
      if (to.parts[i].left != from.parts[i].left) return Fail(kInvalidUsage);
      memcpy(from.parts[i].at, to.parts[i].at, to.parts[i].left);
    }
    to.parts.clear();
    from.parts.clear();
    for (;;) {
      std::vector<pollfd> waits;
      std::vector<int> peers;
      for (int peer = 0; peer < comm_->size; ++peer) {
        short events = (out_[peer].parts.empty() ? 0 : POLLOUT) | (in_[peer].parts.empty() ? 0 : POLLIN);
        if (!events) continue;
        waits.push_back({comm_->sockets[peer], events, 0});
        peers.push_back(peer);
      }
      if (waits.empty()) return true;
      if (comm_->aborted) return false;
      poll(waits.data(), waits.size(), 5);
      for (size_t i = 0; i < waits.size(); ++i) {
        if ((waits[i].revents & POLLOUT) && !Move(&out_[peers[i]], waits[i].fd, true)) return false;
        const bool readable = waits[i].revents & (POLLIN | POLLHUP | POLLERR);
        if (readable && !Move(&in_[peers[i]], waits[i].fd, false)) return false;
      }
    }
  }

 private:
  void Add(Way* way, char* data, size_t bytes) {
    way->heads.push_back({kind_, bytes});
    way->read.push_back({0, 0});
    bool out = way >= out_.data() && way < out_.data() + out_.size();
    Head& head = out ? way->heads.back() : way->read.back();
    way->parts.push_back({reinterpret_cast<char*>(&head), sizeof(Head), true});
    way->parts.push_back({data, bytes, false});
  }
  bool Move(Way* way, int socket, bool out) {
    while (!way->parts.empty()) {
      Part& part = way->parts.front();
      if (part.left) {
        ssize_t n = out ? send(socket, part.at, part.left, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recv(socket, part.at, part.left, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (n <= 0) return Fail(kRemoteError);
        part.at += n;
        part.left -= n;
        if (part.left) continue;
      }
      if (part.head && !out) {
        if (memcmp(&way->heads.front(), &way->read.front(), sizeof(Head)) != 0) return Fail(kInvalidUsage);
        way->heads.pop_front();
        way->read.pop_front();
      }
      way->parts.pop_front();
    }
    return true;
  }
  bool Fail(int error) {
    comm_->error = error;
    Spin(comm_);
    return false;
  }
  Comm* comm_;
  uint64_t kind_;
  std::vector<Way> out_, in_;
};

inline float Widen(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000) << 16, magnitude = half & 0x7fff, bits;
  if (magnitude >= 0x7c00) {
    bits = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
  } else if (magnitude >= 0x400) {
    bits = sign | ((magnitude << 13) + (112u << 23));
  } else {
    float value = magnitude * (1.0f / (1 << 24));
    memcpy(&bits, &value, 4);
    bits |= sign;
  }
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

inline uint16_t Narrow(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {  // below the smallest normal half: in units of 2^-24, rounded by the adding of floats
    float small;
    memcpy(&small, &magnitude, 4);
    small += 0.5f;
    memcpy(&bits, &small, 4);
    return sign | (bits - 0x3f000000);
  }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return sign | ((magnitude - (112u << 23)) >> 13);
}

template <typename T>
void AddTo(char* total, const char* part, size_t n) {
  for (size_t i = 0; i < n; ++i) reinterpret_cast<T*>(total)[i] += reinterpret_cast<const T*>(part)[i];
}

inline void Sum(char* total, const std::vector<std::vector<char>>& parts, size_t n, int type) {
  size_t bytes = n * kTypeBytes[type];
  std::vector<char> sum(parts[0]);
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    const char* part = parts[rank].data();
    if (type == 2) AddTo<int32_t>(sum.data(), part, n);
    if (type == 4) AddTo<int64_t>(sum.data(), part, n);
    if (type == 7) AddTo<float>(sum.data(), part, n);
    if (type == 8) AddTo<double>(sum.data(), part, n);
    for (size_t i = 0; type == 6 && i < n; ++i) {
      uint16_t a, b;
      memcpy(&a, &sum[2 * i], 2);
      memcpy(&b, part + 2 * i, 2);
      a = Narrow(Widen(a) + Widen(b));
      memcpy(&sum[2 * i], &a, 2);
    }
  }
  memcpy(total, sum.data(), bytes);
}

// As NCCL does it: by the number that is nearest to 1 / n.
template <typename T>
void Scale(char* values, size_t count, int n) {
  for (size_t i = 0; i < count; ++i) reinterpret_cast<T*>(values)[i] *= T(1) / n;
}

inline bool RunOne(Comm* comm, const Operation& op) {
  const int n = comm->size, me = comm->rank;
  const size_t bytes = op.count * kTypeBytes[op.type];
  const bool to_root = op.kind == Operation::kReduce, scatter = op.kind == Operation::kReduceScatter;
  Round round(comm, op.kind);
  if (op.kind == Operation::kBroadcast) {
    for (int peer = 0; peer < n && me == op.peer; ++peer) if (peer != me) round.Send(peer, op.send, bytes);
    if (me != op.peer) round.Recv(op.peer, op.recv, bytes);
    else if (op.recv != op.send) memmove(op.recv, op.send, bytes);
    return round.Run();
  }
  if (op.kind == Operation::kAllGather) {
    for (int peer = 0; peer < n; ++peer) {
      round.Send(peer, op.send, bytes);
      round.Recv(peer, op.recv + peer * bytes, bytes);
    }
    return round.Run();
  }
  const bool sums = !to_root || me == op.peer;
  std::vector<std::vector<char>> parts(n, std::vector<char>(sums ? bytes : 0));
  for (int peer = 0; peer < n; ++peer) {
    if (!to_root || peer == op.peer) round.Send(peer, op.send + (scatter ? peer * bytes : 0), bytes);
    if (sums) round.Recv(peer, parts[peer].data(), bytes);
  }
  if (!round.Run()) return false;
  if (sums) Sum(op.recv, parts, op.count, op.type);
  if (op.kind == Operation::kAllReduceAverage && op.type == 7) Scale<float>(op.recv, op.count, n);
  if (op.kind == Operation::kAllReduceAverage && op.type == 8) Scale<double>(op.recv, op.count, n);
  return true;
}

inline void Run(Comm* comm, const std::vector<Operation>& operations) {
  if (comm->aborted) return;
  Round together(comm, Operation::kSend);
  for (const Operation& op : operations) {
    if (op.kind == Operation::kSend) together.Send(op.peer, op.send, op.count * kTypeBytes[op.type]);
    if (op.kind == Operation::kRecv) together.Recv(op.peer, op.recv, op.count * kTypeBytes[op.type]);
  }
  if (!together.Run()) return;
  for (const Operation& op : operations) {
    if (op.kind != Operation::kSend && op.kind != Operation::kRecv && !RunOne(comm, op)) return;
  }
}
