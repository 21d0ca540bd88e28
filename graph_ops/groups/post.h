// Messages between the ranks' executors, sent and received without Python: launch/mpi_transport.py's, whose place it
// takes for moments. To be used only inside that one's gate, while no message is half there.
#ifndef SOK1X_GROUPS_POST_H
#define SOK1X_GROUPS_POST_H

#include <cstring>
#include <deque>
#include <string>

#include "../bridge/bridge_clock.h"
#include "../bridge/bridge_queue.h"

namespace sok1x {

class Post {
 public:
  // Longer messages wait for the other side to look after them: Python receives those.
  static constexpr int kLongest = 4000;

  // Where messages go; null: nowhere now. It must be there for as long as it is not another.
  void Use(const Inbox* inbox) { inbox_ = inbox; }
  bool there() const { return inbox_ != nullptr; }
  // MPI has refused a call.
  bool broken() const { return broken_; }

  // waited_for: whether `Flush` is to wait for it.
  void Send(int rank, const std::string& data, bool waited_for) {
    std::deque<Sending>& sending = waited_for ? sending_ : rising_;
    sending.emplace_back();
    Sending& one = sending.back();
    one.data = data;
    Check(inbox_->isend(one.data.data(), one.data.size(), inbox_->byte, rank, inbox_->tag, inbox_->comm, &one.request));
    Gone(&rising_);
    Sent();
  }

  // Whether all has gone that is waited for, now or within some time: MPI sends a long message in pieces, while this
  // rank calls it.
  bool Flush(int64_t microseconds) {
    const int64_t until = MonotonicMicroseconds() + microseconds;
    while (!Sent() && !broken_) {
      if (MonotonicMicroseconds() >= until) return false;
    }
    return true;
  }

  // The next message that is there. False: there is none, or it is `longer`.
  bool Receive(int* source, std::string* data, bool* longer) {
    *longer = false;
    int flag = 0, bytes = 0;
    Check(inbox_->probe(inbox_->source, inbox_->tag, inbox_->comm, &flag, inbox_->status));
    if (!flag || broken_) return false;
    const char* status = static_cast<const char*>(inbox_->status);
    std::memcpy(source, status + inbox_->source_at, sizeof(*source));
    Check(inbox_->get_count(inbox_->status, inbox_->byte, &bytes));
    *longer = bytes > kLongest;
    if (*longer || broken_) return false;
    data->resize(bytes);
    Check(inbox_->recv(&(*data)[0], bytes, inbox_->byte, *source, inbox_->tag, inbox_->comm, inbox_->status));
    return !broken_;
  }

 private:
  struct Sending {
    std::string data;  // which must live until MPI has sent it
    void* request = nullptr;
  };

  bool Sent() { return Gone(&sending_); }
  bool Gone(std::deque<Sending>* sending) {
    while (!sending->empty() && !broken_) {
      int flag = 0;
      Check(inbox_->test(&sending->front().request, &flag, inbox_->status));
      if (!flag) return false;
      sending->pop_front();
    }
    return true;
  }
  void Check(int error) { broken_ = broken_ || error != 0; }

  const Inbox* inbox_ = nullptr;
  std::deque<Sending> sending_, rising_;  // what `Flush` waits for, and what not
  bool broken_ = false;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_POST_H
