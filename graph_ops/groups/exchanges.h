// Exchanges without Python: MPI's or NCCL's functions called here, for who is inside the executor's turn. What is not
// as usual goes by Python's communicators (launch/communicator.py), which do the same on the other ranks.
#ifndef SOK1X_GROUPS_EXCHANGES_H
#define SOK1X_GROUPS_EXCHANGES_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fork.h"

namespace sok1x {

// With whom a rank exchanges: with all; where exchanges go by hosts, inside its own, or with those of its local number
// on all. Others then have nothing for it. Kept in step with launch/by_hosts.py.
enum Among { kAll, kInside, kAcross };

// How ranks exchange, as Python does it. All return 0, or not: then Python knows why. Kept in step with
// bridge/lane_ranks.py.
struct Ways {
  // Units of memory, all ranks' side by side: what goes to each and comes from each, [N].
  int (*all_to_all)(int64_t gpu, const char* op, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes,
                    int64_t unit, int64_t among);
  // What this rank gives to all, and what comes from each, [N].
  int (*all_gather)(int64_t gpu, const char* op, int64_t give, int64_t take, const int64_t* takes, int64_t unit);
  // Begins to find out which of flags [count] are not 0 on any rank; and waits for that.
  int (*any_rank)(const uint8_t* flags, int64_t count);
  int (*any_rank_answer)(uint8_t* flags, int64_t count);
  // Whether what has been enqueued on a GPU since is as it must be.
  int (*ended)(int64_t gpu);
};

// What is under way: launch/direct.py has the words.
enum Doing { kDoingAllToAll, kDoingAllGather, kDoingAllReduce };

// Numbers of one array to be summed over ranks, and where the sums go.
struct Summed {
  int64_t give, take, count;
};

// What a communicator says of itself, and what is said of it here, for whoever watches over it. Kept in step with
// launch/direct.py.
struct Direct {
  int64_t rank, ranks;
  int64_t limit;                     // most units of one exchange
  std::atomic<int64_t> inside;       // 1: in a call
  std::atomic<int64_t> since;        // when an exchange began that may be under way, nanoseconds; 0: none
  std::atomic<int64_t> doing;        // which one: Doing
  std::atomic<int64_t> bytes_sent, exchanges;  // how many in all
  std::atomic<int64_t> comm;         // as the library calls it; 0: it has been ended

  // Of MPI:
  int (*alltoallv)(const void* give, const int* gives, const int* from, int64_t type, void* take, const int* takes,
                   const int* to, int64_t take_type, int64_t comm);
  int (*allgatherv)(const void* give, int gives, int64_t type, void* take, const int* takes, const int* to,
                    int64_t take_type, int64_t comm);
  int (*iallreduce)(const void* give, void* take, int count, int64_t type, int64_t op, int64_t comm, int64_t* request);
  int (*wait)(int64_t* request, void* status);
  int (*allreduce)(const void* give, void* take, int count, int64_t type, int64_t op, int64_t comm);
  int64_t byte, uint8, max, float32, float64, sum;
  const void* in_place;
  void* status;
  int64_t local, inside_comm, across_comm;  // of exchanges by hosts: ranks of a host, and as `comm`; else 0

  // Of NCCL:
  int (*group_start)();
  int (*group_end)();
  int (*send)(int64_t data, size_t count, int type, int rank, int64_t comm, int64_t stream);
  int (*recv)(int64_t data, size_t count, int type, int rank, int64_t comm, int64_t stream);
  int (*all_gather)(int64_t give, int64_t take, size_t count, int type, int64_t comm, int64_t stream);
  int (*broadcast)(int64_t give, int64_t take, size_t count, int type, int root, int64_t comm, int64_t stream);
  int (*all_reduce)(int64_t give, int64_t take, size_t count, int type, int op, int64_t comm, int64_t stream);
  int64_t averages;  // 1: it may divide sums by the number of ranks
  int64_t stream;

  char op[160];  // its name, of what is under way
};

class Exchanges {
 public:
  void Begin(const Ways* ways, Direct* host) {
    ways_ = ways;
    host_ = host;
  }
  void SetGpu(Direct* gpu) { gpu_ = gpu; }
  // Whether MPI may be called from here now.
  void Allow(bool allowed) { allowed_ = allowed; }

  // As Ways. own_there: what this rank would give itself is there already, and need not be in `give`, whose memory has
  // room for it all the same. fork: null, or what has been marked when that which goes to others was enqueued.
  int AllToAll(bool gpu, const char* op, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes,
               int64_t unit, Among among, bool own_there, const Fork* fork = nullptr);
  // What AllToAll may be given to begin sooner; null where there is none: not by NCCL. The thread is in the GPU's
  // context.
  const Fork* OpenFork(bool gpu) {
    return gpu && gpu_ != nullptr && fork_.Open(reinterpret_cast<void*>(gpu_->stream)) ? &fork_ : nullptr;
  }
  // Whether own_there may be so.
  bool KnowsOwn(bool gpu) const { return (gpu ? gpu_ : host_) != nullptr; }
  int AllGather(bool gpu, const char* op, int64_t give, int64_t take, const int64_t* takes, int64_t unit);
  // Whether sums can be made here, of arrays of at most so many numbers, divided or not; else they are Python's, which
  // makes the same calls.
  bool Sums(bool gpu, int64_t most, bool average) const;
  // Sums numbers over ranks, float64 or float32, in place, by MPI; and arrays of them, by NCCL (below 0: Python does).
  int SumByMpi(const char* op, void* numbers, int64_t count, bool doubles);
  int SumByNccl(const char* op, const std::vector<Summed>& arrays, bool doubles, bool average);
  int AnyRank(const char* op, const uint8_t* flags, int64_t count);
  int AnyRankAnswer(const char* op, uint8_t* flags, int64_t count);
  // To be called when what has been enqueued here is all: Python leaves a mark in the stream. Not 0 where an exchange
  // has been given up, which has ended without its data.
  int Ended(bool gpu) { return gpu || host_ == nullptr ? ways_->ended(gpu) : 0; }
  // Whether it is certain that none has been, and so `Ended` can be called when ops have been answered: it takes as
  // long as all else that follows the last exchange. (Python sets `comm` to 0 before it gives one up.)
  bool MayEndLater(bool gpu) const { return gpu && gpu_ != nullptr && gpu_->comm != 0; }

 private:
  int ByMpi(const char* op, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes, int64_t unit,
            Among among, bool own_there);
  int ByNccl(const char* op, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes, int64_t unit,
             bool own_there, const Fork* fork);
  // Puts what this rank has of its own where it would give it from.
  int PutOwn(bool gpu, int64_t give, const int64_t* gives, int64_t take, const int64_t* takes, int64_t unit);

  int GatherByMpi(const char* op, int64_t give, int64_t take, const int64_t* takes, int64_t unit);
  int GatherByNccl(const char* op, int64_t give, int64_t take, const int64_t* takes, int64_t unit);

  const Ways* ways_ = nullptr;
  Direct *host_ = nullptr, *gpu_ = nullptr;
  Fork fork_;
  bool allowed_ = false;
  std::vector<uint8_t> flags_, found_;
  bool asked_ = false;  // by MPI
  int64_t request_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_EXCHANGES_H
