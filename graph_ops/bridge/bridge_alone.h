// What one rank that is alone need not ask its executor for: sums over the ranks of what is its own.
//
// The dense gradients of a step go through one such op, and all of the dense variables' steps come after it: it would
// wait there for the executor, and this one, as a rule, for the GPU.
#ifndef SOK1X_BRIDGE_ALONE_H
#define SOK1X_BRIDGE_ALONE_H

#include <atomic>

namespace sok1x {

constexpr char kAllReduce[] = "operations.collectives.all_reduce";

// Whether this process has joined as the only rank. Set by the executor; false where it is to see all requests.
std::atomic<bool>* Alone();

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_ALONE_H
