// What the passes that change the graph of a session.run have in common.
#ifndef SOK1X_BRIDGE_PASSES_H
#define SOK1X_BRIDGE_PASSES_H

#include <cstdlib>
#include <string>

#include "tensorflow/core/common_runtime/optimization_registry.h"

namespace sok1x {

namespace tf = ::tensorflow;

// The graph, if it is a session's and the environment does not say that graphs stay as they are; else null.
inline tf::Graph* GraphToChange(const tf::GraphOptimizationPassOptions& options) {
  const char* chosen = std::getenv("SOK1X_FUSE");
  if (options.graph == nullptr || options.session_options == nullptr ||
      (chosen != nullptr && std::string(chosen) == "0")) {
    return nullptr;
  }
  return options.graph->get();
}

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_PASSES_H
