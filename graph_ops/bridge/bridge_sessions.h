// The sessions that have kernels of ours. TensorFlow gives every session a handle of its own and keeps a session's
// kernels until the session is deleted.
#ifndef SOK1X_BRIDGE_SESSIONS_H
#define SOK1X_BRIDGE_SESSIONS_H

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace sok1x {

class Sessions {
 public:
  static Sessions* Get();

  void Enter(uint64_t session);
  // variables_end: whether they go with the session.
  void Leave(uint64_t session, bool variables_end);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, int64_t> kernels_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_SESSIONS_H
