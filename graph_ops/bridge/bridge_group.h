// Several requests of one device that run as one: locked together, ordered with TensorFlow's streams together,
// finished together. A member may still be used alone, with these rules:
//   - while the group holds locks, no member locks by itself, nor looks whether its variables have been initialized;
//   - while a member holds its own, the group does not lock;
//   - a member that finishes alone, or goes over to another group, leaves the group.
// For the executor's thread only, as requests are.
#ifndef SOK1X_BRIDGE_GROUP_H
#define SOK1X_BRIDGE_GROUP_H

#include <cstdint>
#include <memory>
#include <vector>

#include "bridge_request.h"

namespace sok1x {

class Group {
 public:
  Group(void* const* requests, int count);

  bool holds() const { return !held_.empty(); }
  // null: has finished.
  const std::vector<Request*>& members() const { return members_; }

  // Whoever works with what these give (variables, temporaries) orders the streams first: `Ready`.
  void Begin(void* own_stream, void* event);

  // The members' inputs, those in host memory last: [members, width]; entries that a member does not have stay as
  // they are.
  void Inputs(TensorInfo* infos, int width) const;

  // Locks all variables of all members, none twice, and describes their tensors, [members, width]. codes, one of each
  // member: 0, a status, or -1-i where variable i has not been initialized; of a member with a code other than 0
  // nothing is locked. Returns 0, or kGroupHolds where the group or a member holds locks already.
  int Lock(bool exclusive, TensorInfo* infos, int width, int32_t* codes);
  void Unlock();

  // Outputs of members: which member, which of its outputs, rank and dims [count, kMaxRank] of each.
  void Outputs(int count, const int32_t* members, const int32_t* indices, const int32_t* ranks, const int64_t* dims,
               void** data, int32_t* codes);

  // Memory for all members, until the last has finished.
  int Temporary(int64_t bytes, void** data);

  // The same, cut out of blocks: a block costs TensorFlow's allocator some microseconds. The first is as large as
  // `expected`, what the last group of the same kernels has taken in all.
  int Piece(int64_t bytes, void** data);
  // Blocks of memory, which go back to where they came from with the last who knows of them.
  class Blocks {
   public:
    Blocks(std::vector<tf::Tensor> blocks, bool on_host) : blocks_(std::move(blocks)), on_host_(on_host) {}
    ~Blocks();

   private:
    const std::vector<tf::Tensor> blocks_;
    const bool on_host_;
  };
  // All that the group has had of `Piece` and `Temporary` until now: it stays as long as anyone has what this gives.
  std::shared_ptr<Blocks> Lend();
  // Memory that is given back with the group's.
  void Keep(const tf::Tensor& block) { kept_.push_back(block); }
  void Expect(int64_t expected) { expected_ = expected; }
  int64_t pieces_bytes() const { return pieces_bytes_; }

  // To be told of memory that has been allocated for members, and, before anything is enqueued, to order the streams:
  // once for all that has been touched, for an order is two calls of the driver.
  void Touch() { touched_ = true; }
  void Ready();
  // To be told that something is enqueued, or may have been, that TensorFlow's streams have not been ordered after.
  void Enqueues() { followed_ = false; }

  // Ends all members that have not finished, successfully.
  void Finish();

  // Nobody calls the group from outside any more. It stays as long as its members.
  void Close();

  // For Request::Finish: before and after it has ordered the streams for the last time.
  void BeforeFinish();
  void Leave(Request* request);
  // The member goes over to another group. What memory it has here stays until the group is closed.
  void Forget(Request* request);

 private:
  ~Group() = default;
  // One order of the streams for all members: ours after TensorFlow's, or the other way round.
  void Order(bool ours_follows);
  void LetTensorFlowFollow();
  // In the order in which they are to be locked, none twice.
  static void Arrange(std::vector<tf::Var*>* variables);
  // Of what is locked, the variables of members with a code of 0 stay so.
  void KeepThoseOf(const int32_t* codes);
  void Release(const std::vector<tf::Var*>& held);
  void GiveBlocks();
  void Remove(Request* request);

  std::vector<Request*> members_;  // null: has finished
  int left_;                       // members that have not
  bool open_ = true;
  bool lent_ = false;  // a member has gone over to another group
  bool exclusive_ = false;
  bool on_host_;
  std::vector<tf::Var*> held_;  // locked, in order of address, each with a reference
  std::vector<tf::Tensor> blocks_, kept_;
  std::shared_ptr<Blocks> lent_blocks_;
  bool touched_ = false;
  bool followed_ = false;  // TensorFlow's streams come after all that has been enqueued
  int64_t expected_ = 0, pieces_bytes_ = 0;
  char* piece_ = nullptr;  // what is left of the last block
  int64_t piece_left_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_GROUP_H
