// See exchanges.h.
#include "exchanges.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "../bridge/bridge_clock.h"
#include "../bridge/bridge_cuda.h"

namespace sok1x {

namespace {

constexpr int kByPython = -1;
constexpr int kNcclUint8 = 1, kNcclFloat32 = 7, kNcclFloat64 = 8;
constexpr int kNcclSum = 0, kNcclAverage = 4;
constexpr int64_t kMostBytes = std::numeric_limits<int>::max();

void Begins(Direct* direct, const char* op, Doing doing = kDoingAllToAll) {
  std::strncpy(direct->op, op, sizeof(direct->op) - 1);
  direct->doing = doing;
  direct->since = MonotonicNanoseconds();
  direct->exchanges += 1;
}

}  // namespace

int Exchanges::AllToAll(bool gpu, const char* op, int64_t give, const int64_t* gives, int64_t take,
                        const int64_t* takes, int64_t unit, Among among, bool own_there, const Fork* fork) {
  int code = gpu ? ByNccl(op, give, gives, take, takes, unit, own_there, fork)
                 : ByMpi(op, give, gives, take, takes, unit, among, own_there);
  if (code != kByPython) return code;
  code = own_there ? PutOwn(gpu, give, gives, take, takes, unit) : 0;
  return code == 0 ? ways_->all_to_all(gpu, op, give, gives, take, takes, unit, among) : code;
}

int Exchanges::PutOwn(bool gpu, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes, int64_t unit) {
  const Direct* const direct = gpu ? gpu_ : host_;
  for (int r = 0; r < direct->rank; ++r) {
    give += gives[r] * unit;
    take += takes[r] * unit;
  }
  void* const to = reinterpret_cast<void*>(give);
  const void* const from = reinterpret_cast<const void*>(take);
  const size_t bytes = gives[direct->rank] * unit;
  if (gpu) return Cuda::Get()->Copy(to, from, bytes, reinterpret_cast<void*>(direct->stream));
  std::memcpy(to, from, bytes);
  return 0;
}

int Exchanges::ByMpi(const char* op, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes,
                     int64_t unit, Among among, bool own_there) {
  if (!allowed_ || host_ == nullptr) return kByPython;
  Direct& direct = *host_;
  // The ranks `first`, `first + step`, ...
  int ranks = direct.ranks, first = 0, step = 1;
  int64_t comm = direct.comm;
  if (among == kInside) {
    ranks = direct.local;
    first = direct.rank / ranks * ranks;
    comm = direct.inside_comm;
  } else if (among == kAcross) {
    step = direct.local;
    first = direct.rank % step;
    ranks /= step;
    comm = direct.across_comm;
  }
  std::vector<int> counts(4 * ranks);
  int64_t given = 0, taken = 0, most = 0;
  for (int i = 0; i < ranks; ++i) {
    const int r = first + i * step;
    most = std::max(most, std::max(gives[r], takes[r]));
    const bool travels = r != direct.rank || !own_there;
    counts[i] = travels ? gives[r] * unit : 0;
    counts[ranks + i] = given;
    counts[2 * ranks + i] = travels ? takes[r] * unit : 0;
    counts[3 * ranks + i] = taken;
    given += gives[r] * unit;
    taken += takes[r] * unit;
    if (given > kMostBytes || taken > kMostBytes) return kByPython;
  }
  if (most > direct.limit / ranks) return kByPython;  // launch/mpi_communicator.py: pieces
  Begins(host_, op);
  direct.bytes_sent += given - gives[direct.rank] * unit;
  // Bytes, where Python's side of the same exchange may have rows: to MPI that is one.
  const int error = direct.alltoallv(reinterpret_cast<void*>(give), counts.data(), counts.data() + ranks, direct.byte,
                                     reinterpret_cast<void*>(take), counts.data() + 2 * ranks,
                                     counts.data() + 3 * ranks, direct.byte, comm);
  direct.since = 0;
  return error == 0 ? 0 : 1;
}

int Exchanges::ByNccl(const char* op, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes,
                      int64_t unit, bool own_there, const Fork* fork) {
  if (gpu_ == nullptr) return kByPython;
  Direct& direct = *gpu_;
  direct.inside = 1;
  const int64_t comm = direct.comm;
  int error = comm == 0 ? kByPython : 0;  // it has been given up: Python says why
  const auto travels = [&](int r) { return r != direct.rank || !own_there; };
  // NCCL (2.28) keeps 176 bytes of each group with nothing in it.
  bool something = false;
  for (int r = 0; r < direct.ranks; ++r) something = something || (travels(r) && (gives[r] > 0 || takes[r] > 0));
  if (error == 0 && something) {
    Begins(gpu_, op);  // until Python has left a mark in the stream: `ended`
    const int64_t stream = fork == nullptr ? direct.stream : reinterpret_cast<int64_t>(fork->second());
    const int begun = fork == nullptr ? 0 : fork->Begin();
    error = direct.group_start();
    error = begun != 0 ? begun : error;
    for (int r = 0; r < direct.ranks && error == 0; ++r) {
      if (gives[r] > 0 && travels(r)) error = direct.send(give, gives[r] * unit, kNcclUint8, r, comm, stream);
      if (takes[r] > 0 && travels(r) && error == 0) {
        error = direct.recv(take, takes[r] * unit, kNcclUint8, r, comm, stream);
      }
      if (r != direct.rank) direct.bytes_sent += gives[r] * unit;
      give += gives[r] * unit;
      take += takes[r] * unit;
    }
    const int last = direct.group_end(), joined = fork == nullptr ? 0 : fork->Join();
    error = error != 0 ? error : last != 0 ? last : joined;
  }
  direct.inside = 0;
  return error == kByPython || error == 0 ? error : 1;
}

int Exchanges::AllGather(bool gpu, const char* op, int64_t give, int64_t take, const int64_t* takes, int64_t unit) {
  const int code = gpu ? GatherByNccl(op, give, take, takes, unit) : GatherByMpi(op, give, take, takes, unit);
  return code == kByPython ? ways_->all_gather(gpu, op, give, take, takes, unit) : code;
}

// As launch/mpi_communicator.py does it: the same calls of MPI's.
int Exchanges::GatherByMpi(const char* op, int64_t give, int64_t take, const int64_t* takes, int64_t unit) {
  if (!allowed_ || host_ == nullptr) return kByPython;
  Direct& direct = *host_;
  const int ranks = direct.ranks;
  std::vector<int> counts(2 * ranks);
  int64_t taken = 0;
  for (int r = 0; r < ranks; ++r) {
    if (takes[r] * unit > kMostBytes - taken) return kByPython;
    counts[r] = takes[r] * unit;
    counts[ranks + r] = taken;
    taken += takes[r] * unit;
  }
  if (taken / unit > direct.limit) return kByPython;
  Begins(host_, op, kDoingAllGather);
  direct.bytes_sent += (ranks - 1) * takes[direct.rank] * unit;
  const int error = direct.allgatherv(reinterpret_cast<void*>(give), counts[direct.rank], direct.byte,
                                      reinterpret_cast<void*>(take), counts.data(), counts.data() + ranks, direct.byte,
                                      direct.comm);
  direct.since = 0;
  return error == 0 ? 0 : 1;
}

// As launch/nccl_communicator.py does it.
int Exchanges::GatherByNccl(const char* op, int64_t give, int64_t take, const int64_t* takes, int64_t unit) {
  if (gpu_ == nullptr) return kByPython;
  Direct& direct = *gpu_;
  direct.inside = 1;
  const int64_t comm = direct.comm;
  int error = comm == 0 ? kByPython : 0;  // it has been given up: Python says why
  const int64_t most = *std::max_element(takes, takes + direct.ranks);
  if (error == 0 && most > 0) {
    Begins(gpu_, op, kDoingAllGather);  // until Python has left a mark in the stream: `ended`
    direct.bytes_sent += (direct.ranks - 1) * takes[direct.rank] * unit;
    if (*std::min_element(takes, takes + direct.ranks) == most) {
      error = direct.all_gather(give, take, most * unit, kNcclUint8, comm, direct.stream);
    } else {
      error = direct.group_start();
      for (int r = 0; r < direct.ranks && error == 0; take += takes[r++] * unit) {
        if (takes[r] == 0) continue;
        // Of another root what is given is not read.
        error = direct.broadcast(r == direct.rank ? give : take, take, takes[r] * unit, kNcclUint8, r, comm,
                                 direct.stream);
      }
      const int last = direct.group_end();
      error = error != 0 ? error : last;
    }
  }
  direct.inside = 0;
  return error == kByPython || error == 0 ? error : 1;
}

bool Exchanges::Sums(bool gpu, int64_t most, bool average) const {
  if (gpu) return gpu_ != nullptr && gpu_->comm != 0 && (gpu_->averages || !average);
  return allowed_ && host_ != nullptr && most <= host_->limit;
}

// As launch/mpi_communicator.py does it.
int Exchanges::SumByMpi(const char* op, void* numbers, int64_t count, bool doubles) {
  Direct& direct = *host_;
  Begins(host_, op, kDoingAllReduce);
  direct.bytes_sent += 2 * (direct.ranks - 1) * count * (doubles ? 8 : 4) / direct.ranks;
  const int error = direct.allreduce(direct.in_place, numbers, count, doubles ? direct.float64 : direct.float32,
                                     direct.sum, direct.comm);
  direct.since = 0;
  return error == 0 ? 0 : 1;
}

// As launch/nccl_communicator.py does it.
int Exchanges::SumByNccl(const char* op, const std::vector<Summed>& arrays, bool doubles, bool average) {
  Direct& direct = *gpu_;
  int64_t total = 0;
  for (const Summed& array : arrays) total += array.count;
  if (total == 0) return 0;
  direct.inside = 1;
  const int64_t comm = direct.comm;
  int error = comm == 0 ? kByPython : 0;  // it has been given up: Python says why
  if (error == 0) {
    Begins(gpu_, op, kDoingAllReduce);  // until Python has left a mark in the stream: `ended`
    direct.bytes_sent += 2 * (direct.ranks - 1) * total * (doubles ? 8 : 4) / direct.ranks;
    error = direct.group_start();
    for (const Summed& array : arrays) {
      if (array.count == 0 || error != 0) continue;
      error = direct.all_reduce(array.give, array.take, array.count, doubles ? kNcclFloat64 : kNcclFloat32,
                                average ? kNcclAverage : kNcclSum, comm, direct.stream);
    }
    const int last = direct.group_end();
    error = error != 0 ? error : last;
  }
  direct.inside = 0;
  return error == kByPython || error == 0 ? error : 1;
}

int Exchanges::AnyRank(const char* op, const uint8_t* flags, int64_t count) {
  asked_ = allowed_ && host_ != nullptr;
  if (!asked_) return ways_->any_rank(flags, count);
  flags_.assign(flags, flags + count);
  found_.assign(count, 0);
  Begins(host_, op);
  const int error = host_->iallreduce(flags_.data(), found_.data(), count, host_->uint8, host_->max, host_->comm,
                                      &request_);
  host_->since = 0;
  return error;
}

int Exchanges::AnyRankAnswer(const char* op, uint8_t* flags, int64_t count) {
  if (!asked_) return ways_->any_rank_answer(flags, count);
  Begins(host_, op);
  const int error = host_->wait(&request_, host_->status);
  host_->since = 0;
  std::copy(found_.begin(), found_.end(), flags);
  return error;
}

}  // namespace sok1x
