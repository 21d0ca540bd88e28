// See bridge_group.h: streams, locks and memory of a group. How it ends is in bridge_finish.cc.
#include "bridge_group.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "bridge_calls.h"

namespace sok1x {

Group::Group(void* const* requests, int count) : left_(count) {
  for (int i = 0; i < count; ++i) {
    auto* request = static_cast<Request*>(requests[i]);
    if (request->group != nullptr) request->group->Forget(request);
    request->group = this;
    members_.push_back(request);
  }
  on_host_ = count == 0 || members_[0]->stream == nullptr;
}

void Group::Order(bool ours_follows) {
  std::vector<void*> ordered;  // TensorFlow has one stream for its kernels on a GPU, but need not
  for (const Request* request : members_) {
    if (request == nullptr || request->own_stream == nullptr ||
        std::find(ordered.begin(), ordered.end(), request->stream) != ordered.end()) {
      continue;
    }
    ordered.push_back(request->stream);
    const int error = ours_follows ? Cuda::Get()->Follow(request->event, request->stream, request->own_stream)
                                   : Cuda::Get()->Follow(request->event, request->own_stream, request->stream);
    if (error == 0) continue;
    for (Request* other : members_) {
      if (other != nullptr && other->stream == request->stream) other->Note(error);
    }
  }
}

void Group::Begin(void* own_stream, void* event) {
  for (Request* request : members_) {
    if (request == nullptr) continue;
    request->own_stream = own_stream;
    request->event = event;
  }
  Touch();
}

void Group::Inputs(TensorInfo* infos, int width) const {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i] == nullptr) continue;
    std::copy(members_[i]->inputs.begin(), members_[i]->inputs.end(), infos + i * width);
  }
}

int Group::Lock(bool exclusive, TensorInfo* infos, int width, int32_t* codes) {
  if (holds()) return kGroupHolds;
  std::vector<tf::Var*> order;
  for (size_t i = 0; i < members_.size(); ++i) {
    const Request* request = members_[i];
    codes[i] = request == nullptr ? 9 : 0;  // FAILED_PRECONDITION: it has finished
    if (request == nullptr) continue;
    if (!request->held.empty()) return kGroupHolds;
    for (size_t j = 0; j < request->variables.size() && codes[i] == 0; ++j) {
      if (request->variables[j].get() == nullptr) codes[i] = -1 - static_cast<int>(j);
    }
    if (codes[i] != 0) continue;
    for (const auto& variable : request->variables) order.push_back(variable.get());
  }
  // TensorFlow's rule for ops that lock several variables, here for all that the members have.
  Arrange(&order);
  exclusive_ = exclusive;
  for (tf::Var* variable : order) {
    variable->Ref();  // the member that uses it may let it go
    if (exclusive) {
      variable->mu()->lock();
    } else {
      variable->mu()->lock_shared();
    }
  }
  held_ = std::move(order);
  Touch();
  if (exclusive) Enqueues();  // a copy of a variable, if it is shared
  bool all = true;
  for (size_t i = 0; i < members_.size(); ++i) {
    Request* request = members_[i];
    for (size_t j = 0; codes[i] == 0 && j < request->variables.size(); ++j) {
      tf::Var* variable = request->variables[j].get();
      if (!HasValue(variable)) {
        codes[i] = -1 - static_cast<int>(j);
        break;
      }
      if (exclusive) codes[i] = Report(MakeWritable(request, variable));
      if (codes[i] != 0) break;
      Describe(*variable->tensor(), &infos[i * width + j]);
    }
    all = all && codes[i] == 0;
  }
  if (!all) KeepThoseOf(codes);
  return 0;
}

void Group::Arrange(std::vector<tf::Var*>* variables) {
  // A mutex is at the same place in each of them, so these are in order of address, too.
  std::sort(variables->begin(), variables->end(), std::less<tf::Var*>());
  variables->erase(std::unique(variables->begin(), variables->end()), variables->end());
}

void Group::KeepThoseOf(const int32_t* codes) {
  std::vector<tf::Var*> needed, kept, released;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (codes[i] != 0) continue;
    for (const auto& variable : members_[i]->variables) needed.push_back(variable.get());
  }
  Arrange(&needed);
  for (tf::Var* variable : held_) {
    (std::binary_search(needed.begin(), needed.end(), variable, std::less<tf::Var*>()) ? kept : released)
        .push_back(variable);
  }
  Release(released);
  held_ = std::move(kept);
}

void Group::Release(const std::vector<tf::Var*>& held) {
  for (auto it = held.rbegin(); it != held.rend(); ++it) {
    if (exclusive_) {
      (*it)->mu()->unlock();
    } else {
      (*it)->mu()->unlock_shared();
    }
  }
  for (tf::Var* variable : held) variable->Unref();  // the last of which frees it
}

void Group::Unlock() {
  if (held_.empty()) return;
  LetTensorFlowFollow();
  Release(held_);
  held_.clear();
}

void Group::Outputs(int count, const int32_t* members, const int32_t* indices, const int32_t* ranks,
                    const int64_t* dims, void** data, int32_t* codes) {
  for (int i = 0; i < count; ++i) {
    const bool known = members[i] >= 0 && members[i] < static_cast<int>(members_.size());
    Request* request = known ? members_[members[i]] : nullptr;
    data[i] = nullptr;
    codes[i] = request == nullptr ? 9 : Allocate(request, indices[i], ranks[i], dims + kMaxRank * i, &data[i]);
  }
  Order(true);
}

int Group::Temporary(int64_t bytes, void** data) {
  for (Request* request : members_) {
    if (request == nullptr) continue;
    tf::Tensor block;
    const int code = AllocateTemporary(request, bytes, &block, data);
    if (code != 0) return code;
    blocks_.push_back(block);
    Touch();
    return 0;
  }
  return 9;
}

int Group::Piece(int64_t bytes, void** data) {
  constexpr int64_t kAlign = 256;  // what CUDA's own allocations have
  bytes = std::max(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  if (bytes > piece_left_) {
    const int64_t size = piece_ == nullptr ? std::max(bytes, expected_) : bytes;
    void* block = nullptr;
    int64_t given = size;
    int code = Temporary(given, &block);
    if (code != 0 && size > bytes) code = Temporary(given = bytes, &block);  // memory has become scarce
    if (code != 0) return code;
    piece_ = static_cast<char*>(block);
    piece_left_ = given;
  }
  *data = piece_;
  piece_ += bytes;
  piece_left_ -= bytes;
  pieces_bytes_ += bytes;
  return 0;
}

std::shared_ptr<Group::Blocks> Group::Lend() {
  lent_blocks_ = std::make_shared<Blocks>(std::move(blocks_), on_host_);
  blocks_.clear();
  piece_ = nullptr;
  piece_left_ = 0;
  return lent_blocks_;
}

void Group::Ready() {
  Enqueues();
  void* block = nullptr;
  // Now, or there would be an order more.
  if (piece_ == nullptr && expected_ > 0 && Temporary(expected_, &block) == 0) {
    piece_ = static_cast<char*>(block);
    piece_left_ = expected_;
  }
  if (!touched_) return;
  touched_ = false;
  Order(true);
}

void Group::LetTensorFlowFollow() {
  if (followed_) return;
  followed_ = true;
  Order(false);
}

}  // namespace sok1x
